"""The input pipeline's pane."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.judge.test_view import look
from tests.screens.canned import N_A, PREFETCHED, STAGES, STARVING, Canned, usual
from tests.screens.states import starting, starving
from tfwatch.core import events as facts
from tfwatch.core.rows import Phase
from tfwatch.runs.liveness import Life
from tfwatch.screens.basics.glyphs import choose_glyphs
from tfwatch.screens.live.pipeline import PipelinePane, PipelineView, StageFigures, pipeline_view

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
    pane = PipelinePane()
    pane.set_reactive(PipelinePane.view, pipeline_view(look(run)))
    return [row.plain for row in pane.rows(width, 12)]


def test_behind_a_full_buffer_a_pipeline_that_is_quicker_than_the_step_has_no_slowest_stage() -> (
    None
):
    rows = alone(usual(None, **GPU).staged(*STAGES, PREFETCHED), 66)
    assert row_of(rows, "map(decode)") == "map(decode) 7.7 ██████████ 1 of 2"
    assert row_of(rows, "prefetch") == "prefetch ██████████ 4 of 4"
    assert "runs serially" not in "".join(rows)


def test_without_prefetch_the_pipeline_and_the_step_add_up() -> None:
    rows = alone(starving(None).staged(*STAGES), 56)
    assert row_of(rows, "total") == "total 9.6 + 13.8: no batch is prepared ahead"


def test_a_data_wait_that_no_stage_explains_has_a_row_of_its_own() -> None:
    quick = (
        ("list", "ShuffleDatasetV3", 0.7, 1.0, N_A, N_A),
        ("batch(32)", "BatchV2", 1.0, 1.0, N_A, N_A),
    )
    rows = alone(starving(None).staged(*quick), 56)
    assert row_of(rows, "fetch, threads").split("█")[0] == "fetch, threads 7.9 "
    assert row_of(rows, "total") == "total 9.6 + 13.8: no batch is prepared ahead"
    assert row_of(alone(starving(None).staged(*quick, BEHIND), 56), "fetch") == ""


def test_with_prefetch_the_data_wait_is_shown_beside_the_bottleneck() -> None:
    knobs = {"prefetch": "4", "workers": "4"}
    run = Canned(None, knobs=knobs).started().steps(150, STARVING).doing(Phase.COMPUTE, 0.001)
    run.staged(
        ("map(decode)", "ParallelMapV2", 92.0, 4.0, N_A, N_A),
        ("batch(32)", "BatchV2", 0.6, 1.0, N_A, N_A),
    )
    rows = alone(run, 62)
    assert row_of(rows, "total") == "total 92.6 wall 23.0 > 13.8 compute + host: 9.6 data wait"
    assert row_of(rows, "map(decode)") == f"→ map(decode) 92.0 {'█' * 24} 4 of 2"


def test_where_rows_are_few_the_cheapest_are_summed_up() -> None:
    stages = [
        StageFigures(name, cost)
        for name, cost in (("a", 0.1), ("b", 0.2), ("c", 9.0), ("d", 0.4), ("e", 2.0))
    ]
    pane = PipelinePane()
    pane.set_reactive(
        PipelinePane.view, PipelineView(tuple(stages), all_ms=11.7, sentence="c is slow")
    )

    rows = [row.plain.split()[:2] for row in pane.rows(60, 5)]

    assert rows == [["3", "others"], ["c", "9.0"], ["e", "2.0"], ["total", "11.7"], ["c", "is"]]


@pytest.mark.parametrize(
    ("buffered", "bar"),
    [(0, "...."), (1, "#..."), (500, "##.."), (999, "###."), (1000, "####")],
    ids=str,
)
def test_a_single_element_shows_and_so_does_a_missing_one(buffered: int, bar: str) -> None:
    pane = PipelinePane()
    pane.set_reactive(PipelinePane.glyphs, choose_glyphs(colour=False, unicode=False))
    stage = StageFigures("list, shuffle", 0.2, "1", buffered, 1000)
    pane.set_reactive(PipelinePane.view, PipelineView((stage,), all_ms=0.2))

    (row,) = [
        row.plain
        for row in pane.rows(40 + len(f"{buffered} of 1000") - 1, 5)
        if "list" in row.plain
    ]
    assert f" {bar} {buffered} of 1000" in row


def test_a_pipeline_without_a_reading_shows_the_reason() -> None:
    run = usual(None).event(
        facts.SensorMissing,
        sensor="pipeline",
        reason="a DistributedIterator has no model",
        fix="one device",
    )
    assert "n/a: a DistributedIterator has no model; one device" in " ".join(alone(run, 60))
    assert "the stages appear with the first batches" in " ".join(alone(starting(None), 60))


async def test_stages_that_were_read_before_the_process_fell_silent_raise_no_alarm() -> None:
    run = starving(None).staged(*STAGES)
    view = look(run)
    assert pipeline_view(view).starves
    silent = replace(view, snapshot=replace(view.snapshot, life=Life.NOT_RESPONDING))
    assert not pipeline_view(silent).starves
    assert pipeline_view(silent).stages == pipeline_view(view).stages


def test_without_batches_the_reason_is_shown() -> None:
    run = usual(None).staged(("range", "Range", N_A, 1.0, N_A, N_A))

    assert pipeline_view(look(run)).sentence == "no batch passed in the last seconds"
    run.event(
        facts.SensorMissing, sensor="pipeline", reason="epochs are too short", fix="longer epochs"
    )
    assert pipeline_view(look(run)).sentence == "n/a: epochs are too short; longer epochs"
