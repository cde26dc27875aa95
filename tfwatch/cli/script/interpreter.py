"""The script that a user names, and the interpreter that runs it: are they there, and fit?"""

from __future__ import annotations

import os
import stat
import subprocess

from tfwatch.core.errors import BadInputError

#: The packages that the recording half needs in the script's process.
_NEEDED = ("keras", "msgspec", "numpy", "psutil")
_OLDEST = (3, 10)
_PROBE = """\
import importlib.util, sys
missing = (name for name in sys.argv[1:] if importlib.util.find_spec(name) is None)
print("tfwatch", *sys.version_info[:2], *missing)
"""
#: A first start of Python from a slow disk takes seconds.
_PATIENCE_S = 60


def check_script(script: str) -> None:
    """Check that there is a script, or a folder that runs as one.

    Raises:
        BadInputError: there is neither.
    """
    try:
        mode = os.stat(script).st_mode
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise BadInputError(f"{script} cannot be run: {why or error}") from error
    if not stat.S_ISREG(mode) and not os.path.isfile(os.path.join(script, "__main__.py")):
        raise BadInputError(
            f"{script} cannot be run: it is neither a file nor a folder with a __main__.py"
        )


def check_interpreter(python: str) -> None:
    """Start an interpreter, and check its version and its packages.

    Raises:
        BadInputError: it is not one, too old, or lacks a package; the sentence names the fix.
    """
    word, *answer = _ask(python)
    if word != "tfwatch" or len(answer) < 2:
        raise BadInputError(f"{python} is not a Python interpreter")
    version, missing = tuple(map(int, answer[:2])), answer[2:]
    if version < _OLDEST:
        oldest, present = (".".join(map(str, one)) for one in (_OLDEST, version))
        raise BadInputError(f"{python} is Python {present}, and tfwatch needs {oldest} or newer")
    if missing:
        names = " ".join(missing)
        raise BadInputError(
            f"{python} lacks {', '.join(missing)}: install with {python} -m pip install {names}"
        )


def _ask(python: str) -> list[str]:
    """Return the words that the interpreter prints; a single empty one without an answer."""
    command = [python, "-c", _PROBE, *_NEEDED]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE_S,
        )
    except OSError as error:
        raise BadInputError(f"{python} cannot be started: {error.strerror or error}") from error
    except subprocess.TimeoutExpired as error:
        raise BadInputError(f"{python} did not respond within {_PATIENCE_S} s") from error
    return done.stdout.split() or [""]
