"""The summary of a run: its last setting, spikes, stalls, patterns and switches."""

from __future__ import annotations

from bisect import bisect_left
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core.rows import Flag, plausible_rows
from tfwatch.judge.effects.comparison import LONGEST, compare
from tfwatch.judge.effects.tuner_events import (
    UNDECIDED_EVENTS,
    Undecided,
    blocks_like_the_last,
    find_undecided,
)
from tfwatch.judge.steps.causes import Pauses
from tfwatch.judge.steps.patterns import find_patterns
from tfwatch.judge.steps.spikes import SpikeSearch
from tfwatch.judge.steps.stalls import find_stalls, without_switches
from tfwatch.judge.steps.steady_steps import (
    NEEDED,
    Judgement,
    SteadySteps,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tfwatch.core.events import Event
    from tfwatch.core.rows import Rows
    from tfwatch.judge.effects.comparison import Comparison
    from tfwatch.judge.steps.patterns import Pattern
    from tfwatch.judge.steps.spikes import Spike
    from tfwatch.judge.steps.stalls import Stall
    from tfwatch.judge.steps.steady_steps import Breakdown


@dataclass(frozen=True, slots=True)
class LastSetting:
    """The last setting of a run that was decided on: the run is judged by these steps."""

    #: First and last step of each stretch with that setting, oldest first: several after an A/B
    #: test.
    stretches: tuple[tuple[int, int], ...]
    #: The start of the first of them.
    begin_ns: int
    #: These are all steps of the run.
    whole: bool
    #: The settings that the run's end left undecided, if any.
    undecided: Undecided | None
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
    #: How many steps are not steady, flagged ones and single spikes.
    left_out: int
    spikes: list[Spike]
    switches: list[Comparison]
    stalls: list[Stall]
    patterns: list[Pattern]


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
    rows, pauses = plausible_rows(steps) if plausible is None else plausible, Pauses(events)
    with ThreadPoolExecutor(1) as pool:
        # Of ten million steps these take 2 of 6 seconds, nearly all of it in numpy, which lets
        # other threads run.
        stalls = pool.submit(
            find_stalls, rows if open_wait is None else np.concatenate([rows, open_wait]), pauses
        )
        patterns = pool.submit(find_patterns, rows, pauses)
        return _summarise(
            steps, rows, events, accelerated, pauses, stalls.result, patterns.result, since_ns
        )


def _summarise(
    steps: Rows,
    rows: Rows,
    events: Sequence[Event],
    accelerated: bool,
    pauses: Pauses,
    stalls: Callable[[], list[Stall]],
    patterns: Callable[[], list[Pattern]],
    since_ns: int,
) -> Summary:
    """Sum up a run; `rows` are its plausible steps. stalls, patterns: return those of the rows once
    they are found."""
    search = SpikeSearch(rows)
    calm = SteadySteps(rows, search)
    split = calm.breakdown
    setting = last_setting(rows, events, calm, since_ns)
    return Summary(
        steps=len(steps),
        steady=split,
        setting=setting,
        left_out=len(rows) - (split.steps if split else 0),
        spikes=search.spikes(pauses),
        switches=compare(
            events,
            len(steps),
            lambda first, last: between(steps, first, last),
            None,
            accelerated,
        ),
        stalls=without_switches(stalls(), events),
        patterns=patterns(),
    )


def last_setting(
    rows: Rows,
    events: Sequence[Event],
    calm: SteadySteps,
    since_ns: int = 0,
) -> LastSetting:
    """Find the last setting that counts, and judge it.

    A setting that the autopilot or an A/B test was testing when the run ended (`undecided`) does
    not count. After an A/B test all blocks with the setting count. rows: all plausible rows; calm:
    the steady ones of them; since_ns: the begin of the present regime.
    """
    known = [event for event in events if isinstance(event, UNDECIDED_EVENTS)]
    undecided, begins = find_undecided(known), np.flatnonzero(rows["flags"] & Flag.SWITCH).tolist()
    if undecided is None and not begins and (not len(rows) or rows["start_ns"][0] >= since_ns):
        return LastSetting(_ends(rows), 0, True, None, calm.newest(LONGEST), _judged(calm))
    stretches = undecided.stretches if undecided else blocks_like_the_last(known)
    settings = [_since_switch(_within(rows, *stretch)) for stretch in stretches]
    if undecided is None:
        now = rows[begins[-1] :] if begins else rows
        settings.append(now[int(np.searchsorted(now["start_ns"], since_ns)) :])
    # One stretch may be ten million steps: it is not copied.
    calm = SteadySteps(settings[0] if len(settings) == 1 else np.concatenate(settings))
    ends = tuple(end for stretch in settings for end in _ends(stretch))
    begin_ns = min((int(stretch["start_ns"][0]) for stretch in settings if len(stretch)), default=0)
    return LastSetting(ends, begin_ns, False, undecided, calm.newest(LONGEST), _judged(calm))


def rows_before_undecided(rows: Rows, events: Sequence[Event]) -> tuple[Rows, int] | None:
    """Return the rows of the last setting that counts, and its end; None where that is the setting
    at the end of the run."""
    undecided = find_undecided([event for event in events if isinstance(event, UNDECIDED_EVENTS)])
    if undecided is None:
        return None
    stretches = [_since_switch(_within(rows, *stretch)) for stretch in undecided.stretches]
    counted = np.concatenate(stretches) if stretches else rows[:0]
    counted["flags"] &= ~np.uint16(Flag.SWITCH)
    return counted, undecided.at_ns


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
