"""The evidence for a forecast: the measurements of a run at one moment, from its tables."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tfwatch.core.rows import STEP, step_ms
from tfwatch.judge.autopilot.estimator import SettingSpan, intervals
from tfwatch.judge.effects.comparison import LONGEST
from tfwatch.judge.effects.knob_state import knobs_in_effect
from tfwatch.judge.findings.bottleneck import make_stage_table
from tfwatch.judge.steps.verdict import breakdown, steady

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tfwatch.core.events import PipelineSwitched, StagesFound
    from tfwatch.core.rows import Rows
    from tfwatch.judge.effects.comparison import Comparison
    from tfwatch.judge.findings.bottleneck import StageTable
    from tfwatch.judge.steps.verdict import Breakdown

#: A sample covers the half second before it: the first one after a switch belongs to the old setting.
_PERIOD_NS = 500_000_000
#: The readings of a table span this time: where a batch takes a second, a single reading may hold none.
_READINGS_NS = 10 * 10**9
#: The steps of a block, for the variation of the median step.
_BLOCK = 20


@dataclass(frozen=True, eq=False)
class Evidence:
    """The measurements of a run at one moment, of its current setting except `comparisons`.

    breakdown: of the steady steps since the last switch, None where there are none. rows: these steps, the newest last.
    knobs: the value of every knob in words, in effect. switchable: the knobs that can be switched.
    from_epoch: those of them that take effect with an epoch.
    stages: the cost of a batch in each stage; None where tf.data's model cannot be read.
    cores: of the machine. cores_free: idle. cores_used: by the process that trains. NaN where unknown.
    accelerated: the steps run on a device beside the CPU. memory_free: bytes, None where unknown.
    memory_limit: of the user for buffers, bytes, None where there is no limit.
    comparisons: of the switches so far, oldest first. switches: all that took effect, where not all are compared.
    batch_size: examples in a batch, None where unknown.
    batch_bytes: of one batch. cache_bytes: of the whole data set in a cache. None where unknown.
    cache_after: the name of the stage whose results a cache keeps; empty where it is not known.
    parallel_stages: the names of the stages whose parallel calls are set one by one, in the order of the pipeline.
    no_forecast_reason: e.g. `stalled`; empty where a forecast can be made.
    """

    breakdown: Breakdown | None
    knobs: Mapping[str, str]
    switchable: tuple[str, ...]
    stages: StageTable | None = None
    cores: int = 1
    cores_free: float = math.nan
    cores_used: float = math.nan
    accelerated: bool = False
    memory_free: float | None = None
    memory_limit: float | None = None
    comparisons: tuple[Comparison, ...] = ()
    switches: tuple[PipelineSwitched, ...] = ()
    batch_size: int | None = None
    batch_bytes: float | None = None
    cache_bytes: float | None = None
    rows: Rows = field(default_factory=lambda: np.empty(0, dtype=STEP))
    no_forecast_reason: str = ""
    from_epoch: tuple[str, ...] = ()
    cache_after: str = ""
    parallel_stages: Sequence[str] = ()

    @cached_property
    def history(self) -> list[SettingSpan]:
        """The measured settings of the run, oldest first."""
        return intervals(self.comparisons, self.knobs, self.switches)

    @cached_property
    def step_variation(self) -> float:
        """`block_variation` of the rows."""
        return block_variation(self.rows)


class RunDescription(Protocol):
    """The fields that are read of a run's manifest (`runs.format.Manifest`)."""

    @property
    def knobs(self) -> Mapping[str, str]: ...
    @property
    def switchable(self) -> Sequence[str]: ...
    @property
    def from_epoch(self) -> Sequence[str]: ...
    @property
    def accelerated(self) -> bool: ...
    @property
    def batch_size(self) -> int | None: ...
    @property
    def batch_bytes(self) -> int | None: ...
    @property
    def cache_bytes(self) -> int | None: ...
    @property
    def cache_after(self) -> str: ...
    @property
    def parallel_stages(self) -> Sequence[str]: ...
    @property
    def memory_limit(self) -> float | None: ...
    @property
    def machine(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, eq=False)
class EvidenceTables:
    """The tables of a run.

    rows_between: rows of `core.rows.STEP`, by the first and the last step. samples: all rows of `SAMPLE`.
    table_at: the last stages before `at_ns`, after this many steps; None where none were read.
    switches: all that took effect, in order.
    """

    run: RunDescription
    rows_between: Callable[[int, int], Rows]
    samples: Rows
    table_at: Callable[[int, int], StageTable | None]
    switches: Sequence[PipelineSwitched]

    @property
    def cores(self) -> int:
        """The cores that the run may use."""
        return cores_of(self.run)


def cores_of(run: RunDescription) -> int:
    """Return the cores that a run may use; 1 where its manifest lacks them."""
    known = (run.machine.get(name) for name in ("cores", "cores_allowed"))
    return max(1, math.ceil(min(filter(None, known), default=1)))


def stage_tables_by_time(
    rows: Rows, pipelines: Mapping[int, StagesFound]
) -> Callable[[int, int], StageTable | None]:
    """Return `EvidenceTables.table_at` for all rows of `core.rows.STAGE`: of the 10 s up to the last reading.

    None where that is 20 s before the moment: the same readings as a live screen has.
    """
    rows = rows[rows["at_ns"] > 0]  # a dropped stretch reads as zeros

    def table_at(step: int, at_ns: int) -> StageTable | None:
        del step
        last = bisect_right(rows["at_ns"], at_ns)
        end_ns = int(rows["at_ns"][last - 1]) if last else 0
        if end_ns < at_ns - 2 * _READINGS_NS:
            return None
        first = bisect_right(rows["at_ns"], max(end_ns - _READINGS_NS, 0))
        return make_stage_table(rows[first:last], pipelines)

    return table_at


def build_evidence(
    tables: EvidenceTables,
    comparisons: Sequence[Comparison],
    step: int,
    at_ns: int,
    no_forecast_reason: str = "",
) -> Evidence:
    """Build the evidence after `step` steps, at `at_ns`; `comparisons` are those up to then."""
    run, made = tables.run, [switch for switch in tables.switches if switch.step <= step]
    since = made[-1].step if made else 1
    rows = steady(tables.rows_between(max(since, step - LONGEST + 1), step))
    samples = _since(tables.samples, int(rows["start_ns"][0]) if len(rows) else at_ns, at_ns)
    available = _mean(samples[-1:], "memory_available_bytes")
    split = breakdown(rows)
    table = tables.table_at(step, at_ns)
    return Evidence(
        breakdown=split,
        knobs=knobs_in_effect(run.knobs, made),
        switchable=tuple(run.switchable),
        stages=_judged(tables, table, samples, split),
        cores=tables.cores,
        cores_free=max(tables.cores - _mean(samples, "cpu_cores"), 0.0),
        cores_used=_mean(samples, "process_cores"),
        accelerated=run.accelerated,
        memory_free=None if math.isnan(available) else available,
        memory_limit=run.memory_limit,
        comparisons=tuple(switch for switch in comparisons if switch.step is not None),
        switches=tuple(made),
        batch_size=run.batch_size,
        batch_bytes=run.batch_bytes,
        cache_bytes=run.cache_bytes,
        rows=rows,
        no_forecast_reason=no_forecast_reason,
        from_epoch=tuple(run.from_epoch),
        cache_after=run.cache_after,
        parallel_stages=run.parallel_stages,
    )


def _judged(
    tables: EvidenceTables, table: StageTable | None, samples: Rows, split: Breakdown | None
) -> StageTable | None:
    if table is None:
        return None
    others = _mean(samples, "cpu_cores") - _mean(samples, "process_cores")
    took_ms = (split.wait.mean, split.work_mean_ms) if split else ()
    return table.with_bottleneck(tables.cores, others, *took_ms)


def last_table(tables: EvidenceTables, rows: Rows, split: Breakdown | None) -> StageTable | None:
    """Return the last stage table of a run, from all rows of `core.rows.STAGE`. split: of its last steps."""
    at_ns = int(rows["at_ns"].max(initial=0))
    samples = _since(tables.samples, max(at_ns - _READINGS_NS - _PERIOD_NS, 0), at_ns)
    return _judged(tables, tables.table_at(0, at_ns), samples, split)


def _since(samples: Rows, begun_ns: int, at_ns: int) -> Rows:
    # Not `searchsorted`: it copies the whole column first.
    first, last = (bisect_right(samples["at_ns"], at) for at in (begun_ns + _PERIOD_NS, at_ns))
    rows: Rows = samples[first:last]
    return rows


def _mean(samples: Rows, column: str) -> float:
    known = samples[column][np.isfinite(samples[column])]
    return float(known.mean()) if len(known) else math.nan


def block_variation(rows: Rows) -> float:
    """Return the variation of the median step between blocks of 20: standard deviation over median.

    0 below three blocks.
    """
    count = len(rows) // _BLOCK
    if count < 3:
        return 0.0
    steps = step_ms(rows, np.float64)
    medians = np.median(steps[-count * _BLOCK :].reshape(count, _BLOCK), axis=1)
    return float(medians.std(ddof=1) / np.median(medians)) if np.median(medians) > 0 else 0.0
