"""The late rank of a group by its recorded steps: who it is, why, and what the group would take
without it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.groups import CALL, meeting_rows
from tfwatch.core.rows import Flag
from tfwatch.judge.groups.aligned import WARM_UP, Machine, RankSteps, align
from tfwatch.judge.groups.straggler import (
    NEEDED,
    Cause,
    Straggler,
    banner_word,
    find_straggler,
    is_compute_known,
    no_straggler_sentence,
    straggler_sentence,
    waiting_share,
    without_sentence,
)

STEPS = 200


def group(
    waits: list[float], hosts: list[float], noise: float = 0.0, count: int = STEPS
) -> list[RankSteps]:
    return [
        RankSteps(rank, rows) for rank, rows in enumerate(meeting_rows(waits, hosts, noise, count))
    ]


def with_machines(ranks: list[RankSteps], *machines: Machine) -> list[RankSteps]:
    return [
        RankSteps(one.rank, one.rows, machine) for one, machine in zip(ranks, machines, strict=True)
    ]


def found(ranks: list[RankSteps]) -> Straggler:
    straggler = find_straggler(align(ranks))
    assert straggler
    return straggler


@pytest.mark.parametrize("late", range(4))
@pytest.mark.parametrize("cause", [Cause.DATA_WAIT, Cause.HOST])
def test_the_rank_that_comes_late_is_named_with_the_part_that_makes_it_late(
    late: int, cause: Cause
) -> None:
    times = [20.0 if rank == late else 1.0 for rank in range(4)]
    usual = [1.0] * 4

    named = found(group(times, usual) if cause is Cause.DATA_WAIT else group(usual, times))

    assert (named.rank, named.cause, named.is_critical) == (late, cause, True)
    assert (named.own, named.others, named.group_ms) == pytest.approx((20, 1, 29), abs=0.2)
    assert named.gain_ms == pytest.approx(19, abs=0.2)


@pytest.mark.parametrize(("late_ms", "is_critical"), [(1.0, None), (1.9, False), (3.0, True)])
def test_a_tenth_of_the_time_is_a_warning_and_a_fifth_is_critical(
    late_ms: float, is_critical: bool | None
) -> None:
    straggler = find_straggler(align(group([1, 1 + late_ms, 1], [1, 1, 1])))

    assert (straggler.is_critical if straggler else None) == is_critical
    if straggler:
        assert straggler.share == pytest.approx(late_ms / (CALL + 2 + late_ms), rel=0.02)


def test_ranks_that_take_turns_in_being_late_are_no_straggler() -> None:
    ranks = group([1, 1, 1, 1], [1, 1, 1, 1], noise=2.0)

    assert find_straggler(align(ranks)) is None
    assert waiting_share(align(ranks)) > 0.1


def test_the_next_late_rank_limits_the_gain() -> None:
    assert found(group([30, 20, 1], [1, 1, 1])).gain_ms == pytest.approx(10, abs=0.2)


def test_a_longer_call_shows_in_the_processor_time_alone() -> None:
    ranks = group([1, 1, 1], [1, 1, 1])
    busy, idle = Machine(cores=0.9), Machine(cores=0.2)

    named = found(with_machines(ranks, idle, busy, idle))

    assert (named.rank, named.cause) == (1, Cause.COMPUTE)
    assert named.gain_ms == pytest.approx(0.7 * 10)
    assert find_straggler(align(with_machines(ranks, busy, busy, busy))) is None
    assert (
        find_straggler(align(with_machines(ranks, Machine(cores=0.3), Machine(cores=0.1), idle)))
        is None
    )
    assert is_compute_known(align(with_machines(ranks, idle, busy, idle)))
    assert not is_compute_known(align(with_machines(ranks, Machine(), busy, idle)))
    assert straggler_sentence(named).startswith(
        "the other ranks wait at least 7.0 of 10.0 ms/step for rank 1: it comp"
    )
    assert banner_word(named) == "STRAGGLER rank 1, at least 70 %"
    assert (
        without_sentence(named)
        == "without it a step takes at most about 3.0 of 10.0 ms: at least 70 % less"
    )
    assert find_straggler(align(with_machines(ranks, Machine(), busy, idle))) is None


_UNSEEN = (
    "no rank is seen to be late: they wait 2 % of their time for one another; the data wait of"
)
_NOT_KNOWN = "whether one computes longer is n/a, as processor time and clocks are not known"


@pytest.mark.parametrize(
    ("cores", "fetching", "sentence"),
    [
        (0.5, [], "no rank holds the others up: they wait 2 % of their time for one another"),
        (
            0.5,
            [1],
            f"{_UNSEEN} 1 rank is a part of its calls",
        ),
        (
            None,
            [0, 1],
            f"{_UNSEEN} 2 ranks is a part of its calls; {_NOT_KNOWN}",
        ),
    ],
)
def test_what_would_not_show_is_named_beside_no_straggler(
    cores: float | None, fetching: list[int], sentence: str
) -> None:
    ranks = with_machines(group([1, 1], [1, 1]), *[Machine(cores=cores)] * 2)

    aligned = align([replace(one, fetches_in_calls=one.rank in fetching) for one in ranks])

    assert find_straggler(aligned) is None
    assert no_straggler_sentence(0.02, aligned) == sentence


def test_more_cores_do_not_make_the_gain_longer_than_the_step() -> None:
    ranks = with_machines(group([1, 1], [1, 1]), Machine(cores=8.0), Machine(cores=2.0))

    assert found(ranks).gain_ms == pytest.approx(0.75 * 10)


def test_a_gpu_with_a_lower_clock_is_slower() -> None:
    fast, slow = Machine(clock_mhz=1800, cores=1), Machine(clock_mhz=1200, cores=1)

    named = found(with_machines(group([1] * 3, [1] * 3), fast, fast, slow))

    assert (named.rank, named.cause, named.own, named.others) == (2, Cause.SLOW_GPU, 1200, 1800)
    assert named.gain_ms == pytest.approx(CALL / 3)


def test_steps_are_aligned_by_their_numbers_and_not_by_clocks() -> None:
    early, late = group([1, 20], [1, 1])
    rows = late.rows.copy()
    rows["start_ns"] += 10**12

    assert found([early, RankSteps(1, rows[30:])]).rank == 1


def test_flagged_and_damaged_steps_and_those_that_a_rank_lacks_are_left_out() -> None:
    first, second = (one.rows.copy() for one in group([1, 1], [1, 1]))
    first["flags"][49] = Flag.SWITCH
    second["wait_ms"][99] = np.nan

    aligned = align([RankSteps(0, first), RankSteps(1, second[:-10])])

    left_out = {50, 100, 101}  # of a step without the one before, the cycle's Python is not known
    assert set(aligned.steps.tolist()) == set(range(WARM_UP + 1, STEPS - 9)) - left_out


def test_too_few_ranks_and_steps_say_nothing() -> None:
    few = group([1, 20], [1, 1], count=WARM_UP + NEEDED - 1)

    assert find_straggler(align(few)) is None
    assert find_straggler(align(few[:1])) is None
    assert len(align([]).steps) == 0


# -- in words --------------------------------------------------------------------------------------


def test_the_sentences_have_one_unit_each() -> None:
    named = found(group([1, 20, 1], [1, 1, 1]))

    assert (
        straggler_sentence(named)
        == "the other ranks wait 19.0 of 29.0 ms/step for rank 1: it waits 20.0 ms for data, the"
        " others 1.0 ms"
    )
    assert without_sentence(named) == "without it a step takes about 10.0 of 29.0 ms: 66 % less"
