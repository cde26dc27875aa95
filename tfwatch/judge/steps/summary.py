"""The summary of a run: its last setting, stalls and switches."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core.rows import Flag, plausible_rows
from tfwatch.judge.effects.comparison import LONGEST, compare
from tfwatch.judge.effects.tuner_events import blocks_like_the_last
from tfwatch.judge.steps.stalls import Pauses, find_stalls, without_switches
from tfwatch.judge.steps.steady_steps import NEEDED, Judgement, SteadySteps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.core.events import Event
    from tfwatch.core.rows import Rows
    from tfwatch.judge.effects.comparison import Comparison
    from tfwatch.judge.steps.stalls import Stall
    from tfwatch.judge.steps.steady_steps import Breakdown


@dataclass(frozen=True, slots=True)
class LastSetting:
    """The last setting of a run: the run is judged by these steps."""

    #: First and last step of each stretch with that setting, oldest first: several after an A/B
    #: test.
    stretches: tuple[tuple[int, int], ...]
    #: These are all steps of the run.
    whole: bool
    #: The last of the steady steps, at most 600.
    newest: Rows
    #: On all steady steps.
    judgement: Judgement


@dataclass(frozen=True, slots=True)
class Summary:
    """The steps of a whole run."""

    steps: int
    #: The split of all steady steps of all settings; None where there are none.
    steady: Breakdown | None
    #: The last one, by which the run is judged.
    setting: LastSetting
    switches: list[Comparison]
    stalls: list[Stall]


def summarise(
    steps: Rows,
    events: Sequence[Event],
    accelerated: bool = False,
    open_wait: Rows | None = None,
    plausible: Rows | None = None,
    since_ns: int = 0,
) -> Summary:
    """Sum up a run; `steps` are all its rows of `core.rows.STEP`, step 1 first.

    open_wait: a row of the wait in progress, if any: it may be a stall, and is no step. plausible:
    the plausible ones of the steps, if they are known. since_ns: the begin of the present regime.
    """
    rows = plausible_rows(steps) if plausible is None else plausible
    calm = SteadySteps(rows)
    waits = rows if open_wait is None else np.concatenate([rows, open_wait])
    return Summary(
        steps=len(steps),
        steady=calm.breakdown,
        setting=_last_setting(rows, events, calm, since_ns),
        switches=compare(
            events,
            len(steps),
            lambda first, last: between(steps, first, last),
            accelerated=accelerated,
        ),
        stalls=without_switches(find_stalls(waits, Pauses(events)), events),
    )


def _last_setting(
    rows: Rows, events: Sequence[Event], calm: SteadySteps, since_ns: int
) -> LastSetting:
    """Find the last setting, and judge it. After an A/B test all blocks with it count.

    rows: all plausible rows; calm: the steady ones of them; since_ns: the begin of the present
    regime.
    """
    begins = np.flatnonzero(rows["flags"] & Flag.SWITCH).tolist()
    if not begins and (not len(rows) or rows["start_ns"][0] >= since_ns):
        return LastSetting(_ends(rows), True, calm.newest(LONGEST), _judged(calm))
    now = rows[begins[-1] :] if begins else rows
    now = now[int(np.searchsorted(now["start_ns"], since_ns)) :]
    earlier = [_since_switch(_within(rows, *block)) for block in blocks_like_the_last(events)]
    settings = [*earlier, now]
    # One stretch may be ten million steps: it is not copied.
    calm = SteadySteps(now if not earlier else np.concatenate(settings))
    ends = tuple(end for stretch in settings for end in _ends(stretch))
    return LastSetting(ends, False, calm.newest(LONGEST), _judged(calm))


def _within(rows: Rows, first: int, last: int) -> Rows:
    """Return the rows of steps first to last."""
    begin, end = (bisect_left(rows["step"], step) for step in (first, last + 1))
    inside: Rows = rows[begin:end]
    return inside


def _since_switch(rows: Rows) -> Rows:
    """Return the rows from the last switch on."""
    return rows[np.flatnonzero(rows["flags"] & Flag.SWITCH).max(initial=0) :]


def _ends(rows: Rows) -> tuple[tuple[int, int], ...]:
    return ((int(rows["step"][0]), int(rows["step"][-1])),) if len(rows) else ()


def _judged(calm: SteadySteps) -> Judgement:
    return Judgement(len(calm), NEEDED, calm.breakdown)


def between(steps: Rows, first: int, last: int) -> Rows:
    """Return the plausible rows of steps first to last (counted from 1, both included) of all
    `steps`."""
    rows = steps[max(first, 1) - 1 : last]
    return plausible_rows(rows)
