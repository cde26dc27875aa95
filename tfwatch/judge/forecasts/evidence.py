"""The evidence for a forecast: the measurements of a run at one moment."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core.events import EXPERIMENT, ExperimentEnded, PipelineSwitched
from tfwatch.core.knobs import MULTIPROCESSING, OFF, PY_DATASET_KNOBS
from tfwatch.core.rows import STEP, step_ms
from tfwatch.judge.effects.comparison import LEAST, LONGEST, compare
from tfwatch.judge.effects.switching_state import knobs_in_effect
from tfwatch.judge.stages import make_stage_table
from tfwatch.judge.steps.steady_steps import breakdown, steady

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tfwatch.core.rows import Rows
    from tfwatch.judge.effects.comparison import Comparison
    from tfwatch.judge.stages import StageTable
    from tfwatch.judge.steps.steady_steps import Breakdown
    from tfwatch.runs.format import Manifest
    from tfwatch.runs.snapshot import Snapshot

#: A sample covers the half second before it: the first one after a switch belongs to the old
#: setting.
_PERIOD_NS = 500_000_000
#: The readings of a table span this time: where a batch takes a second, a single reading may hold
#: none.
_READINGS_NS = 10 * 10**9
#: The steps of a block, for the variation of the median step, and a least median, milliseconds.
_BLOCK, _LEAST_MS = 20, 1e-3


@dataclass(frozen=True, eq=False)
class Evidence:
    """The measurements of a run at one moment, of its current setting except `comparisons`."""

    run: Manifest
    #: Of the steady steps since the last switch, None where there are none.
    breakdown: Breakdown | None
    #: The value of every knob in words, in effect.
    knobs: Mapping[str, str]
    #: The cost of a batch in each stage; None where tf.data's model cannot be read.
    stages: StageTable | None = None
    #: The cores that are idle, and those that the training uses; NaN where unknown.
    cores_free: float = math.nan
    cores_used: float = math.nan
    #: Bytes, None where unknown.
    memory_free: float | None = None
    #: Of the switches so far, oldest first; and all that took effect, where not all are compared.
    comparisons: tuple[Comparison, ...] = ()
    switches: tuple[PipelineSwitched, ...] = ()
    #: The newest A/B test, where no other knob was switched since.
    test: ExperimentEnded | None = None
    #: The steady steps since the last switch, the newest last.
    rows: Rows = field(default_factory=lambda: np.empty(0, dtype=STEP))
    #: E.g. `stalled`; empty where a forecast can be made.
    no_forecast_reason: str = ""

    @property
    def cores(self) -> int:
        """The cores that the run may use."""
        return cores_of(self.run)

    @cached_property
    def history(self) -> list[tuple[Mapping[str, str], Breakdown]]:
        """The settings of the run with their steady steps, oldest first: on both sides of each
        comparison. Switches at one step begin one stretch."""
        spans: list[tuple[Mapping[str, str], Breakdown | None]] = []
        for one in self.comparisons:
            sides = ((one.step - 1, one.before),) if not spans else ()
            for step, split in (*sides, (one.step, one.after)):
                made = [switch for switch in self.switches if switch.step <= step]
                spans.append((knobs_in_effect(self.run.knobs, made), split))
        return [(knobs, split) for knobs, split in spans if split is not None]

    def measured_ms(self, knobs: Mapping[str, str]) -> float | None:
        """Return the typical step with these settings as this run has measured it last, in an A/B
        test or beside a switch; None without any."""
        tested = self.test
        others = {knob: value for knob, value in knobs.items() if tested and knob != tested.knob}
        if tested and others.items() <= self.knobs.items():
            known = tested.step_ms.get(knobs[tested.knob])
            if known is not None:
                return known
        spans = (split for had, split in reversed(self.history) if had == knobs)
        enough = next((split for split in spans if split.steps >= LEAST), None)
        return enough.typical_ms(enough.step) if enough else None

    @cached_property
    def step_variation(self) -> float:
        """The variation of the median step between blocks of 20: standard deviation over median; 0
        below three blocks."""
        count = len(self.rows) // _BLOCK
        if count < 3:
            return 0.0
        steps = step_ms(self.rows, np.float64)
        medians = np.median(steps[-count * _BLOCK :].reshape(count, _BLOCK), axis=1)
        return float(medians.std(ddof=1) / max(np.median(medians), _LEAST_MS))


def cores_of(run: Manifest) -> int:
    """Return the cores that a run may use; 1 where its manifest lacks them."""
    known = run.machine.get("cores"), run.machine.get("cores_allowed")
    return max(1, math.ceil(min(filter(None, known), default=1)))


def stage_table_at(run: Snapshot, at_ns: int) -> StageTable | None:
    """Return the stages of a run from the readings of 10 s up to the last one before a moment."""
    rows = run.stages[run.stages["at_ns"] > 0]  # a dropped stretch reads as zeros
    last = bisect_right(rows["at_ns"], at_ns)
    end_ns = int(rows["at_ns"][last - 1]) if last else 0
    first = bisect_right(rows["at_ns"], max(end_ns - _READINGS_NS, 0))
    return make_stage_table(rows[first:last], run.stages_found)


def build_evidence(
    run: Snapshot,
    comparisons: Sequence[Comparison],
    table: StageTable | None,
    step: int,
    at_ns: int,
    no_forecast_reason: str = "",
) -> Evidence:
    """Build the evidence after `step` steps, at `at_ns`. comparisons: those up to then; table: of
    the stages as they were read last."""
    manifest = run.manifest
    made = [one for one in run.events.of(PipelineSwitched) if one.step <= step]
    since = made[-1].step if made else 1
    rows = steady(run.steps_between(max(since, step - LONGEST + 1), step))
    samples = _since(run.samples, int(rows["start_ns"][0]) if len(rows) else at_ns, at_ns)
    available = _mean(samples[-1:], "memory_available_bytes")
    split, knobs = breakdown(rows), knobs_in_effect(manifest.knobs, made)
    # tf.data keeps no model of a `PyDataset` with workers: its readings are those before them.
    if MULTIPROCESSING in knobs and any(knobs[knob] != OFF for knob in PY_DATASET_KNOBS):
        table = None
    return Evidence(
        manifest,
        split,
        knobs,
        stages=_with_bottleneck(manifest, table, samples, split),
        cores_free=max(cores_of(manifest) - _mean(samples, "cpu_cores"), 0.0),
        cores_used=_mean(samples, "process_cores"),
        memory_free=None if math.isnan(available) else available,
        comparisons=tuple(comparisons),
        switches=tuple(made),
        test=_newest_test(run, made, step),
        rows=rows,
        no_forecast_reason=no_forecast_reason,
    )


def evidence_now(
    run: Snapshot, comparisons: Sequence[Comparison] | None = None, no_forecast_reason: str = ""
) -> Evidence:
    """Return the evidence of this moment of a live run. comparisons: of the switches so far, made
    here where they are not given. no_forecast_reason: see `Evidence`."""
    total = run.steps_total
    if comparisons is None:
        switches = run.events.of(PipelineSwitched)
        accelerated = run.manifest.accelerated
        comparisons = compare(switches, total, run.steps_between, accelerated=accelerated)
    table = make_stage_table(run.recent_stages, run.stages_found)
    at_ns = round(run.now_s * 1e9)
    return build_evidence(run, comparisons, table, total, at_ns, no_forecast_reason)


def _newest_test(
    run: Snapshot, made: Sequence[PipelineSwitched], step: int
) -> ExperimentEnded | None:
    tests = [one for one in run.events.of(ExperimentEnded) if one.step <= step]
    since = max((one.step for one in made if one.by != EXPERIMENT), default=0)
    return tests[-1] if tests and tests[-1].step >= since else None


def _with_bottleneck(
    run: Manifest, table: StageTable | None, samples: Rows, split: Breakdown | None
) -> StageTable | None:
    if table is None:
        return None
    used = _mean(samples, "process_cores")
    others = _mean(samples, "cpu_cores") - used
    took_ms = (split.wait.mean, split.work_mean_ms, used) if split else ()
    return table.with_bottleneck(cores_of(run), others, *took_ms)


def _since(samples: Rows, begun_ns: int, at_ns: int) -> Rows:
    # Not `searchsorted`: it copies the whole column first.
    first, last = (bisect_right(samples["at_ns"], at) for at in (begun_ns + _PERIOD_NS, at_ns))
    rows: Rows = samples[first:last]
    return rows


def _mean(samples: Rows, column: str) -> float:
    known = samples[column][np.isfinite(samples[column])]
    return float(known.mean()) if len(known) else math.nan
