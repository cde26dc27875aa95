"""The last setting of a run: the run is judged by its steps."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core.rows import Flag
from tfwatch.judge.effects.comparison import LONGEST
from tfwatch.judge.effects.tuner_events import blocks_like_the_last
from tfwatch.judge.steps.steady_steps import SteadySteps

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tfwatch.core.rows import Rows
    from tfwatch.judge.steps.steady_steps import Breakdown


@dataclass(frozen=True, slots=True)
class LastSetting:
    """The last setting of a run."""

    #: First and last step of each stretch with that setting, oldest first: several after an A/B
    #: test.
    stretches: tuple[tuple[int, int], ...]
    #: The last of the steady steps, at most 600.
    newest: Rows
    #: Of all its steady steps; None without any.
    split: Breakdown | None


def find_last_setting(rows: Rows, events: Iterable[object], since_ns: int = 0) -> LastSetting:
    """Find the last setting, and split its steps. After an A/B test all blocks with it count.

    rows: all plausible rows of the run. since_ns: the begin of the present regime.
    """
    begins = np.flatnonzero(rows["flags"] & Flag.SWITCH).tolist()
    now = rows[begins[-1] :] if begins else rows
    now = now[int(np.searchsorted(now["start_ns"], since_ns)) :]
    earlier = [_since_switch(_within(rows, *block)) for block in blocks_like_the_last(events)]
    settings = [*earlier, now]
    # One stretch may be ten million steps: it is not copied.
    calm = SteadySteps(np.concatenate(settings) if earlier else now)
    ends = tuple((int(one["step"][0]), int(one["step"][-1])) for one in settings if len(one))
    return LastSetting(ends, calm.newest(LONGEST), calm.breakdown)


def _within(rows: Rows, first: int, last: int) -> Rows:
    """Return the rows of steps first to last."""
    begin, end = (bisect_left(rows["step"], step) for step in (first, last + 1))
    inside: Rows = rows[begin:end]
    return inside


def _since_switch(rows: Rows) -> Rows:
    """Return the rows from the last switch on."""
    return rows[np.flatnonzero(rows["flags"] & Flag.SWITCH).max(initial=0) :]
