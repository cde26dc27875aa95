"""The verdict on a stretch of steps: input-bound by the TensorFlow profiler's thresholds, or another limit."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.analysis.steps.breakdown import breakdown, steady
from tfwatch.core.rows import Flag, step_ms

if TYPE_CHECKING:
    from tfwatch.analysis.steps.breakdown import Breakdown
    from tfwatch.core.rows import Rows

#: Shares of step time: `kModeratelyInfeedBoundThresholdInPercent` and `kHighlyInfeedBoundThresholdInPercent` in
#: the TensorFlow profiler's input_pipeline_analysis / op_stats_to_input_pipeline_analysis.cc.
MODERATELY_FROM = 0.05
HIGHLY_FROM = 0.20
#: tfwatch's own threshold: the share that makes a run highly input-bound, between the steps instead.
HOST_FROM = 0.20
#: Launch-bound: launching the kernels takes more than half of the compute on an accelerator.
LAUNCH_FROM = 0.5
#: Launch-bound on the CPU: a step that runs op by op and spends this share of its time in Python.
PYTHON_FROM = 0.20
#: A verdict changes when the share is this far past the threshold.
HYSTERESIS = 0.02
#: The window: this many steady steps, or this much step time, whichever is more.
NEEDED = 20
WINDOW_MS = 2000.0
#: Steps before the window that are needed to find single spikes in it.
_CONTEXT = 128
#: This many rows hold a window and its context where steps are longer than 5 ms; 4096 rows are 128 KB to read.
_USUALLY = 512


class Verdict(Enum):
    """The TensorFlow profiler's own words; its thresholds are 5 % and 20 % of step time."""

    UNKNOWN = "not enough data"
    NOT = "NOT input-bound"
    MODERATELY = "MODERATELY input-bound"
    HIGHLY = "HIGHLY input-bound"


class Bound(Enum):
    """The limit of the steps: the part to work on."""

    INPUT = "input-bound"
    HOST = "host-bound"
    LAUNCH = "launch-bound"
    COMPUTE = "compute-bound"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict over a window of `steps` steady steps; `needed` is the least number for a verdict.

    bound: the limit of the steps; None without enough data.
    """

    verdict: Verdict
    steps: int
    needed: int
    breakdown: Breakdown | None
    bound: Bound | None = None


def judge(
    rows: Rows,
    before: Verdict = Verdict.UNKNOWN,
    *,
    accelerated: bool = False,
    op_by_op: bool = False,
    bound: Bound | None = None,
) -> Judgement:
    """Judge the newest steps of `rows` (the last max(20 steps, 2 s), steady ones).

    `before` and `bound` are those of the last judgement: they are kept until the share is 2 points past the threshold
    (hysteresis). Steps before the newest pipeline switch belong to another setting and are not judged.
    accelerated: the steps run on a device other than the CPU. op_by_op: as Python, not as a graph.
    """
    window = _window(rows)
    split = breakdown(window)
    if split is None or split.steps < NEEDED:
        return Judgement(Verdict.UNKNOWN, len(window), NEEDED, split)
    verdict = classify(split, before)
    return Judgement(verdict, split.steps, NEEDED, split, find_bound(split, verdict, accelerated, bound, op_by_op))


def find_bound(
    split: Breakdown, verdict: Verdict, accelerated: bool, before: Bound | None = None, op_by_op: bool = False
) -> Bound:
    """Find the limit of a stretch of steady steps with this verdict.

    A starving device is always input-bound. On a CPU the call of a graph is the compute: only steps that run op by op
    are launch-bound there.
    """
    if verdict is not Verdict.NOT:
        return Bound.INPUT
    if split.host_share >= _threshold(HOST_FROM, before is not None, before is Bound.HOST):
        return Bound.HOST
    share, threshold = (split.launch_share, LAUNCH_FROM) if accelerated else (split.dispatch_share, PYTHON_FROM)
    if (accelerated or op_by_op) and share >= _threshold(threshold, before is not None, before is Bound.LAUNCH):
        return Bound.LAUNCH
    return Bound.COMPUTE


def classify(split: Breakdown, before: Verdict = Verdict.UNKNOWN) -> Verdict:
    """Return the verdict on a stretch of steady steps."""
    known = before is not Verdict.UNKNOWN
    if split.wait_share >= _threshold(HIGHLY_FROM, known, before is Verdict.HIGHLY):
        return Verdict.HIGHLY
    if split.wait_share >= _threshold(MODERATELY_FROM, known, before in (Verdict.MODERATELY, Verdict.HIGHLY)):
        return Verdict.MODERATELY
    return Verdict.NOT


def _threshold(threshold: float, known: bool, above: bool) -> float:
    """Return the threshold with hysteresis: lower if the last share was `above` it; as it is if none is `known`."""
    if not known:
        return threshold
    return threshold - HYSTERESIS if above else threshold + HYSTERESIS


def _window(rows: Rows) -> Rows:
    """Return the newest steady rows of the current setting, to judge by."""
    for newest in (rows[-_USUALLY:], rows):
        switches = np.flatnonzero(newest["flags"] & Flag.SWITCH)
        of_setting = newest[switches[-1] :] if len(switches) else newest
        plain = of_setting[of_setting["flags"] == 0]
        first = _window_start(plain) - _CONTEXT
        if first >= 0 or len(switches):
            break
    found = steady(plain[max(first, 0) :])
    return found[_window_start(found) :]


def _window_start(rows: Rows) -> int:
    """Return the start of the newest max(20 steps, 2 s of step time) of `rows`."""
    newest = step_ms(rows)[::-1]
    in_time = int(np.searchsorted(np.cumsum(newest, dtype=np.float64), WINDOW_MS, side="right"))
    return max(len(rows) - max(in_time, NEEDED), 0)
