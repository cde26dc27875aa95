"""Stalls by their cost: the worst first, periodic ones as one group, and each within two choices."""

from __future__ import annotations

import pytest

from tfwatch.analysis.steps.stalls import WORST, Row, Stall, StallGroup, arrange, arrange_group, split_periodic


def _stall(step: int, lost_ms: float = 2000.0, cause: str = "unexplained") -> Stall:
    return Stall(step, step * 10**7, 1, lost_ms, cause)


def _uneven(count: int) -> list[Stall]:
    """Make stalls without a period, each costlier than the one before."""
    return [_stall(n * n * 7 + 100, 1000.0 + n) for n in range(count)]


def _reached(rows: list[Row], room: int, choices: int) -> list[Stall]:
    """Return the stalls that at most so many choices reach."""
    found = []
    for one in rows:
        if not isinstance(one, StallGroup):
            found.append(one)
        elif choices > 1:
            found += _reached(arrange_group(one, room), room, choices - 1)
    return found


def test_stalls_of_one_cause_at_a_fixed_distance_are_one_group() -> None:
    fills = [_stall(250 * n + 1, 1200.0, "shuffle fill") for n in range(1, 9)]
    groups, single = split_periodic([*fills, *_uneven(3)])
    assert [(group.stalls, group.period) for group in groups] == [(tuple(fills), 250)]
    assert groups[0].lost_ms == 8 * 1200.0
    assert [stall.lost_ms for stall in single] == [1002.0, 1001.0, 1000.0], "the worst first"


@pytest.mark.parametrize("count", [0, 5], ids=["none", "too few for a period"])
def test_few_stalls_have_no_period(count: int) -> None:
    fills = [_stall(250 * n + 1, 1200.0, "shuffle fill") for n in range(1, count + 1)]
    assert split_periodic(fills) == ([], fills)


@pytest.mark.parametrize("room", [6, 14, 20, 25])
def test_two_choices_reach_each_of_forty_stalls(room: int) -> None:
    stalls = [*_uneven(28), *(_stall(5000 * n + 3, 6000.0, "shuffle fill") for n in range(1, 13))]
    rows = arrange(stalls, room)
    assert len(rows) <= room
    reached = _reached(rows, room, 2 if room >= 14 else 3)
    assert sorted(reached, key=lambda stall: stall.step) == sorted(stalls, key=lambda stall: stall.step)


def test_the_ten_worst_come_first() -> None:
    rows = arrange(_uneven(40), 20)
    assert [one.lost_ms for one in rows[:WORST]] == [1039.0 - n for n in range(WORST)]
    assert all(isinstance(one, StallGroup) for one in rows[WORST:])


def test_few_stalls_are_all_in_one_list() -> None:
    assert [one.lost_ms for one in arrange(_uneven(12), 20)] == [1011.0 - n for n in range(12)]
