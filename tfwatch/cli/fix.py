"""`tfwatch fix`: run a script, and print the settings that it proves faster as a patch of its
files."""

from __future__ import annotations

import contextlib
import itertools
import json
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from tfwatch.cli.script.request import RunOptions, script_of_words
from tfwatch.cli.script.run import end_as, run_recorded
from tfwatch.cli.script.trial import measure
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import printable
from tfwatch.runs.script_process import ScriptTrial
from tfwatch.tuner.autopilot import Autopilot

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from tfwatch.fix.script_fix import Restarts, ScriptFix
    from tfwatch.fix.tried import Tried
    from tfwatch.judge.comparing.run_to_compare import RunToCompare


#: The exit codes of a script that ctrl+c or SIGTERM ended.
_STOPPED = (130, 143)


def fix(args: argparse.Namespace, clock: Clock = SYSTEM) -> int:
    """Print the patch of a script; return 0, or 1 where no setting is proved faster.

    Raises:
        BadInputError: there is no such script, or its file changed and is not written.
    """
    options = RunOptions(
        script_of_words(args.words, "fix"),
        args.runs_dir,
        headless=True,
        python=args.python,
        as_json=True,
        steps=args.steps,
        job=Autopilot(),
    )
    began_ns = clock.wall_ns()
    ran, runs = run_recorded(options, clock)
    if ran.code < 0 or ran.code in _STOPPED:
        _say("the script was stopped: no patch, and no file is changed")
        return end_as(ran.code)
    from tfwatch.fix.script_fix import fix_script

    with tempfile.TemporaryDirectory(prefix="tfwatch-fix-") as folder, _ended_by_signals():
        restarts = _restarts(args, options, Path(folder), clock)
        found = fix_script(runs, ran.code, began_ns, restarts)
    if args.apply and found.patch:
        found.patch.write()
    return _print(found, is_applied=args.apply, as_json=args.json)


def _restarts(
    args: argparse.Namespace, options: RunOptions, folder: Path, clock: Clock
) -> Restarts | None:
    """Return how the script is run again; None where it is not. folder: for the runs."""
    from tfwatch.fix.script_fix import Restarts

    script, *words = options.script
    if args.only or script == "-m":
        return None
    numbers = itertools.count(1)

    def measure_steps(copy: Path, steps: int) -> RunToCompare:
        number = str(next(numbers))
        again = RunOptions(
            [str(copy), *words],
            folder / number,
            headless=True,
            python=args.python,
            trial=ScriptTrial(steps),
        )
        return measure(again, f"run {number}")

    return Restarts(script, measure_steps, args.budget, clock, _say)


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """End at SIGTERM and at a hangup as at ctrl+c: what is not needed any more is removed first."""
    before = {number: signal.signal(number, _end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(signum: int, frame: object) -> NoReturn:
    raise SystemExit(128 + signum)


def _print(found: ScriptFix, *, is_applied: bool, as_json: bool) -> int:
    """Print the report, and the patch or the JSON object; return the exit code."""
    from tfwatch.terminal.output import write

    _say("\n".join(map(printable, _report(found, is_applied))))
    if as_json:
        text = json.dumps(_document(found, is_applied), indent=1)
        failed = write(sys.stdout, f"{text}\n")
    else:
        failed = _print_diff(found.patch.diff if found.patch else b"")
    return failed or (0 if found.patch else 1)


def _print_diff(diff: bytes) -> int:
    """Print a diff: as it is for a program, without control characters on a terminal."""
    from tfwatch.terminal.output import write

    if sys.stdout.isatty():
        lines = diff.decode(errors="replace").split("\n")
        return write(sys.stdout, "\n".join(map(_on_terminal, lines)))
    with contextlib.suppress(OSError):
        sys.stdout.buffer.write(diff)
    return write(sys.stdout, "")


def _on_terminal(line: str) -> str:
    return "\t".join(map(printable, line.split("\t")))


def _report(found: ScriptFix, is_applied: bool) -> Iterator[str]:
    """Yield what was tried, the evidence, and what becomes of the patch."""
    width = max((len(one.change) for one in found.tried), default=0)
    for one in found.tried:
        yield f"{'kept ' if one.kept else 'tried'}  {one.change:<{width}}  {one.outcome}"
    yield from found.evidence
    if found.patch is None:
        yield found.why_none
        return
    checked = found.patch.checked
    yield f"{checked} applies it to a copy" if checked else "not tried: there is no git or patch"
    names = ", ".join(one.file.name for one in found.patch.files)
    apply = f"in {found.patch.folder}: git apply, or patch -p1"
    yield f"written: {names}" if is_applied else f"nothing is written; to apply it, {apply}"


def _document(found: ScriptFix, is_applied: bool) -> dict[str, Any]:
    patch = found.patch
    return {
        "patch": patch.diff.decode(errors="replace") if patch else None,
        "folder": str(patch.folder) if patch else None,
        "checked_by": (patch.checked or None) if patch else None,
        "applied": is_applied and patch is not None,
        "why_none": found.why_none or None,
        "tried": [_tried(one) for one in found.tried],
        "evidence": list(found.evidence),
        "runs": [str(run) for run in found.runs],
    }


def _tried(one: Tried) -> dict[str, Any]:
    known = one.estimate
    return {
        "change": one.change,
        "outcome": one.outcome,
        "kept": one.kept,
        "speedup": known.ratio if known else None,
        "speedup_low": known.low if known else None,
        "speedup_high": known.high if known else None,
    }


def _say(text: str) -> None:
    from tfwatch.report.text import wrapped
    from tfwatch.terminal.output import terminal_columns, write

    write(sys.stderr, wrapped(f"{text}\n", terminal_columns(sys.stderr)))
