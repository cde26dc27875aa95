"""What tfwatch reads of a pipeline's stages, against delays that time themselves; and the bottleneck that it names.

    python -m tests.bench.stages [--seconds S] [--only WORD] [--sentences]

Each labelled pipeline has work put into chosen stages, of 5, 20 or 50 ms or near: a sleep inside TensorFlow (storage),
decoding an image (CPU, one kernel), or Python. A stage's function reads the clock in the graph before and after its
work and hands the difference on with the element, so the batches say what each stage took. Read: the mean of `busy_ms`
over the same run, as the screen shows it. Exits with 1 where a stage is off by more than a tenth or a bottleneck is
named wrongly.
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
from tfwatch.analysis.findings.bottleneck import stage_table
from tfwatch.core.events import StagesFound
from tfwatch.core.knobs import Knobs
from tfwatch.core.rows import Phase
from tfwatch.runs.create import begin_run
from tfwatch.runs.opened import read_run
from tfwatch.tfdata.live_switch import SwitchablePipeline
from tfwatch.tfdata.stage_reader import StageReader
from tfwatch.tfdata.work_ahead import options, prefetch_only

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tfwatch.analysis.findings.bottleneck import Stage, StageTable
    from tfwatch.runs.writer import RunWriter

_OFF = 0.10
#: What follows a batch, milliseconds.
_STEP_MS = 2.0
_WARM_UP = 8


class Pipeline:
    """What a training of these batches would hold."""

    def __init__(self, dataset: tf.data.Dataset, gated: bool) -> None:
        self._iterator = iter(dataset)
        self._feed = SwitchablePipeline(prefetch_only) if gated else None
        if self._feed:
            self._feed.start(self._iterator, Knobs(prefetch=2))

    def iterators(self) -> tuple[Any, Any]:
        """As `StageReader` wants them."""
        return (self._feed.source, self._feed.iterator) if self._feed else (None, self._iterator)

    def batch(self) -> Any:
        """The next."""
        return self._feed.get() if self._feed else next(self._iterator)

    def close(self) -> None:
        """Let go of it."""
        if self._feed:
            self._feed.close()


def run(case: Case, seconds: float, folder: Path) -> Ran:
    """Takes batches for so long."""
    make = Maker()
    dataset = case.build(make)
    pipeline = Pipeline(dataset if case.stock else dataset.with_options(options(Knobs())), case.gated)
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
    table = stage_table(read.stages, found)
    return Ran(make, costs, table.judged(os.cpu_count() or 1, others / seconds) if table else None)


def _busy(now: Any, before: Any) -> float:
    """Seconds of CPU between two readings."""
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
    """Run all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=6.0, help="for each pipeline")
    parser.add_argument("--only", default="", help="pipelines that have this word in their names")
    parser.add_argument("--sentences", action="store_true", help="print what is said of each bottleneck")
    asked = parser.parse_args()
    print(f"{len(CASES)} pipelines, {os.cpu_count()} cores, TensorFlow {tf.__version__}")
    print("| pipeline | stage | injected ms | read ms | off | bottleneck | why |")
    print("| --- | --- | ---: | ---: | ---: | --- | --- |")
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        for case in (case for case in CASES if asked.only in case.name):
            ran = run(case, asked.seconds, Path(folder))
            if asked.sentences and ran.table and ran.table.bottleneck:
                print(ran.table.bottleneck.sentence)
            tally.take(case, ran)
            sys.stdout.flush()
    off = np.abs(tally.errors)
    print(f"\n{len(off)} stages: median off {np.median(off):.1%}, most {np.max(off):.1%}, ", end="")
    print(f"{np.sum(~(off <= _OFF))} beyond a tenth; ", end="")
    print(f"bottleneck wrong: {tally.wrong}, of no account: {tally.void}; its reason wrong: {tally.wrong_reasons}")
    return int(tally.wrong > 0 or not np.all(off <= _OFF))


@dataclass
class Tally:
    """What was right. void: another stage than the label's was named, and took as long by its own clock: other programs
    had the cores."""

    errors: list[float] = field(default_factory=list)
    wrong: int = 0
    void: int = 0
    wrong_reasons: int = 0

    def take(self, case: Case, ran: Ran) -> None:
        """Print a pipeline's rows, and count."""
        place = ran.table.bottleneck if ran.table else None
        named = ran.table.stages[place.stage].name if ran.table and place else "none"
        reason = place.reason if place else "none"
        right, void = named == case.slowest, ran.cost_of(named) > (1 - _OFF) * ran.cost_of(case.slowest)
        self.wrong += not right and not void
        self.void += not right and void
        self.wrong_reasons += reason != case.reason
        verdict = "ok" if right else f"{'void' if void else 'WRONG'}: {case.slowest}"
        words = f"{named} {verdict} | {reason} {'ok' if reason == case.reason else f'not {case.reason}'}"
        for n, label in enumerate(ran.make.labels):
            read = ran.read(label)
            self.errors.append(read / ran.costs[n] - 1)
            figures = f"{ran.costs[n]:.2f} | {read:.2f} | {self.errors[-1]:+.1%}"
            print(f"| {case.name} | {label} | {figures} | {words} |")
            words = " | "


@dataclass(frozen=True)
class Ran:
    """What came of a pipeline. costs: of each of `make.labels` by its own clock, milliseconds a batch."""

    make: Maker
    costs: NDArray[np.float32]
    table: StageTable | None

    def read(self, label: str) -> float:
        """The same as tfwatch read it; NaN where the stage is not found, or twice."""
        found = self._stages(label)
        return found[0].busy_ms if len(found) == 1 else float("nan")

    def cost_of(self, name: str) -> float:
        """What a batch took in a stage with its workers, by its own clock; 0 of one without injected work."""
        labels = [n for n, label in enumerate(self.make.labels) if label in name]
        workers = [stage.busy_ms / stage.batch_ms for stage in self._stages(name)]
        return float(self.costs[labels[0]] / workers[0]) if labels and workers else 0.0

    def _stages(self, label: str) -> list[Stage]:
        return [stage for stage in self.table.stages if label in stage.name] if self.table else []


if __name__ == "__main__":
    sys.exit(main())
