"""`tfwatch doctor` and `selftest`: is the installation right, and are the figures?"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TextIO

from tfwatch.core.temporary_folder import temporary_folder
from tfwatch.doctor.checks import Status, check_up, counted, worst
from tfwatch.doctor.facts import describe_load
from tfwatch.doctor.packages import require_tensorflow
from tfwatch.terminal.capture import Capture
from tfwatch.terminal.output import has_unicode, render, show_progress, write

if TYPE_CHECKING:
    import argparse

    from tfwatch.doctor.checks import CheckUp


_STYLES = {
    Status.FAIL: "bold red",
    Status.WARN: "bold yellow",
    Status.OK: "green",
    Status.NA: "dim",
}
#: Of the delays of the selftest.
_SEED = 20_11


def doctor(args: argparse.Namespace) -> int:
    """Check everything and print it. 1 where a check fails or printing does; 130 for ctrl+c."""
    if args.sudoers:
        return print_sudoers()
    try:
        found = check_up(args.runs_dir, lambda name: show_progress(sys.stderr, f"checking {name}"))
    except KeyboardInterrupt:
        return 130
    finally:
        show_progress(sys.stderr, "")
    unwritten = write(sys.stdout, as_text(found, sys.stdout))
    return 1 if worst(found.checks) is Status.FAIL else unwritten


def print_sudoers() -> int:
    """Print the line that permits powermetrics to this user. Returns 1 where printing fails."""
    from tfwatch.sensors.gpu.powermetrics import sudoers

    if sys.platform != "darwin":
        sys.stderr.write("tfwatch: powermetrics is a tool of macOS: no other system needs this\n")
    return write(sys.stdout, sudoers(os.getuid()))


def as_text(found: CheckUp, out: TextIO) -> str:
    """Return the table, in the columns and colours of `out`."""
    from rich.table import Table
    from rich.text import Text

    to = "→" if has_unicode(os.environ) else ">"
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(2):
        table.add_column(no_wrap=True)
    for check in found.checks:
        sentence = Text(check.found)
        if check.todo:
            is_problem = check.status in (Status.FAIL, Status.WARN)
            sentence.append(f"\n{to} {check.todo}", "bold" if is_problem else "")
        table.add_row(Text(check.status.word, _STYLES[check.status]), Text(check.id), sentence)
    return render(out, Text(found.machine, "bold"), "", table, "", counted(found.checks))


# -- the figures -----------------------------------------------------------------------------------


def selftest(_args: argparse.Namespace) -> int:
    """Train with known delays and print each case; return 0 where all pass, else 1.

    Raises:
        BadInputError: TensorFlow or Keras is missing or too old.
    """
    require_tensorflow()
    os.environ["KERAS_BACKEND"] = "tensorflow"
    cases = []
    with temporary_folder("selftest-") as folder, Capture() as terminal:
        if load := describe_load():
            terminal.err.write(f"tfwatch: {load}; repeat a FAIL on an idle machine\n")
        show_progress(terminal.err, "importing TensorFlow")
        from tfwatch.checks.injected_trainings import InjectedTrainings
        from tfwatch.checks.selftest import EXPERIMENTS, run_until_passed, table

        trainings = InjectedTrainings(folder / "runs", _SEED)
        for done, experiment in enumerate(EXPERIMENTS):
            show_progress(terminal.err, f"{done} of {len(EXPERIMENTS)} trainings")
            cases += run_until_passed(experiment, trainings)
        show_progress(terminal.err, "")
    unwritten = write(sys.stdout, "".join(f"{line}\n" for line in table(cases)))
    return unwritten or int(not all(case.passed for case in cases))
