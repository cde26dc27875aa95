"""`tfwatch try`: what one change to a script would give, measured in child processes.

The script runs as written and with the change in turn, a few steps each time. A training that runs
is not touched.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from tfwatch.cli.script.request import RunOptions, check_script, script_of_words
from tfwatch.cli.script.run import script_command
from tfwatch.core import units
from tfwatch.core.clock import SYSTEM
from tfwatch.core.errors import BadInputError, printable
from tfwatch.runs.script_process import ScriptChange, ScriptTrial

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from tfwatch.judge.comparing.run_to_compare import RunToCompare

#: What each change does to what is trained.
_EFFECTS = {
    ScriptChange.WITHOUT_METRIC: "The weights stay the same: only the logs lack the metric.",
    ScriptChange.JIT_COMPILE: "The model stays the same; XLA rounds otherwise.",
    ScriptChange.MIXED_BFLOAT16: "What is trained changes: layers compute in bfloat16.",
}
#: Seconds between two looks at the child, and the last lines of one that failed.
_LOOK_S, _LAST_LINES = 0.5, 5
#: Looks after the end of a run: a process whose pipeline waits in Python may not end by itself, and
#: is killed.
_LOOKS_AFTER_END = 10


def try_change(args: argparse.Namespace) -> int:
    """Measure a change to a script, and print how much faster a step is with it.

    Raises:
        BadInputError: there is no such script, or it cannot be tried.
    """
    script = script_of_words(args.words, "try")
    if script[0] != "-m":
        check_script(script[0])
    _announce(args, script)
    with tempfile.TemporaryDirectory(prefix="tfwatch-try-") as folder:
        sides: tuple[list[RunToCompare], list[RunToCompare]] = ([], [])
        for number, side in enumerate(_order(args.rounds), 1):
            change = ("", args.change)[side]
            options = _options(args, script, Path(folder) / str(number), change)
            sides[side].append(measure(options, f"run {number}"))
            _report(number, change, args, sides[side][-1])
        return _print_answer(args, sides)


def _announce(args: argparse.Namespace, script: list[str]) -> None:
    count, steps = units.counted(2 * args.rounds, "time"), units.counted(args.steps, "step")
    _say(
        f"{' '.join(script)} runs {count}, for {steps} of its first fit, as written and"
        f" {_name(args)} in turn. What it writes until then it writes; Keras' callbacks that write"
        " files are left out, and so is validation. Other programs disturb the measurement."
    )


def _order(rounds: int) -> Iterator[int]:
    """Yield 0 and 1 in turn: what changes with time changes both. The change comes first: where it
    cannot be made, nothing more is run."""
    pairs = itertools.islice(itertools.cycle(((1, 0), (0, 1))), rounds)
    return itertools.chain.from_iterable(pairs)


def _options(
    args: argparse.Namespace, script: list[str], runs_dir: Path, change: str
) -> RunOptions:
    trial = ScriptTrial(args.steps, change, args.metric or "")
    return RunOptions(script, runs_dir, headless=True, python=args.python, trial=trial)


# -- a run -----------------------------------------------------------------------------------------


def measure(options: RunOptions, name: str) -> RunToCompare:
    """Run the script, and return its run.

    Raises:
        BadInputError: it failed, or has no fit.
    """
    from tfwatch.judge.comparing.run_to_compare import RunToCompare
    from tfwatch.judge.judged_run import JudgedRun
    from tfwatch.runs.run import open_run

    options.runs_dir.mkdir()
    output = options.runs_dir / "output.txt"
    code = _run(options, output)
    folders = [one.parent for one in options.runs_dir.glob("*/run.json")]
    if code or not folders:
        lines = output.read_text(errors="replace").splitlines()[-_LAST_LINES:]
        _say("\n".join(map(printable, lines)))
        failed = f"its exit code is {code}" if code else "it has no fit"
        raise BadInputError(f"the script cannot be tried: {failed}")
    return RunToCompare(JudgedRun(open_run(folders[0])), name)


def _run(options: RunOptions, output: Path) -> int:
    """Run the script to its last step, and return its exit code."""
    environment = {**os.environ, "TFWATCH_RUNS_DIR": str(options.runs_dir)}
    with output.open("wb") as log:
        child = subprocess.Popen(
            script_command(options, None),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
        )
        try:
            return _wait(child, options.runs_dir)
        finally:
            child.kill()
            child.wait()


def _wait(child: subprocess.Popen[bytes], runs_dir: Path) -> int:
    """Wait for the end of the script.

    Raises:
        BadInputError: it trains in a loop of its own, which would run to its end.
    """
    from tfwatch.runs.folder import RunFolder

    pause, looks = threading.Event(), 0
    while child.poll() is None and looks < _LOOKS_AFTER_END:
        folders = [one.parent for one in runs_dir.glob("*/run.json")]
        loops = (RunFolder(one).manifest().loop for one in folders)
        if loop := next(filter(None, loops), ""):
            raise BadInputError(f"a loop of the script's own cannot be tried: {printable(loop)}")
        looks += any(map(_has_ended, folders))
        pause.wait(_LOOK_S)
    return child.returncode or 0


def _has_ended(folder: Path) -> bool:
    from tfwatch.runs.run import RECENT, open_run

    return open_run(folder, SYSTEM, RECENT).ended is not None


# -- the answer ------------------------------------------------------------------------------------


def _report(number: int, change: str, args: argparse.Namespace, run: RunToCompare) -> None:
    split, which = run.judged.split, _name(args) if change else "as written"
    step = units.milliseconds(split.step.median) if split else units.MISSING
    _say(f"{number} of {2 * args.rounds}, {which}: {step}/step")


def _print_answer(
    args: argparse.Namespace, sides: tuple[list[RunToCompare], list[RunToCompare]]
) -> int:
    from tfwatch.judge.comparing.compared_runs import compare_runs
    from tfwatch.judge.comparing.run_to_compare import NotComparableError
    from tfwatch.report.comparison_report import answer_text
    from tfwatch.terminal.output import write

    try:
        answer = answer_text(compare_runs(*sides))
    except NotComparableError as error:
        raise BadInputError(str(error)) from error
    lines = ("A  as written", f"B  {_name(args)}", "", answer, _EFFECTS[args.change])
    return write(sys.stdout, "".join(f"{line}\n" for line in lines))


def _name(args: argparse.Namespace) -> str:
    if args.change == ScriptChange.WITHOUT_METRIC:
        return f"without the metric {printable(args.metric)}"
    return f"with {args.change}"


def _say(text: str) -> None:
    from tfwatch.report.text import wrapped
    from tfwatch.terminal.output import terminal_columns, write

    write(sys.stderr, wrapped(f"{text}\n", terminal_columns(sys.stderr)))
