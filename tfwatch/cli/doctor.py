"""`tfwatch doctor`: is the installation right?"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TextIO

from rich.table import Table
from rich.text import Text

from tfwatch.doctor.checks import Status, check_up, counted, worst
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
    from tfwatch.sensors.apple import sudoers

    if sys.platform != "darwin":
        sys.stderr.write("tfwatch: powermetrics is a tool of macOS: no other system needs this\n")
    return write(sys.stdout, sudoers(os.getuid()))


def as_text(found: CheckUp, out: TextIO) -> str:
    """Return the table, in the columns and colours of `out`."""
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
