"""The verdict for data that takes 0.1 to 3 times as long as compute, with and without prefetch.

    python -m tests.bench.grid [--compute 40] [--host 4] [--steps 45]

Trains with sleeps in the fetch, in the compute and in a callback; the first two overlap with prefetch. The true share
of data wait is D / (D + C + H) without prefetch, max(0, D - (C + H)) / max(D, C + H) with it: D is the actual time of
the sleeps in the fetch, C + H the step without them, by a clock outside tfwatch. A cell within 2 points of a threshold
is printed and not judged. Exits with 1 where a verdict is wrong twice: on a busy machine C + H changes between
trainings.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from tests.analysis.grid import RATIOS, starving, verdict_of
from tfwatch.analysis.steps.summary import summarise
from tfwatch.checks.injected_schedule import Schedule
from tfwatch.checks.injected_trainings import Trainings

if TYPE_CHECKING:
    from tfwatch.analysis.steps.verdict import Verdict

_WORK_STEPS = 20


@dataclass(frozen=True)
class Cell:
    """The true share of data wait and the measured one; `label` is None near a threshold."""

    true: float
    measured: float
    label: Verdict | None
    verdict: Verdict

    @property
    def is_wrong(self) -> bool:
        """True where the verdict differs from the label."""
        return self.label is not None and self.label is not self.verdict


def train(
    trainings: Trainings, ratio: float, options: argparse.Namespace, *, prefetch: bool
) -> Cell:
    """Train twice: without a data delay, and with one of `ratio` times compute and host."""
    kind = "prefetch" if prefetch else "tf.data"
    work = Schedule(
        compute_ms=(options.compute,), host_ms=(options.host,), kind=kind, steps=_WORK_STEPS
    )
    work_ms = trainings.train(work).step_ms
    data_ms = ratio * (options.compute + options.host)
    trained = trainings.train(replace(work, wait_ms=(data_ms,), steps=options.steps))
    true = starving(trained.slept_ms["wait"], work_ms, prefetch=prefetch)
    found = summarise(trained.run.steps, trained.run.events)
    measured = found.steady.wait_share if found.steady else float("nan")
    return Cell(true, measured, verdict_of(true), found.verdict)


def main() -> int:
    parser = argparse.ArgumentParser(
        description="the verdict over a grid of data time against compute"
    )
    parser.add_argument("--compute", type=float, default=40.0, help="ms")
    parser.add_argument("--host", type=float, default=4.0, help="ms")
    parser.add_argument("--steps", type=int, default=45)
    options = parser.parse_args()
    print(
        "| D/(C+H) | prefetch | true | measured | verdict | |\n| ---: | --- | ---: | ---: | --- | --- |",
        flush=True,
    )
    wrong = judged = 0
    with tempfile.TemporaryDirectory() as folder:
        trainings = Trainings(Path(folder), seed=20_11)
        for prefetch in (False, True):
            for ratio in RATIOS:
                cell, again = train(trainings, ratio, options, prefetch=prefetch), ""
                if cell.is_wrong:
                    cell, again = train(trainings, ratio, options, prefetch=prefetch), ", 2nd try"
                judged, wrong = judged + (cell.label is not None), wrong + cell.is_wrong
                result = (
                    "near a threshold"
                    if cell.label is None
                    else "WRONG"
                    if cell.is_wrong
                    else "right"
                )
                shares = f"{cell.true:.1%} | {cell.measured:.1%}"
                switched = "on" if prefetch else "off"
                print(
                    f"| {ratio:g} | {switched} | {shares} | {cell.verdict.value} | {result}{again} |",
                    flush=True,
                )
    print(
        f"\n{judged - wrong} of {judged} cells right, {2 * len(RATIOS) - judged} near a threshold"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
