"""Whether the device starves: the TensorFlow profiler's words and lines."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.analysis.breakdown import breakdown, steady
from tfwatch.core.rows import Flag

if TYPE_CHECKING:
    from tfwatch.analysis.breakdown import Breakdown
    from tfwatch.core.rows import Rows

#: Shares of step time: `kModeratelyInfeedBoundThresholdInPercent` and `kHighlyInfeedBoundThresholdInPercent` in
#: the TensorFlow profiler's input_pipeline_analysis / op_stats_to_input_pipeline_analysis.cc.
MODERATELY_FROM = 0.05
HIGHLY_FROM = 0.20
#: tfwatch's own line: as much as makes a run highly input-bound, lost between the steps instead.
HOST_FROM = 0.20
#: A verdict changes when the share is this far past the line.
HYSTERESIS = 0.02
#: The window: so many steady steps, or so much step time, whichever is more.
NEEDED = 20
WINDOW_MS = 2000.0
#: Steps before the window that tell whether a slow one in it is a single spike.
_CONTEXT = 128


class Verdict(Enum):
    """The TensorFlow profiler's own words; its lines are 5 % and 20 % of step time."""

    UNKNOWN = "not enough data"
    NOT = "NOT input-bound"
    MODERATELY = "MODERATELY input-bound"
    HIGHLY = "HIGHLY input-bound"
    HOST = "host-bound"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict over a window; `steps` of `needed` steady steps were there to judge by."""

    verdict: Verdict
    steps: int
    needed: int
    breakdown: Breakdown | None


def judge(rows: Rows, before: Verdict = Verdict.UNKNOWN) -> Judgement:
    """Judge the newest steps of `rows` (the last max(20 steps, 2 s), steady ones).

    `before` is the last verdict: it is kept until the share is 2 points past the line (hysteresis).
    Steps before the newest pipeline switch are of another setting and never judged.
    """
    window = _window(rows)
    split = breakdown(window)
    if split is None or split.steps < NEEDED:
        return Judgement(Verdict.UNKNOWN, len(window), NEEDED, split)
    return Judgement(classify(split, before), split.steps, NEEDED, split)


def classify(split: Breakdown, before: Verdict = Verdict.UNKNOWN) -> Verdict:
    """The verdict on a stretch of steady steps.

    A run is host-bound only where it is NOT input-bound: a starving device is never told as anything else.
    """
    if split.wait_share >= _line(HIGHLY_FROM, before, {Verdict.HIGHLY}):
        return Verdict.HIGHLY
    if split.wait_share >= _line(MODERATELY_FROM, before, {Verdict.MODERATELY, Verdict.HIGHLY}):
        return Verdict.MODERATELY
    if split.host_share >= _line(HOST_FROM, before, {Verdict.HOST}) and split.host_share > split.wait_share:
        return Verdict.HOST
    return Verdict.NOT


def _line(line: float, before: Verdict, above: set[Verdict]) -> float:
    """Where the line lies for one who comes from `before`; `above` are the verdicts beyond it."""
    if before is Verdict.UNKNOWN:
        return line
    return line - HYSTERESIS if before in above else line + HYSTERESIS


def _window(rows: Rows) -> Rows:
    """The steady rows to judge by: of one setting, the newest."""
    switches = np.flatnonzero(rows["flags"] & Flag.SWITCH)
    rows = rows[switches[-1] :] if len(switches) else rows
    plain = rows[rows["flags"] == 0]
    found = steady(plain[max(_window_start(plain) - _CONTEXT, 0) :])
    return found[_window_start(found) :]


def _window_start(rows: Rows) -> int:
    """Where the newest max(20 steps, 2 s of step time) of `rows` begin."""
    newest = (rows["wait_ms"] + rows["compute_ms"] + rows["host_ms"])[::-1]
    in_time = int(np.searchsorted(np.cumsum(newest, dtype=np.float64), WINDOW_MS, side="right"))
    return max(len(rows) - max(in_time, NEEDED), 0)
