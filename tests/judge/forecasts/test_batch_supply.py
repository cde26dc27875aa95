"""The model of the batch supply: what each part costs, and its overlap with compute."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from tests.judge.evidences import stages
from tfwatch.judge.forecasts.batch_supply import (
    Supply,
    by_workers,
    cached,
    in_turn,
    overlapped,
    partly_ahead,
    queued,
)

TIMES = st.lists(st.floats(0.0, 100.0), min_size=2, max_size=40)


def test_without_prefetch_a_batch_is_waited_for_in_full_and_with_it_the_slower_side_decides() -> (
    None
):
    assert in_turn(10.0, 13.4) == pytest.approx(23.4)
    assert overlapped(40.0, 13.4) == 40.0
    assert 13.4 <= overlapped(10.0, 13.4) <= 13.4 * 1.05


@pytest.mark.parametrize(
    ("depth", "mean_ms"),
    [
        pytest.param(1, 12 + (80 - 1 * 12) / 8, id="one batch hides one step of a burst"),
        pytest.param(4, 12 + (80 - 4 * 12) / 8, id="four hide four"),
        pytest.param(8, 12.0, id="eight hide all of it"),
    ],
)
def test_depth_hides_bursts(depth: int, mean_ms: float) -> None:
    every_eighth = [80.0] + [0.0] * 7

    steps = queued(every_eighth * 4, [12.0] * 32, depth)

    assert steps.mean() == pytest.approx(mean_ms)


def test_what_is_made_ahead_by_itself_is_not_waited_for() -> None:
    assert partly_ahead(40.0, 20.0, 0.0) == 60.0
    assert partly_ahead(40.0, 20.0, 0.25) == 50.0
    assert partly_ahead(40.0, 20.0, 1.0) == 40.0


def test_workers_share_the_maps_and_no_more_of_them_than_there_are_cores() -> None:
    assert by_workers(40.0, 2.0, workers=4, cores=8) == 10.0
    assert by_workers(40.0, 2.0, workers=8, cores=2) == 20.0
    assert by_workers(4.0, 3.0, workers=8, cores=8) == 3.0


#: 100 ms a batch by each of the three guesses.
MADE = (Supply(20, 80, 1), Supply(20, 80, 1), Supply(20, 80, 1))


def test_a_cache_leaves_a_fiftieth_a_third_or_nearly_all() -> None:
    assert [one.work_ms for one in cached(MADE, None)] == pytest.approx([2, 30, 90])
    assert [one.work_ms for one in cached(MADE, stages(Map=90, BatchV2=10))] == pytest.approx(
        [2, 30, 90]
    )


def test_of_several_maps_a_cache_leaves_the_last() -> None:
    table = stages(ParallelMap=60, Map=30, BatchV2=10)

    assert [one.work_ms for one in cached(MADE, table)] == pytest.approx([20, 40, 60])
