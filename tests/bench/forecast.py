"""How near forecasts of switches come, and how often what came lies in their range.

    python -m tests.bench.forecast [--switches 24] [--json] [--keep DIR]

Trains with knobs that are turned on the way: loaders that sleep before convolutions (where there is no GPU, half of
them before a step that sleeps too, for there data and compute share the cores), and the workloads cnn and generator as
they are. Each forecast is made from the run folder as it was just before the switch was asked for, and held against the
median of the settled steps after it. `wander` is by how much the compute of a step differs between settings of one
training, which no switch changes: what a forecast cannot know. Takes two minutes where cores are free. Exits with 1
where too few switches were foretold.
"""

from __future__ import annotations

import argparse
import json
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
from tfwatch.analysis.tuning.forecast import Record
from tfwatch.core.knobs import Knobs
from tfwatch.live.judged_run import JudgedRun
from tfwatch.watch.tensorflow_info import find_device

if TYPE_CHECKING:
    from tfwatch.analysis.tuning.forecast import CheckedForecast

_STEP_MS = 15.0
#: Once enough switches are foretold, no training begins after so long.
_BUDGET_S = 110.0
#: A loader's times in turn: every eighth batch takes long.
_BURSTS = (60.0, *[0.0] * 7)
CASES = (
    Case(
        "loader 8 ms",
        Knobs(),
        (("prefetch", 4), ("prefetch", 8), ("prefetch", "off"), ("prefetch", 2)),
        load_ms=(8.0,),
        sleeps=True,
    ),
    Case("loader 6 ms", Knobs(prefetch=4), (("prefetch", "off"), ("prefetch", 4)), load_ms=(6.0,)),
    Case(
        "cnn",
        Knobs(),
        (("prefetch", 4), ("workers", "auto"), ("prefetch", "off"), ("workers", "off")),
        workload="cnn",
    ),
    Case(
        "loader 30 ms",
        Knobs(),
        (("prefetch", 4), ("workers", 4), ("prefetch", "off"), ("workers", "off")),
        load_ms=(30.0,),
        sleeps=True,
    ),
    Case(
        "latency 20 ms",
        Knobs(latency_ms=20.0),
        (("latency_ms", 0.0), ("latency_ms", 20.0), ("prefetch", 4), ("workers", 4), ("latency_ms", 0.0)),
        load_ms=(6.0,),
        sleeps=True,
    ),
    Case("bursts", Knobs(), (("prefetch", 1), ("prefetch", 8), ("prefetch", "off")), load_ms=_BURSTS),
    Case(
        "fast pipeline 3 ms",
        Knobs(),
        (("fast_form", True), ("fast_form", False), ("prefetch", 4), ("fast_form", True)),
        load_ms=(20.0,),
        fast_ms=3.0,
    ),
    Case(
        "generator",
        Knobs(),
        (("prefetch", 4), ("fast_form", True), ("prefetch", "off"), ("fast_form", False)),
        workload="generator",
    ),
)


@dataclass(frozen=True)
class TrainingResult:
    """A case, what was foretold of its switches, and how its compute wandered: standard deviation over median."""

    case: Case
    record: Record
    wander: float


def train(case: Case, accelerated: bool, folder: Path, models: dict[bool, Any], batch: int) -> TrainingResult:
    """One case, foretold from its run folder."""
    path = run(case, models[case.sleeps and not accelerated], batch, folder)
    record = JudgedRun(open_run(path)).record
    computes = [one.switch.after.compute.median for one in record.foretold if one.switch.after]
    return TrainingResult(case, record, float(np.std(computes) / np.median(computes)) if len(computes) > 1 else 0.0)


def print_rows(trained: TrainingResult) -> None:
    """A row a switch."""
    for one in trained.record.foretold:
        switch, told = one.switch, one.forecast
        turned = f"{switch.knob} {switch.old} > {switch.new}"
        before = switch.before.step.median if switch.before else float("nan")
        expected = f"{told.step_ms:.1f} ({told.low_ms:.1f} to {told.high_ms:.1f})"
        note = "measured before" if told.measured else told.why
        print(
            f"| {trained.case.name} | {turned} | {before:.1f} | {expected} | {one.came_ms:.1f} "
            f"| {one.off:+.1%} | {'yes' if one.inside else 'NO'} | {note} |",
            flush=True,
        )


def as_row(case: Case, one: CheckedForecast) -> dict[str, Any]:
    """A switch for `--json`."""
    told, switch = one.forecast, one.switch
    return {
        "case": case.name,
        "knob": switch.knob,
        "from": switch.old,
        "to": switch.new,
        "before_ms": switch.before.step.median if switch.before else None,
        "step_ms": told.step_ms,
        "low_ms": told.low_ms,
        "high_ms": told.high_ms,
        "came_ms": one.came_ms,
        "off": one.off,
        "inside": one.inside,
        "measured": told.measured,
    }


def conclude(trained: list[TrainingResult], as_json: bool, device: str) -> int:
    """Say how near they came; returns how many switches were foretold."""
    found = Record(tuple(one for each in trained for one in each.record.foretold))
    count = len(found.foretold)
    fresh = Record(tuple(one for one in found.foretold if not one.forecast.measured))
    wander = median([each.wander for each in trained] or [float("nan")])
    if as_json:
        rows = [as_row(each.case, one) for each in trained for one in each.record.foretold]
        words = {"device": device, "median_off": found.median_off, "inside": found.inside, "of": count}
        print(json.dumps({**words, "wander": wander, "switches": rows}, indent=1))
        return count
    print(f"\n{device}: {count} switches, median {found.median_off:.1%} off, {found.inside} of {count} in range")
    print(f"never measured before: {len(fresh.foretold)}, median {fresh.median_off:.1%}, {fresh.inside} in range")
    print(f"compute alone wandered by {wander:.1%} between the settings of one training (median of trainings)")
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--switches", type=int, default=24, help="that have to be foretold at least")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", type=Path, help="a folder to keep the run folders in")
    parser.add_argument("--only", default="", help="cases by a part of their name")
    options = parser.parse_args()
    device = find_device()
    models = {False: make_model(), True: make_sleeper(_STEP_MS)}
    batch = find_batch(models[False], _STEP_MS)
    if not options.json:
        print("| training | switch | before, ms | forecast, ms | came, ms | off | in range | |")
        print("| --- | --- | ---: | ---: | ---: | ---: | --- | --- |", flush=True)
    trained: list[TrainingResult] = []
    begun_s = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            enough = sum(len(each.record.foretold) for each in trained) >= options.switches
            if options.only in case.name and not (enough and time.perf_counter() - begun_s > _BUDGET_S):
                trained.append(train(case, device.accelerated, options.keep or Path(folder), models, batch))
                if not options.json:
                    print_rows(trained[-1])
    return 0 if conclude(trained, options.json, device.name) >= options.switches else 1


if __name__ == "__main__":
    sys.exit(main())
