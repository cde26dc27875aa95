"""The errors of forecasts of switches, and the share of measured steps within their range.

    python -m tests.bench.forecast [--switches 12] [--keep DIR]

Trains with knobs that are switched: loaders that sleep, or compute, before convolutions (without a
GPU, half of them before a step that sleeps too, because there data and compute share the cores).
Each forecast is made from the run folder as it was just before the switch was requested, and
compared with the median of the settled steps after it. `variation` is the difference of compute
between the settings of one training, which no switch changes and no forecast can know. Takes two
minutes on free cores.
Exits with 1 where too few switches have a forecast.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np

from tests.bench.starvation import find_batch, make_model
from tests.bench.turned import Case, make_sleeper, run
from tfwatch import open_run
from tfwatch.core.rows import step_ms
from tfwatch.judge.forecasts.evidence import build_evidence, stage_table_at
from tfwatch.judge.forecasts.forecast import Forecast, forecast
from tfwatch.judge.judged_run import JudgedRun
from tfwatch.watch.tensorflow_info import find_device

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tfwatch.judge.effects.comparison import Comparison

_STEP_MS = 15.0
#: No training starts after this time once enough switches have a forecast.
_BUDGET_S = 110.0
#: A loader's times, repeated: every eighth batch takes long.
_BURSTS = (60.0, *[0.0] * 7)
CASES = (
    Case(
        "loader 8 ms",
        (("prefetch", 4), ("prefetch", 8), ("prefetch", "off"), ("prefetch", 2)),
        load_ms=(8.0,),
        sleeps=True,
    ),
    Case("loader 6 ms", (("prefetch", 4), ("prefetch", "off"), ("prefetch", 4)), load_ms=(6.0,)),
    Case(
        "loader 30 ms",
        (("prefetch", 4), ("workers", 4), ("prefetch", "off"), ("workers", "off")),
        load_ms=(30.0,),
        computes=True,
        sleeps=True,
    ),
    Case("bursts", (("prefetch", 1), ("prefetch", 8), ("prefetch", "off")), load_ms=_BURSTS),
)


@dataclass(frozen=True)
class Checked:
    """A switch with its forecast, made from the evidence before its request, and the median of the
    settled steps after it."""

    switch: Comparison
    forecast: Forecast
    measured_ms: float

    @property
    def off(self) -> float:
        """The error of the forecast, as a share of the measured step; below 0 it was too low."""
        return self.forecast.step_ms / self.measured_ms - 1

    @property
    def inside(self) -> bool:
        """True where the measured step lies in the prediction interval."""
        return self.forecast.low_ms <= self.measured_ms <= self.forecast.high_ms


def check_forecasts(judged: JudgedRun) -> Iterator[Checked]:
    """Yield the settled switches that have a forecast."""
    run, switches = judged.run, judged.switches
    for n, switch in enumerate(switches):
        if not switch.settled or switch.beside or switch.after is None:
            continue
        rows = run.steps_between(switch.asked_step, switch.asked_step)
        at_ns = int(rows["start_ns"][-1] + 1e6 * step_ms(rows)[-1]) if len(rows) else 0
        table = stage_table_at(run, at_ns)
        known = build_evidence(run, switches[:n], table, switch.asked_step, at_ns)
        made = forecast(known, {switch.knob: switch.new})
        if made.is_known:
            yield Checked(switch, made, switch.after.step.median)


@dataclass(frozen=True)
class TrainingResult:
    """A case, the forecasts of its switches, and the variation of its compute: standard deviation
    over median."""

    case: Case
    checked: tuple[Checked, ...]
    variation: float


def train(
    case: Case, accelerated: bool, folder: Path, models: dict[bool, Any], batch: int
) -> TrainingResult:
    """Train one case and make its forecasts from the run folder."""
    path = run(case, models[case.sleeps and not accelerated], batch, folder)
    checked = tuple(check_forecasts(JudgedRun(open_run(path))))
    computes = [one.switch.after.compute.median for one in checked if one.switch.after]
    return TrainingResult(
        case, checked, float(np.std(computes) / np.median(computes)) if len(computes) > 1 else 0.0
    )


def print_rows(trained: TrainingResult) -> None:
    """Print a row for each switch."""
    for one in trained.checked:
        switch, forecast = one.switch, one.forecast
        switched = f"{switch.knob} {switch.old} > {switch.new}"
        before = switch.before.step.median if switch.before else float("nan")
        expected = f"{forecast.step_ms:.1f} ({forecast.low_ms:.1f} to {forecast.high_ms:.1f})"
        note = "measured before" if forecast.measured else forecast.why
        print(
            f"| {trained.case.name} | {switched} | {before:.1f} | {expected} |"
            f" {one.measured_ms:.1f} | {one.off:+.1%} | {'yes' if one.inside else 'NO'} | {note} |",
            flush=True,
        )


def median_error(checked: list[Checked]) -> float:
    """Return the median absolute error, as a share of the measured step; NaN without forecasts."""
    return median(abs(one.off) for one in checked) if checked else float("nan")


def conclude(trained: list[TrainingResult], device: str) -> int:
    """Print the errors; return the number of switches with a forecast."""
    found = [one for each in trained for one in each.checked]
    count, inside = len(found), sum(one.inside for one in found)
    fresh = [one for one in found if not one.forecast.measured]
    variation = median([each.variation for each in trained] or [float("nan")])
    print(
        f"\n{device}: {count} switches, median {median_error(found):.1%} off, {inside} of {count}"
        " in range"
    )
    print(
        f"never measured before: {len(fresh)}, median {median_error(fresh):.1%},"
        f" {sum(one.inside for one in fresh)} in range"
    )
    print(
        f"compute alone varied by {variation:.1%} between the settings of one training (median of"
        " trainings)"
    )
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--switches", type=int, default=12, help="the least number of switches with a forecast"
    )
    parser.add_argument("--keep", type=Path, help="a folder to keep the run folders in")
    parser.add_argument("--only", default="", help="cases whose names contain this")
    options = parser.parse_args()
    device = find_device()
    models = {False: make_model(), True: make_sleeper(_STEP_MS)}
    batch = find_batch(models[False], _STEP_MS)
    print("| training | switch | before, ms | forecast, ms | measured, ms | off | in range | |")
    print("| --- | --- | ---: | ---: | ---: | ---: | --- | --- |", flush=True)
    trained: list[TrainingResult] = []
    start_s = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            enough = sum(len(each.checked) for each in trained) >= options.switches
            if options.only in case.name and not (
                enough and time.perf_counter() - start_s > _BUDGET_S
            ):
                trained.append(
                    train(case, device.accelerated, options.keep or Path(folder), models, batch)
                )
                print_rows(trained[-1])
    return 0 if conclude(trained, device.name) >= options.switches else 1


if __name__ == "__main__":
    sys.exit(main())
