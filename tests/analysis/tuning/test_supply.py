"""What a pipeline is guessed to take in a form, or with a cache, that a run has not shown."""

from __future__ import annotations

import pytest

from tests.analysis.evidences import stages
from tfwatch.analysis.tuning.forecasting.batch_supply import Supply, cached, in_form

#: 100 ms a batch by each of the three guesses.
MADE = (Supply(20, 80, 1), Supply(20, 80, 1), Supply(20, 80, 1))


def test_the_fast_pipeline_takes_a_hundredth_a_tenth_or_half() -> None:
    fast = in_form(MADE, fast=True)

    assert fast is not None
    assert [one.work_ms for one in fast] == pytest.approx([1, 10, 50])
    assert [one.parallel_ms for one in fast] == pytest.approx([0.8, 8, 40])
    assert in_form(MADE, fast=False) is None


def test_a_cache_leaves_a_fiftieth_a_third_or_nearly_all() -> None:
    assert [one.work_ms for one in cached(MADE, None)] == pytest.approx([2, 30, 90])
    assert [one.work_ms for one in cached(MADE, stages(Map=90, BatchV2=10))] == pytest.approx([2, 30, 90])


def test_of_several_maps_a_cache_leaves_the_last() -> None:
    table = stages(ParallelMap=60, Map=30, BatchV2=10)

    assert [one.work_ms for one in cached(MADE, table)] == pytest.approx([20, 40, 60])
