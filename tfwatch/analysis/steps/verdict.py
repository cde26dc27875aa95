"""Whether the device starves, in the TensorFlow profiler's words and lines, and what else a step is bound by."""

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
#: tfwatch's own line: as much as makes a run highly input-bound, lost between the steps instead.
HOST_FROM = 0.20
#: Launch-bound: an accelerator's step is launched for longer than it is waited for.
LAUNCH_FROM = 0.5
#: And a step that runs op by op on the CPU, where Python takes as much of it as makes a run highly input-bound.
PYTHON_FROM = 0.20
#: A verdict changes when the share is this far past the line.
HYSTERESIS = 0.02
#: The window: so many steady steps, or so much step time, whichever is more.
NEEDED = 20
WINDOW_MS = 2000.0
#: Steps before the window that tell whether a slow one in it is a single spike.
_CONTEXT = 128
#: So many rows hold a window and its context, where steps are longer than 5 ms: 4096 are 128 KB to look through.
_USUALLY = 512


class Verdict(Enum):
    """The TensorFlow profiler's own words; its lines are 5 % and 20 % of step time."""

    UNKNOWN = "not enough data"
    NOT = "NOT input-bound"
    MODERATELY = "MODERATELY input-bound"
    HIGHLY = "HIGHLY input-bound"


class Bound(Enum):
    """What the steps are bound by: what to work on."""

    INPUT = "input-bound"
    HOST = "host-bound"
    LAUNCH = "launch-bound"
    COMPUTE = "compute-bound"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict over a window; `steps` of `needed` steady steps were there to judge by.

    bound: what the steps are bound by; None where there is not enough data.
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

    `before` and `bound` are of the last judgement: they are kept until the share is 2 points past the line
    (hysteresis). Steps before the newest pipeline switch are of another setting and never judged.
    accelerated: the steps run on a device beside the CPU. op_by_op: as Python, not as a graph.
    """
    window = _window(rows)
    split = breakdown(window)
    if split is None or split.steps < NEEDED:
        return Judgement(Verdict.UNKNOWN, len(window), NEEDED, split)
    verdict = classify(split, before)
    return Judgement(verdict, split.steps, NEEDED, split, bound_by(split, verdict, accelerated, bound, op_by_op))


def bound_by(
    split: Breakdown, verdict: Verdict, accelerated: bool, before: Bound | None = None, op_by_op: bool = False
) -> Bound:
    """What a stretch of steady steps with this verdict is bound by.

    A starving device is never told as anything else. On a CPU a graph's call is the compute: only what runs op by op
    is launch-bound there.
    """
    if verdict is not Verdict.NOT:
        return Bound.INPUT
    if split.host_share >= _line(HOST_FROM, before is not None, before is Bound.HOST):
        return Bound.HOST
    share, line = (split.launch_share, LAUNCH_FROM) if accelerated else (split.dispatch_share, PYTHON_FROM)
    if (accelerated or op_by_op) and share >= _line(line, before is not None, before is Bound.LAUNCH):
        return Bound.LAUNCH
    return Bound.COMPUTE


def classify(split: Breakdown, before: Verdict = Verdict.UNKNOWN) -> Verdict:
    """The verdict on a stretch of steady steps."""
    known = before is not Verdict.UNKNOWN
    if split.wait_share >= _line(HIGHLY_FROM, known, before is Verdict.HIGHLY):
        return Verdict.HIGHLY
    if split.wait_share >= _line(MODERATELY_FROM, known, before in (Verdict.MODERATELY, Verdict.HIGHLY)):
        return Verdict.MODERATELY
    return Verdict.NOT


def _line(line: float, known: bool, above: bool) -> float:
    """Where the line lies for one who comes from `above` it or from below; where nothing was before, at the line."""
    if not known:
        return line
    return line - HYSTERESIS if above else line + HYSTERESIS


def _window(rows: Rows) -> Rows:
    """The steady rows to judge by: of one setting, the newest."""
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
    """Where the newest max(20 steps, 2 s of step time) of `rows` begin."""
    newest = step_ms(rows)[::-1]
    in_time = int(np.searchsorted(np.cumsum(newest, dtype=np.float64), WINDOW_MS, side="right"))
    return max(len(rows) - max(in_time, NEEDED), 0)
