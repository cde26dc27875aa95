"""Why TensorFlow died when it was tried, from its own last words."""

from __future__ import annotations

import contextlib
import re
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfwatch.doctor.trial import Trial

_REINSTALL = "install it anew in a fresh virtual environment: python -m venv .venv; .venv/bin/pip install tfwatch"
_ARM = "on an Apple chip install an arm64 Python (this one may run under Rosetta 2); elsewhere build TensorFlow for it"
_PAIR = "install a pair that works: pip install 'tensorflow>=2.18,<2.20' 'tensorflow-metal>=1.2'"
#: Words of a library or of the loader, and what to do about them; the first kind that is found counts.
_KNOWN = (
    (r"(?:The TensorFlow library )?was compiled to use [A-Z0-9_., ]{1,200} instructions[^\n]{0,100}", _ARM),
    (r"Library not loaded: \S{1,300}", _PAIR),
    (r"[Ss]ymbol not found[^\n]{1,300}", _PAIR),
    (r"A module that was compiled using NumPy 1\.x cannot be run in[^\n]{0,200}", "pip install 'numpy<2'"),
    (r"version `GLIBC[^\n]{1,300}", "this system is older than TensorFlow's wheels: use a newer one, or a container"),
    (r"\S{1,200}: cannot open shared object file[^\n]{0,100}", _REINSTALL),
    (
        r"(?m)^ModuleNotFoundError: No module named [^\n]{1,200}",
        "install what is named, or all anew: pip install tfwatch",
    ),
    (
        r"(?m)^[^\n]{0,100}(?:out of memory|OOM when allocating)[^\n]{0,200}",
        "free the device's memory: another program holds it",
    ),
)
_SIGNALS: dict[int, tuple[str, str]] = {
    signal.SIGILL: ("the processor lacks an instruction that it was built for", _ARM),
    signal.SIGKILL: (
        "it was killed from outside, most often because memory ran out",
        "free memory, or raise the container's limit",
    ),
}
#: The end of a Python traceback, and what faulthandler writes above the stack of a fatal signal.
_ERROR = re.compile(
    r"(?m)^(?:[\w.]{1,100}(?:Error|Exception|Interrupt)\b[^\n]{0,400}|Fatal Python error: [^\n]{1,200})"
)
_FRAME = re.compile(r'(?m)^  File "([^"<\n]{1,300})", line (\d+) in ([\w<>]{1,100})')
_STAGES = {
    "import": "import tensorflow",
    "devices": "listing its devices",
    "products": "a matrix product",
    "step": "a training step of a small network",
    "exit": "leaving Python",
}


def what_was_tried(trial: Trial) -> str:
    """The stage that did not end, in words."""
    return _STAGES.get(trial.stage, trial.stage)


def explain(trial: Trial) -> tuple[str, str]:
    """What happened, in TensorFlow's own words where it left some, and what to do. For a trial that is not whole."""
    tried = what_was_tried(trial)
    if trial.fate == "failed":
        return f"Python could not be started to try TensorFlow: {trial.words}", "look at the memory and process limits"
    if trial.fate == "hung":
        found = f"{tried} did not end within {trial.limit_s:g} s{_where(trial.words)}"
        return found, "try it alone, twice (a first import reads much): python -X importtime -c 'import tensorflow'"
    words, todo = _known(trial.words)
    return f"{tried} {_end(trial.code)}{words and f': {words}'}", todo or _advice(trial.code)


def _known(words: str) -> tuple[str, str]:
    for pattern, todo in _KNOWN:
        # A traceback shows the line of code first, which may hold the same words.
        if found := list(re.finditer(pattern, words)):
            return found[-1][0].strip(), todo
    errors = _ERROR.findall(words)
    return (errors[-1], "") if errors else (_last_line(words), "")


def _last_line(words: str) -> str:
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def _end(code: int | None) -> str:
    if code is None or code >= 0:
        return f"failed with exit code {code}"
    reason = _SIGNALS.get(-code, ("", ""))[0]
    return f"was ended by {_name(-code)}{reason and f' ({reason})'}"


def _name(signum: int) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(signum).name
    return f"signal {signum}"


def _advice(code: int | None) -> str:
    return _SIGNALS.get(-(code or 0), ("", _REINSTALL))[1]


def _where(words: str) -> str:
    """The innermost frame of the main thread's stack, which the child writes before its time is over."""
    stack = words.rpartition("(most recent call first)")[2]
    found = _FRAME.search(stack)
    return f"; it was in {found[3]} of {'/'.join(found[1].split('/')[-3:])}, line {found[2]}" if found else ""
