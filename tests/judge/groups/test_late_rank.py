"""The late rank of a group by its recorded steps: who it is, why, and what the group would take
without it."""

import numpy as np
import pytest

from tests.groups import CALL, meeting_rows
from tfwatch.core.rows import Flag
from tfwatch.judge.groups.late_rank import (
    NEEDED,
    WARM_UP,
    Cause,
    RankSteps,
    Straggler,
    align,
    find_straggler,
    straggler_sentences,
    straggler_word,
    waiting_share,
)

STEPS = 200


def group(
    waits: list[float], hosts: list[float], noise: float = 0.0, count: int = STEPS
) -> list[RankSteps]:
    return [
        RankSteps(rank, rows) for rank, rows in enumerate(meeting_rows(waits, hosts, noise, count))
    ]


def with_cores(ranks: list[RankSteps], *cores: float | None) -> list[RankSteps]:
    return [RankSteps(one.rank, one.rows, used) for one, used in zip(ranks, cores, strict=True)]


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


def test_a_longer_call_shows_in_the_processor_time_alone() -> None:
    ranks = group([1, 1, 1], [1, 1, 1])

    named = found(with_cores(ranks, 0.2, 0.9, 0.2))

    assert (named.rank, named.cause) == (1, Cause.COMPUTE)
    assert named.gain_ms == pytest.approx(0.7 * 10)
    assert straggler_word(named) == "STRAGGLER rank 1, at least 70 %"
    first, second, _ = straggler_sentences(named)
    assert first.startswith("the other ranks wait at least 7.0 of 10.0 ms/step for rank 1: it comp")
    assert second == "without it a step takes at most about 3.0 of 10.0 ms: at least 70 % less"


@pytest.mark.parametrize(
    ("cores", "is_known"),
    [
        pytest.param((0.9, 0.9, 0.9), True, id="alike"),
        pytest.param((0.3, 0.1, 0.2), True, id="next to nothing"),
        pytest.param((None, 0.9, 0.2), False, id="not known of one"),
    ],
)
def test_processor_time_that_shows_nothing_names_nobody(
    cores: tuple[float | None, ...], is_known: bool
) -> None:
    cycles = align(with_cores(group([1, 1, 1], [1, 1, 1]), *cores))

    assert find_straggler(cycles) is None
    assert cycles.is_compute_known is is_known


def test_a_gpu_with_a_lower_clock_is_slower() -> None:
    ranks = group([1] * 3, [1] * 3)
    clocks = 1800, 1800, 1200

    named = found([RankSteps(one.rank, one.rows, 1, clocks[one.rank]) for one in ranks])

    assert (named.rank, named.cause, named.own, named.others) == (2, Cause.SLOW_GPU, 1200, 1800)
    assert named.gain_ms == pytest.approx(CALL / 3)


def test_a_single_long_step_is_no_straggler() -> None:
    first, second = (one.rows.copy() for one in group([1, 1], [1, 1]))
    second["wait_ms"][29] += 500
    first["compute_ms"][29] += 500

    assert find_straggler(align([RankSteps(0, first), RankSteps(1, second)])) is None


def test_steps_are_aligned_by_their_numbers_and_not_by_clocks() -> None:
    early, late = group([1, 20], [1, 1])
    rows = late.rows.copy()
    rows["start_ns"] += 10**12

    assert found([early, RankSteps(1, rows[30:])]).rank == 1


def test_flagged_steps_and_those_that_a_rank_lacks_are_left_out() -> None:
    first, second = (one.rows.copy() for one in group([1, 1], [1, 1]))
    first["flags"][49] = Flag.SWITCH
    second = np.delete(second, 99)

    aligned = align([RankSteps(0, first), RankSteps(1, second[:-10])])

    left_out = {50, 100, 101}  # of a step without the one before, the cycle's Python is not known
    assert set(aligned.steps.tolist()) == set(range(WARM_UP + 1, STEPS - 9)) - left_out


def test_too_few_ranks_and_steps_say_nothing() -> None:
    few = group([1, 20], [1, 1], count=WARM_UP + NEEDED - 1)

    assert find_straggler(align(few)) is None
    assert find_straggler(align(few[:1])) is None


# -- in words --------------------------------------------------------------------------------------


def test_the_sentences_have_one_unit_each() -> None:
    named = found(group([1, 20, 1], [1, 1, 1]))

    waits, without, _ = straggler_sentences(named)
    assert waits == (
        "the other ranks wait 19.0 of 29.0 ms/step for rank 1: it waits 20.0 ms for data, the"
        " others 1.0 ms"
    )
    assert without == "without it a step takes about 10.0 of 29.0 ms: 66 % less"
