from __future__ import annotations

import numpy as np
import pytest

from tests.judge.step_rows import find_spikes, make_steps, plain
from tfwatch.core.rows import Flag
from tfwatch.judge.steps.spikes import SpikeSearch


@pytest.mark.parametrize("part", ["wait", "compute", "host"])
def test_a_spike_names_its_part_and_what_it_took_over_the_median(part: str) -> None:
    rows = make_steps(np.full(200, 5.0), compute=12.0, host=3.0)
    rows[f"{part}_ms"][100] += 500

    (spike,) = find_spikes(rows)

    assert (spike.step, spike.part, spike.cause) == (101, part, "unexplained")
    assert spike.extra_ms == pytest.approx(500)
    assert spike.start_ns == rows["start_ns"][100]


@pytest.mark.parametrize(
    ("flag", "part", "cause"),
    [
        (Flag.COMPILE | Flag.EPOCH_START, "compute", "compile"),
        (Flag.COMPILE | Flag.EPOCH_START, "wait", "epoch start"),
        (Flag.COMPILE | Flag.EPOCH_START | Flag.SHUFFLE_FILL, "wait", "shuffle fill"),
        (Flag.COMPILE | Flag.EPOCH_START, "host", "unexplained"),
        (Flag.RETRACE, "compute", "retrace"),
        (Flag.EPOCH_START, "wait", "epoch start"),
        (Flag.EPOCH_START, "compute", "unexplained"),
        (Flag.SHUFFLE_FILL, "wait", "shuffle fill"),
        (Flag.SHUFFLE_FILL, "compute", "unexplained"),
        (Flag.SWITCH | Flag.EPOCH_START, "wait", "pipeline switch"),
        (Flag.SWITCH, "compute", "pipeline switch"),
        (Flag.VALIDATION, "host", "validation"),
        (Flag.VALIDATION, "wait", "unexplained"),
    ],
)
def test_a_flag_is_the_cause_of_the_part_that_it_stands_for(
    flag: Flag, part: str, cause: str
) -> None:
    rows = plain(60)
    rows["flags"][30] = flag
    rows[f"{part}_ms"][30] += 25

    (spike,) = find_spikes(rows)

    assert (spike.step, spike.part, spike.cause) == (31, part, cause)


def test_a_flagged_step_like_the_others_is_no_spike() -> None:
    rows = plain(60)
    rows["flags"][30] = Flag.EPOCH_START

    assert find_spikes(rows) == []


@pytest.mark.parametrize(
    ("step_ms", "extra_ms", "found"),
    [
        pytest.param(2.0, 24.0, False, id="below 25 ms"),
        pytest.param(2.0, 26.0, True, id="above 25 ms"),
        pytest.param(50.0, 49.0, False, id="below the median"),
        pytest.param(50.0, 51.0, True, id="above the median"),
    ],
)
def test_an_unflagged_step_stands_out_by_25_ms_and_the_median(
    step_ms: float, extra_ms: float, found: bool
) -> None:
    rows = make_steps(np.zeros(100), compute=step_ms, host=0.0)
    rows["host_ms"][50] = extra_ms

    assert bool(find_spikes(rows)) is found


def test_the_median_is_that_of_the_steps_around() -> None:
    rows = make_steps(np.zeros(600), compute=np.repeat([10.0, 400.0], 300), host=0.0)
    rows["host_ms"][100] = 100

    assert [spike.step for spike in find_spikes(rows)] == [101]


def test_flagged_steps_do_not_move_the_median() -> None:
    rows = make_steps(np.tile([2000.0, 2000.0, 2000.0, 5.0], 10), compute=10.0)
    rows["flags"] = np.tile([Flag.EPOCH_START, Flag.EPOCH_START, Flag.EPOCH_START, 0], 10)

    spikes = find_spikes(rows)

    assert len(spikes) == 30
    assert {spike.extra_ms for spike in spikes} == {1995.0}


def test_three_slow_steps_in_two_hundred_are_no_spikes() -> None:
    rows = plain(1000)
    rows["wait_ms"][[100, 900]] = 500
    rows["wait_ms"][[400, 450, 500]] = 500

    assert [spike.step for spike in find_spikes(rows)] == [101, 901]


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_steps_have_no_spikes(count: int) -> None:
    assert find_spikes(plain(count)) == []


def test_flagged_steps_alone_have_nothing_to_stand_out_from() -> None:
    rows = plain(3)
    rows["flags"] = Flag.COMPILE

    assert find_spikes(rows) == []
    assert not SpikeSearch(rows).single.any()


def test_a_long_run_is_searched_in_parts() -> None:
    rows = plain(400_000)
    rows["wait_ms"][[10, 300_000, 399_999]] = 5000

    assert [spike.step for spike in find_spikes(rows)] == [11, 300_001, 400_000]
