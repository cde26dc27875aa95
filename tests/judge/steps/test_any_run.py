"""Any run, however irregular: parts sum to the whole, shares are from 0 to 1, and nothing is
NaN."""

import math
from collections.abc import Callable
from dataclasses import astuple, dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.judge.step_rows import events_of
from tfwatch.core.events import EpochEnded, EpochStarted, Event, Slept, ValidationEnded, WatchFailed
from tfwatch.core.rows import STEP, Flag, Phase, Rows
from tfwatch.judge.steps.stalls import find_stalls
from tfwatch.judge.steps.steady_steps import Breakdown, judge, steady_breakdown
from tfwatch.judge.steps.time_breakdown import PARTS, make_time_breakdown
from tfwatch.runs.sums import EpochSums

MS = st.one_of(st.just(0.0), st.floats(0, 50, width=32), st.floats(0, 2000, width=32))
FLAGS = st.one_of(st.just(0), st.integers(0, int(sum(Flag))))
STEPS = st.lists(st.tuples(MS, MS, MS, FLAGS), max_size=60)


@dataclass(frozen=True)
class RecordedRun:
    """The rows and events of a run."""

    rows: Rows
    events: list[Event]
    length_s: float


@st.composite
def runs(draw: st.DrawFn) -> RecordedRun:
    """Draw epochs with any steps or none; some lack events, and some events claim too much time."""
    at_s = draw(st.sampled_from([0.0, 0.5, 8.0]))
    rows: list[tuple[float, ...]] = []
    events: list[Event] = []

    def record(kind: Callable[..., Event], *fields: object) -> None:
        if draw(st.booleans()):
            events.append(kind(round(at_s * 1e9), *fields))

    for epoch, steps in enumerate(draw(st.lists(STEPS, max_size=4))):
        record(EpochStarted, epoch, 3, None)
        for wait, compute, host, flags in steps:
            copy = draw(st.sampled_from([np.nan, 0.0, compute / 4]))
            rows.append(
                (
                    round(at_s * 1e9),
                    len(rows) + 1,
                    epoch,
                    flags,
                    wait,
                    compute / 2,
                    compute,
                    host,
                    copy,
                )
            )
            at_s += (wait + compute + host) / 1e3
        at_s += draw(st.sampled_from([0.0, 0.1, 3.0]))
        record(ValidationEnded, epoch, draw(st.sampled_from([0.0, 90.0, 9000.0])))
        record(EpochEnded, epoch, len(rows), {"loss": 1.0})
        record(Slept, 7000.0)
    record(WatchFailed, "a mistake of its own")
    return RecordedRun(np.array(rows, dtype=STEP), events, at_s + draw(st.sampled_from([0.0, 1.0])))


@given(runs(), st.sampled_from([None, *Phase]))
def test_the_time_breakdown_sums_to_the_wall_clock_and_no_part_is_negative(
    recorded: RecordedRun, doing: Phase | None
) -> None:
    sums = EpochSums()
    sums.add(recorded.rows)
    time_breakdown = make_time_breakdown(sums.rows, recorded.events, recorded.length_s, doing)

    slept_s = sum(event.slept_ms for event in recorded.events if isinstance(event, Slept)) / 1e3
    assert time_breakdown.total.wall_s == pytest.approx(recorded.length_s + slept_s, abs=1e-4)
    for entry in (time_breakdown.start, *time_breakdown.epochs, time_breakdown.total):
        assert all(-1e-6 <= getattr(entry, part) < math.inf for part in PARTS)


@given(runs())
def test_the_parts_of_a_step_sum_to_it_and_their_shares_are_shares(recorded: RecordedRun) -> None:
    stalls = find_stalls(recorded.rows, events_of(*recorded.events))
    assert all(0 <= stall.lost_ms < math.inf and stall.steps for stall in stalls)
    for split in (judge(recorded.rows), steady_breakdown(recorded.rows)):
        if split is not None:
            check(split)


def check(split: Breakdown) -> None:
    assert split.wait.mean + split.work_mean_ms == pytest.approx(split.step.mean, rel=1e-5)
    shares = (split.wait_share, split.launch_share)
    assert all(0 <= share <= 1 + 1e-6 for share in shares)
    for stat in (split.step, split.wait, split.dispatch, split.compute, split.host):
        assert all(math.isfinite(value) for value in astuple(stat))
        assert stat.median <= stat.p95
