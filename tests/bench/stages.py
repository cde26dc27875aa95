"""The stage times and the bottleneck that tfwatch reports, against injected delays that time themselves.

    python -m tests.bench.stages [--seconds S] [--only WORD] [--sentences]

Each labelled pipeline has work of about 5, 20 or 50 ms in some stages: a sleep inside TensorFlow (storage), decoding an
image (CPU, one kernel), or Python. A stage's function reads the clock in the graph before and after its work and adds
the difference to the element, so that the batches hold the time of each stage. It is compared with the mean of
`busy_ms` over the same run, as on the screen. Exits with 1 where a stage's error is more than a tenth or the bottleneck
is wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import tensorflow as tf

from tests.bench.stage_cases import CASES, Case
from tests.bench.stage_work import Maker
from tests.tfdata.batches import next_batch
from tfwatch.analysis.findings.bottleneck import make_stage_table
from tfwatch.core.events import StagesFound
from tfwatch.core.knobs import Knobs
from tfwatch.core.rows import Phase
from tfwatch.runs.create import begin_run
from tfwatch.runs.reading.opened import read_run
from tfwatch.tfdata.live_switch import SwitchablePipeline
from tfwatch.tfdata.stages.stage_reader import StageReader
from tfwatch.tfdata.work_ahead import options, prefetch_only

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tfwatch.analysis.findings.bottleneck import Stage, StageTable
    from tfwatch.runs.writer import RunWriter

_OFF = 0.10
#: The compute after a batch, milliseconds.
_STEP_MS = 2.0
_WARM_UP = 8


class Pipeline:
    """The pipeline of a training on these batches."""

    def __init__(self, dataset: tf.data.Dataset, gated: bool) -> None:
        self._iterator = iter(dataset)
        self._pipeline = SwitchablePipeline(prefetch_only) if gated else None
        if self._pipeline:
            self._pipeline.start(self._iterator, Knobs(prefetch=2))

    def iterators(self) -> tuple[Any, Any]:
        """Return the iterators for `StageReader`."""
        return (
            (self._pipeline.source, self._pipeline.iterator)
            if self._pipeline
            else (None, self._iterator)
        )

    def batch(self) -> Any:
        """Return the next batch."""
        return next_batch(self._pipeline) if self._pipeline else next(self._iterator)

    def close(self) -> None:
        """Close the pipeline."""
        if self._pipeline:
            self._pipeline.close()


def run(case: Case, seconds: float, folder: Path) -> Ran:
    """Take batches for `seconds`, and read the stages."""
    make = Maker()
    dataset = case.build(make)
    pipeline = Pipeline(
        dataset if case.stock else dataset.with_options(options(Knobs())), case.gated
    )
    writer, _ = begin_run(folder, "stages")
    reader = StageReader(writer, pipeline.iterators)
    for _ in range(_WARM_UP):
        pipeline.batch()
    reader.read()
    reader.start()
    used, by_all = psutil.Process().cpu_times(), psutil.cpu_times()
    costs = _take(pipeline, writer, seconds)
    others = _busy(psutil.cpu_times(), by_all) - _busy(psutil.Process().cpu_times(), used)
    reader.stop()
    reader.read()  # up to the last batch that was taken
    pipeline.close()
    writer.close()
    read = read_run(writer)
    found = {event.pipeline: event for event in read.events if isinstance(event, StagesFound)}
    table = make_stage_table(read.stages, found)
    return Ran(
        make, costs, table.with_bottleneck(os.cpu_count() or 1, others / seconds) if table else None
    )


def _busy(now: Any, before: Any) -> float:
    """Return the CPU seconds between two readings."""
    return float(sum(getattr(now, name) - getattr(before, name) for name in ("user", "system")))


def _take(pipeline: Pipeline, writer: RunWriter, seconds: float) -> NDArray[np.float32]:
    costs: list[Any] = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        writer.status = (Phase.WAIT, writer.now_ns(), len(costs) + 1, 0, "")
        batch = pipeline.batch()
        writer.status = (Phase.COMPUTE, writer.now_ns(), len(costs) + 1, 0, "")
        time.sleep(_STEP_MS / 1e3)
        costs.append(tf.nest.flatten(batch)[0].numpy().sum(axis=0))
    return np.mean(costs, axis=0)  # type: ignore[no-any-return]


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=6.0, help="for each pipeline")
    parser.add_argument("--only", default="", help="pipelines whose names contain this")
    parser.add_argument(
        "--sentences", action="store_true", help="print the sentence on each bottleneck"
    )
    arguments = parser.parse_args()
    print(f"{len(CASES)} pipelines, {os.cpu_count()} cores, TensorFlow {tf.__version__}")
    print("| pipeline | stage | injected ms | reported ms | error | bottleneck | reason |")
    print("| --- | --- | ---: | ---: | ---: | --- | --- |")
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        for case in (case for case in CASES if arguments.only in case.name):
            ran = run(case, arguments.seconds, Path(folder))
            if arguments.sentences and ran.table and ran.table.bottleneck:
                print(ran.table.bottleneck.sentence)
            tally.add(case, ran)
            sys.stdout.flush()
    errors = np.abs(tally.errors)
    print(
        f"\n{len(errors)} stages: median error {np.median(errors):.1%}, largest {np.max(errors):.1%}, ",
        end="",
    )
    print(f"{np.sum(~(errors <= _OFF))} beyond a tenth; ", end="")
    print(
        f"wrong bottlenecks: {tally.wrong}, void: {tally.void}; wrong reasons: {tally.wrong_reasons}"
    )
    return int(tally.wrong > 0 or not np.all(errors <= _OFF))


@dataclass
class Tally:
    """The counts of errors. void: another stage was reported and took as long by its own clock, because other programs
    used the cores."""

    errors: list[float] = field(default_factory=list)
    wrong: int = 0
    void: int = 0
    wrong_reasons: int = 0

    def add(self, case: Case, ran: Ran) -> None:
        """Print a pipeline's rows, and count the errors."""
        place = ran.table.bottleneck if ran.table else None
        named = ran.table.stages[place.stage].name if ran.table and place else "none"
        reason = place.reason if place else "none"
        right, void = (
            named == case.slowest,
            ran.cost_of(named) > (1 - _OFF) * ran.cost_of(case.slowest),
        )
        self.wrong += not right and not void
        self.void += not right and void
        self.wrong_reasons += reason != case.reason
        verdict = "ok" if right else f"{'void' if void else 'WRONG'}: {case.slowest}"
        result = f"{named} {verdict} | {reason} {'ok' if reason == case.reason else f'not {case.reason}'}"
        for n, label in enumerate(ran.make.labels):
            read = ran.read(label)
            self.errors.append(read / ran.costs[n] - 1)
            figures = f"{ran.costs[n]:.2f} | {read:.2f} | {self.errors[-1]:+.1%}"
            print(f"| {case.name} | {label} | {figures} | {result} |")
            result = " | "


@dataclass(frozen=True)
class Ran:
    """The result of a pipeline. costs: milliseconds per batch of each of `make.labels`, by its own clock."""

    make: Maker
    costs: NDArray[np.float32]
    table: StageTable | None

    def read(self, label: str) -> float:
        """Return the time that tfwatch reports; NaN where the stage is missing or found twice."""
        found = self._stages(label)
        return found[0].busy_ms if len(found) == 1 else float("nan")

    def cost_of(self, name: str) -> float:
        """Return a stage's time per batch with its workers, by its own clock; 0 without injected work."""
        labels = [n for n, label in enumerate(self.make.labels) if label in name]
        workers = [stage.busy_ms / stage.batch_ms for stage in self._stages(name)]
        return float(self.costs[labels[0]] / workers[0]) if labels and workers else 0.0

    def _stages(self, label: str) -> list[Stage]:
        return [stage for stage in self.table.stages if label in stage.name] if self.table else []


if __name__ == "__main__":
    sys.exit(main())
