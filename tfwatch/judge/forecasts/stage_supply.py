"""A model of a pipeline whose stages have parallel calls of their own, beside `batch_supply`:
milliseconds throughout.

Stages without calls of their own work one after another, in one thread, up to the next parallel
stage or buffer. These stretches, and each parallel stage, work beside each other; the slowest one
bounds the rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.core.knobs import stage_value
from tfwatch.judge.forecasts.batch_supply import (
    ALONE,
    BATCH,
    BESIDE_EACH_OTHER,
    by_workers,
    depth,
    overlapped,
    parallelism,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tfwatch.judge.findings.bottleneck import Stage, StageTable
    from tfwatch.judge.forecasts.batch_supply import Supply


@dataclass(frozen=True, slots=True)
class _StageWork:
    """The work of a stage for one batch."""

    work_ms: float
    #: As it runs now, 0 where it is serial.
    calls: int
    #: Of its output per batch.
    elements: float
    #: Its number among the stages that `workers` sets, None for another one.
    setting: int | None
    #: It only buffers.
    is_buffer: bool

    def calls_under(self, workers: str, cores: int) -> int:
        value = stage_value(workers, self.setting) if self.setting is not None else "default"
        return self.calls if value == "default" else parallelism(value, cores)


@dataclass(frozen=True, slots=True)
class StagedSupply:
    """One assumption about the work of a pipeline's stages, the source first."""

    stages: tuple[_StageWork, ...]
    #: As of `Supply`.
    loss: float
    #: The stages use cores; else they wait, and take none from each other.
    computes: bool

    def step_ms(self, prefetch: str, workers: str, work_ms: float, cores: int) -> float:
        """Return the step time with `work_ms` of compute and host. workers: stages left at
        `default` run as now."""
        *below_ms, top_ms = self._stretches_ms(workers, cores)
        slowest_ms = max([self._on_all_ms(workers, cores) if self.computes else 0.0, *below_ms])
        if depth(prefetch):
            return overlapped(max(slowest_ms, top_ms), work_ms)
        if not below_ms:
            return top_ms + work_ms
        # The stretch at the end works only when the step asks for a batch; what is below it has
        # begun one.
        ahead_ms = min(self._share_ahead(workers, cores) * slowest_ms, work_ms)
        return work_ms + max(top_ms, slowest_ms - ahead_ms)

    def _stretches_ms(self, workers: str, cores: int) -> Iterator[float]:
        """Yield the time of a batch in each stretch and each parallel stage, that of the stretch at
        the end last."""
        serial_ms = 0.0
        for stage in self.stages:
            calls = stage.calls_under(workers, cores)
            # A stage with a single call asks for its next element once that call is over.
            serial_ms += stage.work_ms if calls <= 1 and not stage.is_buffer else 0.0
            if calls or stage.is_buffer:
                yield serial_ms
                serial_ms = 0.0
            if calls > 1:
                yield by_workers(stage.work_ms * self.loss, 0.0, calls, cores)
        yield serial_ms

    def _on_all_ms(self, workers: str, cores: int) -> float:
        """Return the time of a batch if its work fills all cores."""
        calls = [stage.calls_under(workers, cores) for stage in self.stages]
        works = (
            s.work_ms * (self.loss if n else 1.0) for s, n in zip(self.stages, calls, strict=True)
        )
        return sum(works) / max(cores, 1)

    def _share_ahead(self, workers: str, cores: int) -> float:
        """Return the share of a batch that the last parallel stage or buffer holds ahead of the
        step."""
        for stage in reversed(self.stages):
            if stage.is_buffer or (calls := stage.calls_under(workers, cores)):
                return 1.0 if stage.is_buffer else min(calls / stage.elements, 1.0)
        return 0.0


def staged(
    estimates: Sequence[Supply],
    table: StageTable | None,
    names: Sequence[str],
    batch_size: int | None,
) -> tuple[StagedSupply, ...] | None:
    """Return supplies by stages; None where the table does not have the stages of these names in
    this order."""
    if table is None or not table.all_ms > 0:
        return None
    stages = _without_end(table.stages)
    places = [n for n, stage in enumerate(stages) if _own_name(stage) in names]
    if [_own_name(stages[n]) for n in places] != [*names] or any(
        math.isnan(stages[n].busy_ms) for n in places
    ):
        return None
    settings = {at: n for n, at in enumerate(places)}
    works = zip(
        *(_works_ms(stage, stages, estimates, table.all_ms) for stage in stages), strict=True
    )
    made = [
        tuple(_stage_work(stages, n, ms, settings.get(n), batch_size) for n, ms in enumerate(each))
        for each in works
    ]
    return tuple(
        StagedSupply(each, estimates[n].loss, computes=n > 0) for n, each in enumerate(made)
    )


def _without_end(stages: Sequence[Stage]) -> Sequence[Stage]:
    """Return the stages without the prefetch at the end, which is that of the knob."""
    return stages[:-1] if stages and stages[-1].is_buffer else stages


def _own_name(stage: Stage) -> str:
    """Return the name of a stage without the batch that TensorFlow fused with it: `map(decode)`."""
    return stage.name.partition(", ")[0]


def _works_ms(
    stage: Stage, stages: Sequence[Stage], estimates: Sequence[Supply], all_ms: float
) -> list[float]:
    """Return the work of a stage by each assumption. Where no calls run beside each other, it adds
    up to the whole."""
    busy_ms = stage.busy_ms if stage.busy_ms > 0 else 0.0
    if not any(_calls_now(one) > 1 for one in stages):
        return [busy_ms * one.work_ms / all_ms for one in estimates]
    return [busy_ms * part for part in (BESIDE_EACH_OTHER if _calls_now(stage) > 1 else ALONE)]


def _stage_work(
    stages: Sequence[Stage], at: int, work_ms: float, setting: int | None, batch_size: int | None
) -> _StageWork:
    stage, is_before_batch = stages[at], any("Batch" in later.kind for later in stages[at + 1 :])
    elements = float(batch_size or BATCH) if is_before_batch else 1.0
    return _StageWork(work_ms, _calls_now(stage), elements, setting, stage.is_buffer)


def _calls_now(stage: Stage) -> int:
    if not stage.is_parallel:
        return 0
    return 1 if math.isnan(stage.parallelism) else max(int(stage.parallelism), 1)
