"""`tfwatch doctor`, `selftest` and `bench`: is the installation right, are the figures, and is the
GPU worth it?"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, TextIO

from tfwatch.doctor.checks import Status, check_up, counted, worst
from tfwatch.doctor.facts import Scope
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
        found = check_up(
            Scope(args.runs_dir), lambda name: show_progress(sys.stderr, f"checking {name}")
        )
    except KeyboardInterrupt:
        return 130
    finally:
        show_progress(sys.stderr, "")
    unwritten = write(sys.stdout, to_json(found) if args.json else as_text(found, sys.stdout))
    return 1 if worst(found.checks) is Status.FAIL else unwritten


def print_sudoers() -> int:
    """Print the line that permits powermetrics to this user. Returns 1 where printing fails."""
    from tfwatch.sensors.gpu.powermetrics import sudoers

    if sys.platform != "darwin":
        sys.stderr.write("tfwatch: powermetrics is a tool of macOS: no other system needs this\n")
    return write(sys.stdout, sudoers(os.getuid()))


def to_json(found: CheckUp) -> str:
    """Return one JSON object. `id` and `status` are stable; the sentences may change."""
    checks = [
        {"id": check.id, "status": check.status.value, "found": check.found, "todo": check.todo}
        for check in found.checks
    ]
    values = {"worst": worst(found.checks).value, "machine": found.machine, "checks": checks}
    return json.dumps(values, indent=1) + "\n"


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


def run_selftest(args: argparse.Namespace) -> int:
    """Run the selftest, and return its exit code."""
    from tfwatch.checks.selftest import selftest

    return selftest(args.json)


def run_bench(args: argparse.Namespace) -> int:
    """Run the benchmark, and return its exit code."""
    from tfwatch.checks.bench import bench

    return bench(args)
