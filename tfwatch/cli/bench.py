"""`tfwatch bench`: is the GPU worth it here?"""

from __future__ import annotations

import random
import statistics
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.table import Table

from tfwatch.core import units
from tfwatch.doctor.bench_program import BODIES, Spec
from tfwatch.doctor.facts import describe_load
from tfwatch.doctor.packages import require_tensorflow
from tfwatch.doctor.trial import explain, run_program
from tfwatch.terminal.output import render, show_progress, write

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from tfwatch.doctor.trial import Trial

#: Building a large body takes a minute on a slow machine.
_LIMIT_S = 300.0
#: Processes for each configuration.
_ROUNDS = 3
_DEVICES = ("cpu", "gpu")
_LEGEND = (
    "step: median of the rounds, a process each, ± half of their range",
    "speedup: relative to the first row of the same body",
)


@dataclass(slots=True)
class BenchRow:
    """One configuration and the results of its rounds.

    medians_ms: the median step of each round. reason: why the configuration was not measured; empty
    where it was.
    """

    spec: Spec
    medians_ms: list[float] = field(default_factory=list)
    reason: str = ""

    @property
    def step_ms(self) -> float | None:
        """The median of the rounds' medians; None without a measured round."""
        return statistics.median(self.medians_ms) if self.medians_ms else None

    @property
    def words(self) -> str:
        """The step with half the range of the rounds, as a share of their median."""
        spread = "± n/a"
        if len(self.medians_ms) > 1:
            half = (max(self.medians_ms) - min(self.medians_ms)) / 2
            spread = f"±{half / statistics.median(self.medians_ms):.0%}"
        return f"{units.milliseconds(self.step_ms)} {spread}"

    def speedup(self, rows: Sequence[BenchRow]) -> float | None:
        """Return the speed relative to the first row of the same body; None for that row."""
        first = next(other for other in rows if other.spec.body == self.spec.body)
        if first is self or not (first.step_ms and self.step_ms):
            return None
        return first.step_ms / self.step_ms

    def add_round(self, trial: Trial) -> None:
        """Add the result of a round."""
        measured = trial.results.get("measured", {})
        if steps_ms := measured.get("steps_ms"):
            self.medians_ms.append(statistics.median(steps_ms))
        else:
            self.reason = str(measured.get("error") or explain(trial)[0])


def bench(args: argparse.Namespace) -> int:
    """Measure and print; return 0, 1 where no row was measured or printing fails, or 130 where
    interrupted, after the rows so far.

    Raises:
        BadInputError: TensorFlow or Keras is missing or too old.
    """
    require_tensorflow()
    if load := describe_load():
        sys.stderr.write(f"tfwatch: {load}\n")
    bodies = [args.body] if args.body else BODIES
    rows, code = [BenchRow(Spec(body, device)) for body in bodies for device in _DEVICES], 0
    try:
        measure(rows)
    except KeyboardInterrupt:
        code = 130
    show_progress(sys.stderr, "")
    unwritten = write(sys.stdout, render(sys.stdout, *render_rows(rows)))
    return code or unwritten or (0 if any(row.step_ms for row in rows) else 1)


def measure(rows: Sequence[BenchRow]) -> None:
    """Run every configuration once a round, in a new random order each round; one that failed runs
    no more."""
    rng = random.Random(0)
    order = [one for _ in range(_ROUNDS) for one in rng.sample(rows, len(rows))]
    for done, row in enumerate(order):
        what = f"{row.spec.body} on {row.spec.device}"
        show_progress(sys.stderr, f"{done} of {len(order)}: {what}")
        if not row.reason:
            row.add_round(run_in_process(row.spec))


def run_in_process(spec: Spec) -> Trial:
    """Time a configuration once, in a separate process."""
    return run_program(spec.encode(), _LIMIT_S)


def render_rows(rows: Sequence[BenchRow]) -> list[Table | str]:
    """Return the table of the measured rows, its legend, and why the others were not measured."""
    table = Table("body", "device", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("step", "speedup"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        if row.step_ms is not None:
            speedup = row.speedup(rows)
            faster = "" if speedup is None else f"{speedup:.2f} x"
            table.add_row(row.spec.body, row.spec.device, row.words, faster)
    missing = {
        f"not measured on the {one.spec.device}: {one.reason}": 0 for one in rows if one.reason
    }
    parts: list[Table | str] = [table, *_LEGEND] if table.row_count else []
    return [*parts, *missing]
