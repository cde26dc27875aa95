"""`tfwatch fix`: run a script, and print the settings that it proves faster as a patch of its
files."""

from __future__ import annotations

import contextlib
import itertools
import json
import signal
import sys
from typing import TYPE_CHECKING, NoReturn

from tfwatch.cli.script.request import RunOptions, script_of_words
from tfwatch.cli.script.run import end_as, run_recorded, say
from tfwatch.cli.script.trial import measure
from tfwatch.core.clock import SYSTEM
from tfwatch.core.errors import BadInputError, printable
from tfwatch.core.temporary_files import temporary_folder
from tfwatch.tuner.autopilot import Autopilot

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from pathlib import Path

    from tfwatch.cli.script.run import Ran
    from tfwatch.fix.changes import Wanted
    from tfwatch.fix.pairs import PairedRuns
    from tfwatch.fix.script_fix import ScriptFix
    from tfwatch.judge.comparing.run_to_compare import RunToCompare
    from tfwatch.runs.script_process import ScriptTrial


#: The exit codes of a script that ctrl+c or SIGTERM ended.
_STOPPED = (130, 143)
_NO_CHANGE = "the script was stopped: no patch, and no file is changed"


def fix(args: argparse.Namespace) -> int:
    """Print the patch of a script; return 0, or 1 where no setting is proved faster.

    Raises:
        BadInputError: there is no such script, or its file changed and is not written.
    """
    from tfwatch.fix.changes import Wanted

    wanted = Wanted(tuple(args.only), tuple(args.allow))
    wanted.check()
    options = RunOptions(
        script_of_words(args.words, "fix"),
        args.runs_dir,
        headless=True,
        python=args.python,
        as_json=True,
        steps=args.steps,
        explain=wanted.needs_profile,
        job=Autopilot(),
    )
    began_ns, live = SYSTEM.wall_ns(), None
    if wanted.is_live:
        live = run_recorded(options)
        if live[0].code < 0 or live[0].code in _STOPPED:
            say(_NO_CHANGE)
            return end_as(live[0].code)
    with temporary_folder("fix-") as folder, _ended_by_signals():
        pairs = _pairs(args, options, folder) if wanted.restarts else None
        found = _find(live, began_ns, pairs, wanted)
    if args.apply and found.patch:
        found.patch.write()
    return _print(found, args)


def _find(
    live: tuple[Ran, list[Path]] | None, began_ns: int, pairs: PairedRuns | None, wanted: Wanted
) -> ScriptFix:
    """Return the fix of a script. live: its run to its end; None where it has none.

    Raises:
        BadInputError: it has neither runs.
    """
    from tfwatch.fix.script_fix import fix_changes, fix_script

    if live:
        return fix_script(live[1], live[0].code, began_ns, pairs, wanted)
    if pairs is None:
        raise BadInputError("a module does not run again: give the file of its script")
    return fix_changes(began_ns, pairs, wanted)


def _pairs(args: argparse.Namespace, options: RunOptions, folder: Path) -> PairedRuns | None:
    """Return how the script runs again; None for a module. folder: for the runs."""
    from tfwatch.fix.pairs import PairedRuns

    script, *words = options.script
    numbers = itertools.count(1)

    def measure_trial(copy: Path, trial: ScriptTrial) -> RunToCompare:
        number = str(next(numbers))
        again = RunOptions(
            [str(copy), *words], folder / number, headless=True, python=args.python, trial=trial
        )
        return measure(again, f"run {number}")

    if script == "-m":
        return None
    until_ns = SYSTEM.now_ns() + round(args.budget * 1e9)
    return PairedRuns(script, measure_trial, SYSTEM, until_ns, say)


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """End at SIGTERM and at a hangup as at ctrl+c: what is not needed any more is removed first.

    A signal that is ignored stays so, as the hangup under nohup.
    """
    ending = (signal.SIGTERM, signal.SIGHUP)
    taken = [number for number in ending if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, _end) for number in taken}
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        say(_NO_CHANGE)
        raise
    finally:
        for number, handler in before.items():
            # A handler in C is None, and cannot be put back.
            if handler is not None:
                signal.signal(number, handler)


def _end(signum: int, frame: object) -> NoReturn:
    raise SystemExit(128 + signum)


def _print(found: ScriptFix, args: argparse.Namespace) -> int:
    """Print the evidence, and the patch, the JSON object or the Markdown; return the exit code."""
    from tfwatch.fix.evidence import as_json, as_lines, as_markdown
    from tfwatch.terminal.output import write

    say("\n".join(map(printable, as_lines(found, args.apply))))
    if args.json:
        failed = write(sys.stdout, f"{json.dumps(as_json(found, args.apply), indent=1)}\n")
    elif args.markdown:
        failed = write(sys.stdout, f"{as_markdown(found)}\n")
    else:
        failed = _print_diff(found.patch.diff if found.patch else b"")
    return failed or (0 if found.patch else 1)


def _print_diff(diff: bytes) -> int:
    """Print a diff: as it is for a program, without control characters on a terminal."""
    from tfwatch.terminal.output import write

    if sys.stdout.isatty():
        lines = (line.split("\t") for line in diff.decode(errors="replace").split("\n"))
        return write(sys.stdout, "\n".join("\t".join(map(printable, one)) for one in lines))
    with contextlib.suppress(OSError):
        sys.stdout.buffer.write(diff)
    return write(sys.stdout, "")
