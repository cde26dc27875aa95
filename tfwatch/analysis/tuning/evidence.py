"""What a forecast stands on: the evidence of a moment, gathered from a run's tables."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tfwatch.analysis.findings.bottleneck import make_stage_table
from tfwatch.analysis.steps.breakdown import breakdown, steady
from tfwatch.analysis.tuning.comparison import LONGEST
from tfwatch.analysis.tuning.estimator import Interval, intervals
from tfwatch.analysis.tuning.knob_state import knobs_in_effect
from tfwatch.core.rows import STEP, step_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tfwatch.analysis.findings.bottleneck import StageTable
    from tfwatch.analysis.steps.breakdown import Breakdown
    from tfwatch.analysis.tuning.comparison import Comparison
    from tfwatch.core.events import PipelineSwitched, StagesFound
    from tfwatch.core.rows import Rows

#: A sample is of the half second before it: those before belong to the setting before.
_PERIOD_NS = 500_000_000
#: A table is made of the readings of so long: where a batch takes a second, a single one may hold none.
_READINGS_NS = 10 * 10**9
#: A stretch is looked at in blocks of so many steps, to see how the step wanders by itself.
_BLOCK = 20


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known of a run at the moment of a forecast, all of it of the present setting but `comparisons`.

    breakdown: of the steady steps since the last switch, None where there are none; rows: these steps, the newest last.
    knobs: every knob's value in words, in effect. switchable: the knobs that can be turned.
    stages: what a batch costs in each stage; None where tf.data's model cannot be read.
    cores: of the machine. cores_free: in use by nobody; cores_used: by the process that trains. NaN is unknown.
    accelerated: the steps run on a device beside the CPU. memory_free: bytes, None where unknown.
    memory_limit: bytes that the user lets buffers take, None where there is no limit.
    comparisons: the run's switches so far, oldest first; turns: all that took effect, where not all are compared.
    batch_size: examples in a batch, None where unknown.
    batch_bytes: of one batch, cache_bytes: of the whole data set in a cache; None where unknown.
    silence: why nothing is to be forecast now, e.g. `stalled`; empty where something is.
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

    @cached_property
    def history(self) -> list[Interval]:
        """What the settings of this run have shown, oldest first."""
        return intervals(self.comparisons, self.knobs, self.switches)

    @cached_property
    def step_variation(self) -> float:
        """`wanders` of the rows."""
        return block_variation(self.rows)


class RunDescription(Protocol):
    """What is asked of a run's manifest (`runs.format.Manifest`)."""

    @property
    def knobs(self) -> Mapping[str, str]: ...
    @property
    def switchable(self) -> Sequence[str]: ...
    @property
    def accelerated(self) -> bool: ...
    @property
    def batch_size(self) -> int | None: ...
    @property
    def batch_bytes(self) -> int | None: ...
    @property
    def cache_bytes(self) -> int | None: ...
    @property
    def memory_limit(self) -> float | None: ...
    @property
    def machine(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, eq=False)
class EvidenceTables:
    """A run's tables.

    rows_between: rows of `core.rows.STEP`, by the first and the last step. samples: rows of `SAMPLE`, as many as there
    are. table_at: the stages as they were read last before `at_ns`, after so many steps; None where they were not.
    switched: every switch of the run that took effect, in order.
    """

    run: RunDescription
    rows_between: Callable[[int, int], Rows]
    samples: Rows
    table_at: Callable[[int, int], StageTable | None]
    switches: Sequence[PipelineSwitched]

    @property
    def cores(self) -> int:
        """`cores_of` the run."""
        return cores_of(self.run)


def cores_of(run: RunDescription) -> int:
    """Cores that a run may use; 1 where its manifest does not tell."""
    known = (run.machine.get(name) for name in ("cores", "cores_allowed"))
    return max(1, math.ceil(min((n for n in known if isinstance(n, int | float) and n > 0), default=1)))


def stage_tables_by_time(rows: Rows, found: Mapping[int, StagesFound]) -> Callable[[int, int], StageTable | None]:
    """For `EvidenceTables.table_at`, of all of a run's rows of `core.rows.STAGE`: the readings of the 10 s before."""
    rows = rows[rows["at_ns"] > 0]  # a dropped stretch reads as zeros

    def table_at(step: int, at_ns: int) -> StageTable | None:
        del step
        last = int(np.searchsorted(rows["at_ns"], np.uint64(at_ns), side="right"))
        first = int(np.searchsorted(rows["at_ns"], np.uint64(max(at_ns - _READINGS_NS, 0)), side="left"))
        return make_stage_table(rows[first:last], found)

    return table_at


def build_evidence(
    tables: EvidenceTables, comparisons: Sequence[Comparison], step: int, at_ns: int, no_forecast_reason: str = ""
) -> Evidence:
    """What is known after `step` steps, at `at_ns`; `comparisons`: the switches up to then.

    silence: why nothing is to be forecast now, e.g. `stalled`.
    """
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
    )


def _judged(
    tables: EvidenceTables, table: StageTable | None, samples: Rows, split: Breakdown | None
) -> StageTable | None:
    if table is None:
        return None
    others = _mean(samples, "cpu_cores") - _mean(samples, "process_cores")
    took_ms = (split.wait.mean, split.work_mean_ms) if split else ()
    return table.judged(tables.cores, others, *took_ms)


def last_table(tables: EvidenceTables, rows: Rows, split: Breakdown | None) -> StageTable | None:
    """The last table of a run, of all its rows of `core.rows.STAGE`; split: of its last steps. None without rows."""
    at_ns = int(rows["at_ns"].max(initial=0))
    samples = _since(tables.samples, max(at_ns - _READINGS_NS - _PERIOD_NS, 0), at_ns)
    return _judged(tables, tables.table_at(0, at_ns), samples, split)


def _since(samples: Rows, begun_ns: int, at_ns: int) -> Rows:
    first = np.searchsorted(samples["at_ns"], np.uint64(begun_ns + _PERIOD_NS), side="right")
    last = np.searchsorted(samples["at_ns"], np.uint64(at_ns), side="right")
    found: Rows = samples[first:last]
    return found


def _mean(samples: Rows, column: str) -> float:
    known = samples[column][np.isfinite(samples[column])]
    return float(known.mean()) if len(known) else math.nan


def block_variation(rows: Rows) -> float:
    """By how much the median step of one block of 20 differs from that of another: standard deviation over median.

    0 where there are fewer than three blocks.
    """
    count = len(rows) // _BLOCK
    if count < 3:
        return 0.0
    steps = step_ms(rows, np.float64)
    medians = np.median(steps[-count * _BLOCK :].reshape(count, _BLOCK), axis=1)
    return float(medians.std(ddof=1) / np.median(medians)) if np.median(medians) > 0 else 0.0
