"""How `tfwatch bench` shows what it measures: a table that fills, or JSON."""

from __future__ import annotations

import json
import os
import statistics
import sys
from typing import TYPE_CHECKING, Any

from tfwatch import workloads
from tfwatch.commands.bench_row import BUSY_CORES, Row
from tfwatch.commands.printing import rendered, write
from tfwatch.core import units

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from rich.table import Table

    from tfwatch.training.measuring import Spec


class Printer:
    """Shows the rows while they fill, where stdout is a terminal, and once at the end, interrupted or not.

    unwritten: the exit code for that: 1 where stdout did not take it.
    """

    def __init__(self, as_json: bool, wanted: Sequence[Spec]) -> None:
        from rich.console import Console
        from rich.live import Live

        self._rows = [Row(spec) for spec in wanted]
        self._as_json = as_json
        self.unwritten = 0
        self._console = Console(highlight=False, markup=False)
        is_live = self._console.is_terminal and not as_json
        self._live = Live(console=self._console, auto_refresh=False, transient=True) if is_live else None

    def __enter__(self) -> Printer:
        if self._live:
            self._live.start()
            self.update(self._rows)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()
        if self._as_json:
            told = json.dumps({"results": [as_dict(row, self._rows) for row in self._rows]}, indent=1) + "\n"
        else:
            told = rendered(sys.stdout, *shown(self._rows))
        self.unwritten = write(sys.stdout, told)

    def update(self, rows: list[Row]) -> None:
        """Show what is known by now."""
        self._rows = rows
        if self._live:
            self._live.update(table(rows), refresh=True)


def shown(rows: Sequence[Row]) -> list[Table | str]:
    """The table and what it has no room for; no table where all rows are a missing GPU's."""
    if all(row.no_gpu for row in rows):
        return [*remarks(rows)]
    return [table(rows), *_legend(rows), *remarks(rows)]


def table(rows: Sequence[Row]) -> Table:
    """A row a configuration; those that wait for their first round are dotted."""
    from rich.table import Table

    made = Table("workload", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("batch", "mode", "device", "step", "examples/s", "speed", "first step"):
        made.add_column(name, justify="left" if name in ("mode", "device") else "right", no_wrap=True)
    for row in rows:
        if not row.no_gpu:
            made.add_row(*_cells(row, rows))
    return made


def _cells(row: Row, rows: Sequence[Row]) -> tuple[str, ...]:
    spec = row.spec
    batch = "" if "size" in workloads.find(spec.workload).takes else str(spec.settings().batch_size)
    named = (_name(spec), batch, spec.mode, spec.device)
    if row.step_ms is None:
        return (*named, "n/a" if row.reason else "...", "", "", "")
    ratio = _ratio(row, rows)
    return (
        *named,
        f"{units.milliseconds(row.step_ms)} {_spread(row)}",
        units.count(round(row.examples_s or 0)) if row.examples > 1 else "",
        "" if ratio is None else f"{ratio:.2f} x",
        units.milliseconds(max(row.first_ms)),
    )


def _spread(row: Row) -> str:
    return "± n/a" if row.spread is None else f"±{row.spread / 2:.0%}"


def _legend(rows: Sequence[Row]) -> list[str]:
    lines = [
        "step: median of the rounds, a process each, ± half of what they span (of six or more: its 95 % interval)",
        "speed: times as fast as the first row of the same workload and batch; first step: with trace and compile",
    ]
    if any(len(row.medians_ms) == 1 for row in rows):
        lines.append("± n/a: one round has no spread; use --rounds 2 or more")
    return lines


def _name(spec: Spec) -> str:
    return spec.workload if spec.size is None else f"{spec.workload} {spec.size}"


def remarks(rows: Sequence[Row]) -> list[str]:
    """What the table has no room for: what was not measured and why, what fell back, what is uncertain."""
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.reason:
            name = "gpu" if row.no_gpu else f"{_name(row.spec)} {row.spec.mode} {row.spec.device}"
            reasons.setdefault(row.reason, []).append(name)
    lines = [f"not measured: {', '.join(dict.fromkeys(names))}: {reason}" for reason, names in reasons.items()]
    lines += [
        f"{_name(row.spec)} {row.spec.mode}: on the CPU ran {', '.join(row.fell_back)}" for row in rows if row.fell_back
    ]
    return [*lines, *_uncertain(rows)]


def _uncertain(rows: Sequence[Row]) -> list[str]:
    """Which medians are not to be trusted to a few percent, and why."""
    wide = [f"{_name(row.spec)} {row.spec.mode} {row.spec.device}" for row in rows if row.is_unsteady]
    known = [cores for row in rows for cores in row.others_cores]
    used = statistics.median(known) if known else 0.0
    if used < BUSY_CORES:
        why = "the machine throttled or was busy"
        return [f"unsteady, {why}: {', '.join(wide)}"] if wide else []
    steady = "" if wide else "; the figures are those of a busy machine"
    others = f"unsteady: other programs use {used:.1f} of {os.cpu_count()} cores{steady}"
    return [f"{others}: {', '.join(wide)}" if wide else others]


def _ratio(row: Row, rows: Sequence[Row]) -> float | None:
    """How many times as fast as the first of its kind; None for that one itself."""
    alike = [
        other
        for other in rows
        if (other.spec.workload, other.spec.batch_size, other.spec.size)
        == (row.spec.workload, row.spec.batch_size, row.spec.size)
    ]
    first = alike[0]
    return first.step_ms / row.step_ms if first is not row and first.step_ms and row.step_ms else None


def as_dict(row: Row, rows: Sequence[Row]) -> dict[str, Any]:
    """One result for `--json`; what was not measured is null, with its reason."""
    spec = row.spec
    return {
        "workload": spec.workload,
        "batch_size": spec.settings().batch_size,
        "size": spec.settings().size if spec.workload == "matmul" else None,
        "mode": spec.mode,
        "device": spec.device,
        "step_ms": row.step_ms,
        "rounds_ms": row.medians_ms,
        "spread": row.spread,
        "others_cores": statistics.median(row.others_cores) if row.others_cores else None,
        "examples_s": row.examples_s,
        "speed": _ratio(row, rows),
        "first_step_ms": max(row.first_ms, default=None),
        "fell_back": row.fell_back,
        "not_measured": row.reason or None,
    }
