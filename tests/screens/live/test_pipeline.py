"""The input pipeline's pane."""

from __future__ import annotations

from tests.judge.test_view import look
from tests.screens.canned import N_A, STAGES, STARVING, Canned, usual
from tests.screens.showing import pipeline_of
from tests.screens.states import starting
from tfwatch.core import events as facts
from tfwatch.core.rows import Phase

#: A prefetch buffer that runs empty: a stage of the pipeline is the bottleneck.
BEHIND = ("prefetch", "Prefetch", 1.8, N_A, 1.0, 4.0)
GPU = {"device": "GPU:0 Apple M2 Pro", "accelerated": True}


def row_of(screen: list[str], name: str) -> str:
    """Return the pane's row that begins with a word, single-spaced."""
    first = next((at for at, row in enumerate(screen) if "input pipeline" in row), 0)
    found = [row.strip("│ ").partition("│")[0].strip() for row in screen[first:]]
    return next(
        (" ".join(row.split()) for row in found if row.removeprefix("→").strip().startswith(name)),
        "",
    )


def alone(run: Canned, width: int) -> list[str]:
    """Return the rows of the pane by itself."""
    return pipeline_of(look(run), width)


def test_with_prefetch_the_data_wait_is_shown_beside_the_bottleneck() -> None:
    knobs = {"prefetch": "4", "workers": "4"}
    run = Canned(None, knobs=knobs).started().steps(150, STARVING).doing(Phase.COMPUTE, 0.001)
    run.staged(
        ("map(decode)", "ParallelMapV2", 92.0, 4.0, N_A, N_A),
        ("batch(32)", "BatchV2", 0.6, 1.0, N_A, N_A),
    )
    rows = alone(run, 62)
    assert row_of(rows, "wall") == "wall 23.0; a step: 13.8 compute + host, 9.6 data wait"
    assert row_of(rows, "map(decode)") == f"→ map(decode) 92.0 {'█' * 24} 4 of 2"


def test_where_rows_are_few_the_cheapest_have_none() -> None:
    rows = pipeline_of(look(usual(None, **GPU).staged(*STAGES, BEHIND)), 60, 5)

    assert [row.removeprefix("→").split()[0] for row in rows] == [
        "map(read)",
        "map(decode)",
        "batch(32)",
        "prefetch",
        "calls",
    ]


def test_a_pipeline_without_a_reading_shows_the_reason() -> None:
    run = usual(None).event(
        facts.SensorMissing,
        sensor="pipeline",
        reason="a DistributedIterator has no model",
        fix="one device",
    )
    assert "n/a: a DistributedIterator has no model; one device" in " ".join(alone(run, 60))
    assert "the stages appear with the first batches" in " ".join(alone(starting(None), 60))
