"""The input pipeline's pane."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.live.test_view import look
from tests.screens.canned import N_A, PREFETCHED, STAGES, STARVING, Canned, usual
from tests.screens.showing import shown
from tests.screens.states import MARKUP, importing, stalled, starving
from tfwatch.core import events as facts
from tfwatch.core.events import ExperimentBegan
from tfwatch.core.rows import Phase
from tfwatch.runs.reading.liveness import Life
from tfwatch.widgets.basics.glyphs import choose_glyphs
from tfwatch.widgets.live.pipeline import PipelinePane, PipelineView, StageFigures, pipeline_view

if TYPE_CHECKING:
    from pathlib import Path

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


async def test_a_row_a_stage_in_the_order_of_the_code_and_the_slowest_marked_with_its_reason() -> (
    None
):
    run = usual(None, **GPU).staged(*STAGES, BEHIND)
    async with shown(run, (140, 40)) as show:
        rows = show.rows
        assert row_of(rows, "stage") == "stage ms/batch parallel buffer"
        assert row_of(rows, "list, shuffle") == "list, shuffle 0.2 1 ██████████ 1000 of 1000"
        assert row_of(rows, "map(decode)") == "→ map(decode) 7.7 ██████████ 1 of 2"
        assert row_of(rows, "prefetch").endswith(" 1 of 4")
        assert (
            row_of(rows, "total")
            == "total 9.6 < 13.7 compute + host: fully overlapped with compute"
        )
        assert "map(decode) runs serially on one of 2 cores" in show.text
        assert "tf.data, 1 s ago" in show.text
        names = [
            at
            for name in ("list", "map(read)", "→ map(decode)", "batch(32)", "prefetch ")
            for at in where(rows, name)
        ]
        assert names == sorted(names)


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


async def test_at_120_columns_the_figures_of_a_full_shuffle_buffer_are_whole() -> None:
    async with shown(usual(None).staged(*STAGES, PREFETCHED), (120, 40)) as show:
        assert row_of(show.rows, "list, shuffle") == "list, shuffle 0.2 1 █████ 1000 of 1000"


def where(rows: list[str], name: str) -> list[int]:
    return [
        at
        for at, row in enumerate(rows)
        if row.strip("│ ").partition("│")[0].strip().startswith(name)
    ][:1]


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


async def test_on_a_small_screen_it_is_a_tab_of_its_own() -> None:
    async with shown(usual(None).staged(*STAGES, PREFETCHED), (60, 18)) as show:
        for size in ((60, 18), (80, 24), (80, 34)):
            await show.press("1")
            await show.resize(size)
            assert "map(decode)" not in show.text
            await show.press("2")
            assert row_of(show.rows, "map(decode)").startswith("map(decode) 7.7")
            assert "4 of 4" in show.text
            assert "compute + host: fully overlapped" in show.text


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


async def test_in_a_stall_it_names_the_silent_stage_and_the_time() -> None:
    run = stalled(None)
    silent = [
        (name, kind, N_A, workers, 0.0 * size, size)
        for name, kind, _, workers, _, size in (*STAGES, PREFETCHED)
    ]
    since_ns = round((run.at_s - 20.0) * 1e9)
    run.event(
        facts.StallLocated,
        step=run.step + 1,
        stage="map(read)",
        since_ns=since_ns,
        place="feed.py:41 in rows",
        thread="generator",
    ).staged(*silent)
    async with shown(run) as show:
        assert row_of(show.rows, "map(read)") == "→ map(read) n/a 1 of 2"
        assert "no element from map(read) since 10:17:2" in show.text
        assert "feed.py:41 in rows" in show.text
        assert "0 of 4" in row_of(show.rows, "prefetch")


def test_a_pipeline_without_a_reading_shows_the_reason() -> None:
    run = usual(None).event(
        facts.SensorMissing,
        sensor="pipeline",
        reason="a DistributedIterator has no model",
        fix="one device",
    )
    assert "n/a: a DistributedIterator has no model; one device" in " ".join(alone(run, 60))
    assert "the stages appear with the first batches" in " ".join(alone(importing(None), 60))


async def test_a_replay_shows_the_newest_reading(tmp_path: Path) -> None:
    run = usual(tmp_path).staged(*STAGES, BEHIND).ended()
    async with shown(run, live=False) as show:
        assert "newest reading" in show.text
        assert row_of(show.rows, "map(decode)").startswith("→ map(decode) 7.7")


async def test_stages_that_were_read_before_the_process_fell_silent_raise_no_alarm() -> None:
    run = starving(None).staged(*STAGES)
    view = look(run)
    assert pipeline_view(view).starves
    silent = replace(view, snapshot=replace(view.snapshot, life=Life.NOT_RESPONDING))
    assert not pipeline_view(silent).starves
    assert pipeline_view(silent).stages == pipeline_view(view).stages


async def test_names_of_stages_are_no_markup() -> None:
    name = MARKUP[-18:]
    async with shown(usual(None).staged((name, "Map", 1.0, 1.0, N_A, N_A)), (200, 60)) as show:
        assert name in show.text


async def test_without_unicode_it_is_ascii() -> None:
    async with shown(usual(None).staged(*STAGES, BEHIND), colour=False, unicode=False) as show:
        assert "> map(decode)" in show.text
        assert "#.... 1 of 4" in show.text
        assert [row for row in show.rows if not row.isascii()] == []


async def test_a_finished_run_shows_each_knobs_effect_and_no_forecast() -> None:
    run = usual(None).switched("workers", "off", "4").steps(30, STARVING).ended()
    async with shown(run, live=False) as show:
        assert "prefetch 4 1.69 x faster than off" in show.words
        assert "workers 4 not enough steps: 30 of 60 steps" in show.words
        assert "measuring:" not in show.text


async def test_a_running_experiment_is_shown_in_the_card() -> None:
    run = starving(None)
    run.event(ExperimentBegan, knob="prefetch", values=["off", "4"], step=150, budget=600, seed=0)
    async with shown(run) as show:
        assert "A/B test: prefetch off vs 4" in show.text
        assert "no forecast while trying both" in show.text
        assert "runs until the answer is clear" in show.text
        assert "u undo:" not in show.text


def test_without_batches_the_reason_is_shown() -> None:
    run = usual(None).staged(("range", "Range", N_A, 1.0, N_A, N_A))

    assert pipeline_view(look(run)).sentence == "no batch passed in the last seconds"
    run.event(
        facts.SensorMissing, sensor="pipeline", reason="epochs are too short", fix="longer epochs"
    )
    assert pipeline_view(look(run)).sentence == "n/a: epochs are too short; longer epochs"
