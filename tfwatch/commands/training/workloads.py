"""`tfwatch workloads`: lists the workloads."""

from __future__ import annotations

import json
import sys

from tfwatch.terminal.output import render, write
from tfwatch.workloads.registry import WORKLOADS


def list_workloads(as_json: bool) -> int:
    """Print every workload with its description and return the exit code."""
    if as_json:
        listed = [
            {"name": name, "shows": entry.line, "fast_pipeline": entry.fast or None}
            for name, entry in WORKLOADS.items()
        ]
        return write(sys.stdout, json.dumps({"workloads": listed}) + "\n")
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for name, entry in WORKLOADS.items():
        table.add_row(name, entry.line)
    return write(sys.stdout, render(sys.stdout, table))
