"""The input pipeline's pane."""

import pytest

from tests.judge.test_view import look
from tests.screens.canned import COMPUTE_BOUND, N_A, STARVING, Canned, usual
from tests.screens.showing import pipeline_of
from tests.screens.states import starting
from tfwatch.core import events as facts
from tfwatch.core.rows import Phase


def rows_of(run: Canned, width: int) -> list[str]:
    """Return the rows of the pane by itself, single-spaced."""
    return [" ".join(row.split()) for row in pipeline_of(look(run), width)]


def test_with_prefetch_the_work_of_a_step_is_shown_beside_the_bottleneck() -> None:
    knobs = {"prefetch": "4", "workers": "4"}
    run = Canned(None, knobs=knobs).started().steps(150, STARVING).doing(Phase.COMPUTE, 0.001)
    run.staged(
        ("map(decode)", "ParallelMapV2", 92.0, 4.0, N_A, N_A),
        ("batch(32)", "BatchV2", 0.6, 1.0, N_A, N_A),
    )
    rows = rows_of(run, 62)
    assert "23.0 ms a batch; a step: 13.8 compute + host" in rows
    assert f"→ map(decode) 92.0 {'█' * 24} 4 of 2" in rows


@pytest.mark.parametrize(
    ("maps_ms", "total"),
    [
        pytest.param(
            (92.0,), "23.0 ms a batch; a step: 13.8 compute + host", id="it explains the wait"
        ),
        pytest.param((8.0, 8.0), "16.0 ms a batch; a step: 13.8 compute + host", id="shared cores"),
        pytest.param((1.0, 1.0), "", id="too short for the wait"),
    ],
)
def test_the_total_of_the_stages_is_shown_where_it_explains_the_wait(
    maps_ms: tuple[float, ...], total: str
) -> None:
    knobs = {"prefetch": "4", "workers": "4"}
    run = Canned(None, knobs=knobs).started().steps(150, STARVING).doing(Phase.COMPUTE, 0.001)
    run.staged(*(("map", "ParallelMapV2", ms, 4.0, N_A, N_A) for ms in maps_ms))

    assert [row for row in rows_of(run, 62) if "compute + host" in row] == [total] * bool(total)


def test_a_pipeline_without_a_reading_shows_the_reason() -> None:
    run = usual(None).event(
        facts.SensorMissing,
        sensor="pipeline",
        reason="a DistributedIterator has no model",
        fix="one device",
    )
    assert "n/a: a DistributedIterator has no model; one device" in " ".join(rows_of(run, 60))
    assert "the stages appear with the first batches" in " ".join(rows_of(starting(None), 60))


def test_a_first_reading_without_a_batch_waits_for_figures() -> None:
    run = Canned(None).started().steps(20, STARVING).doing(Phase.COMPUTE, 0.001)
    run.staged(("map(decode)", "Map", N_A, 1.0, N_A, N_A))

    assert "waiting for tf.data's figures of the stages" in rows_of(run, 62)


ARRAYS = (
    ("flat_map", "FlatMap arrays", 0.03, 1.0, N_A, N_A),
    ("zip", "Zip", 0.01, 1.0, N_A, N_A),
    ("map", "Map", 0.04, 2.0, N_A, N_A),
    ("prefetch", "Prefetch", 0.0, 1.0, 4.0, 4.0),
)


def test_several_stages_that_take_next_to_nothing_are_one_row() -> None:
    run = Canned(None).started().steps(20, STARVING).doing(Phase.COMPUTE, 0.001)
    run.staged(("map(decode)", "Map", 9.0, 1.0, N_A, N_A), *ARRAYS[1:])

    rows = rows_of(run, 62)
    assert "2 stages of 0.1 ms at most" in rows
    assert not any("zip" in line for line in rows)
    assert any("prefetch" in line for line in rows)


def test_the_stages_that_keras_adds_are_not_shown_where_the_data_is_no_limit() -> None:
    fed, starving = (
        rows_of(
            Canned(None).started().steps(60, split).doing(Phase.COMPUTE, 0.001).staged(*ARRAYS), 62
        )
        for split in (COMPUTE_BOUND, STARVING)
    )
    assert fed[0] == "the stages that Keras makes of arrays are no limit"
    assert len(fed) == 2
    assert "3 stages of 0.1 ms at most" in starving
