"""The interpreter of `tfwatch run --python`, for a tfwatch that is installed apart from TensorFlow (pipx, uv tool)."""

from __future__ import annotations

import subprocess

from tfwatch.workloads.workload import BadInputError

#: The packages that the recording half needs in the script's process.
_NEEDED = ("keras", "numpy", "psutil")
_OLDEST = (3, 10)
_PROBE = """\
import importlib.util, sys
print("tfwatch", *sys.version_info[:2], *(name for name in sys.argv[1:] if importlib.util.find_spec(name) is None))
"""
#: A first start of Python from a slow disk takes seconds.
_PATIENCE_S = 60


def check_interpreter(python: str) -> None:
    """Start an interpreter, and check its version and its packages.

    Raises:
        BadInputError: it is not one, too old, or lacks a package; the sentence names the fix.
    """
    word, *found = _ask(python)
    if word != "tfwatch" or len(found) < 2:
        raise BadInputError(f"{python} is not a Python interpreter")
    version, missing = tuple(map(int, found[:2])), found[2:]
    if version < _OLDEST:
        oldest, present = (".".join(map(str, one)) for one in (_OLDEST, version))
        raise BadInputError(f"{python} is Python {present}, and tfwatch needs {oldest} or newer")
    if missing:
        names = " ".join(missing)
        raise BadInputError(f"{python} lacks {', '.join(missing)}: install with {python} -m pip install {names}")


def _ask(python: str) -> list[str]:
    """Return the words that the interpreter prints; a single empty one without an answer."""
    command = [python, "-c", _PROBE, *_NEEDED]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=_PATIENCE_S
        )
    except OSError as error:
        raise BadInputError(f"{python} cannot be started: {error.strerror or error}") from error
    except subprocess.TimeoutExpired as error:
        raise BadInputError(f"{python} did not respond within {_PATIENCE_S} s") from error
    return done.stdout.split() or [""]
