"""A whole run in figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.analysis.advice import fills_shuffle, slow_callback
from tfwatch.analysis.breakdown import breakdown, steady
from tfwatch.analysis.causes import Pauses
from tfwatch.analysis.patterns import find_patterns
from tfwatch.analysis.spikes import SpikeSearch
from tfwatch.analysis.stalls import find_stalls
from tfwatch.analysis.switches import compare
from tfwatch.analysis.trials import without_switches
from tfwatch.analysis.verdict import NEEDED, Bound, Verdict, bound_by, classify
from tfwatch.core.events import Paused
from tfwatch.core.rows import Flag, plausible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.analysis.breakdown import Breakdown
    from tfwatch.analysis.patterns import Pattern
    from tfwatch.analysis.spikes import Spike
    from tfwatch.analysis.stalls import Stall
    from tfwatch.analysis.switches import Comparison
    from tfwatch.core.events import Event
    from tfwatch.core.rows import Rows


@dataclass(frozen=True, slots=True)
class Latest:
    """The steady steps of a run's last setting, and what they are bound by."""

    split: Breakdown
    bound: Bound


@dataclass(frozen=True, slots=True)
class Summary:
    """What became of a run's steps.

    steady: the split of all steady steps; None where there are none. left_out: how many steps are not steady,
        flagged ones and single spikes. verdict: on the steady ones, without hysteresis.
    bound: what they are bound by; None where there is not enough data.
    latest: the same of the pipeline's last setting; None where there is not enough data.
    callback: the class of the one that takes most of what follows a step, where it is known.
    fills: a shuffle buffer was filled before an epoch's first batch.
    """

    steps: int
    steady: Breakdown | None
    verdict: Verdict
    bound: Bound | None
    left_out: int
    spikes: list[Spike]
    switches: list[Comparison]
    stalls: list[Stall]
    patterns: list[Pattern]
    latest: Latest | None = None
    callback: str = ""
    fills: bool = False


def summarise(
    steps: Rows,
    events: Sequence[Event],
    accelerated: bool = False,
    open_wait: Rows | None = None,
    op_by_op: bool = False,
) -> Summary:
    """Sum up a run; `steps` are all its rows of `core.rows.STEP`, step 1 first.

    accelerated: the steps ran on a device beside the CPU. open_wait: a row of the wait that had not ended, if any:
    it may be a stall, and is no step. op_by_op: as `Manifest` has it.
    """
    rows = steps[plausible(steps)]
    pauses, search = Pauses(events), SpikeSearch(rows)
    split = breakdown(steady(rows, search))
    latest = latest_of(rows, split, accelerated, op_by_op)
    verdict = classify(split) if split and split.steps >= NEEDED else Verdict.UNKNOWN
    return Summary(
        steps=len(steps),
        steady=split,
        verdict=verdict,
        bound=bound_by(split, verdict, accelerated, op_by_op=op_by_op)
        if split and verdict is not Verdict.UNKNOWN
        else None,
        left_out=len(rows) - (split.steps if split else 0),
        spikes=search.spikes(pauses),
        switches=compare(events, len(steps), lambda first, last: between(steps, first, last)),
        stalls=without_switches(
            find_stalls(rows if open_wait is None else np.concatenate([rows, open_wait]), pauses), events
        ),
        patterns=find_patterns(rows, pauses),
        latest=latest,
        callback=slow_callback((e for e in events if isinstance(e, Paused)), latest.split.host.mean if latest else 0.0),
        fills=fills_shuffle(rows),
    )


def latest_of(rows: Rows, whole: Breakdown | None, accelerated: bool, op_by_op: bool) -> Latest | None:
    """The last setting of a stretch of plausible rows, whose steady steps have the split `whole`."""
    switches = np.flatnonzero(rows["flags"] & Flag.SWITCH)
    split = breakdown(steady(rows[switches[-1] :])) if len(switches) else whole
    if split is None or split.steps < NEEDED:
        return None
    return Latest(split, bound_by(split, classify(split), accelerated, op_by_op=op_by_op))


def between(steps: Rows, first: int, last: int) -> Rows:
    """The plausible rows of steps first to last (counted from 1, both included); `steps` are all of them."""
    rows = steps[max(first, 1) - 1 : last]
    kept: Rows = rows[plausible(rows)]
    return kept
