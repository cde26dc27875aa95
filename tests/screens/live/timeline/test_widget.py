"""The timeline as the rows of text that it shows."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.screens.runs import CannedRun
from tests.screens.timelines import COMPUTE_BOUND, STARVED, rows, show, shown, title
from tfwatch.core.events import PipelineSwitched, ValidationEnded
from tfwatch.core.rows import Flag, Phase
from tfwatch.runs.liveness import Life
from tfwatch.screens.basics.glyphs import QUIET_COLOUR, choose_glyphs
from tfwatch.screens.live.timeline.marks import Kind, Label
from tfwatch.screens.live.timeline.painting import NUMBER
from tfwatch.screens.live.timeline.picture import GUTTER, lay_out, mark_line

if TYPE_CHECKING:
    from pathlib import Path

    from textual.geometry import Region


def starved_then_switched(run: CannedRun) -> CannedRun:
    run.many(8.0, *STARVED)
    run.writer.event(
        PipelineSwitched(run.now_ns, "prefetch", "off", "4", 330, run.step + 1, 3.0, "key")
    )
    run.one(12.0, 1.0, 13.0, Flag.SWITCH)
    run.many(8.0, *COMPUTE_BOUND)
    return run


async def test_a_switch_is_seen_to_cut_the_wait_off(run: CannedRun) -> None:
    async with shown(starved_then_switched(run)) as (app, _):
        assert rows(app.timeline) == [
            " 30 ms                                        :",
            "                                              :                    now, ms",
            "                               ################                  # wait    0.2",
            "                               ################                  . host    1.0",
            "    15                         ################                  = comp   13.0",
            "                               ================================    step   14.2",
            "                               ================================    p95    14.2",
            "                               ================================",
            "     0                         ================================",
            "why                                           p prefetch off>4   ? explains",
        ]
        assert title(app.timeline) == "last 28 s ... z zoom  <- -> look back  one column = 0.5 s"


async def test_a_timed_copy_has_its_figure_and_is_drawn_as_compute(run: CannedRun) -> None:
    run.many(16.0, 2.0, 1.0, 27.0, copy=20.0)
    async with shown(run) as (app, _):
        seen = rows(app.timeline)
    assert [row[64:].strip() for row in seen[1:7]] == [
        "# wait    2.0",
        "= copy   20.0",
        ". host    1.0",
        "= comp    7.0",
        "step   30.0",
        "p95    30.0",
    ]
    assert "".join(row[GUTTER + 30] for row in seen[:9]) == "  #======"


async def test_where_rows_are_few_the_step_stays(run: CannedRun) -> None:
    run.many(16.0, *STARVED)
    async with shown(run, 80, 6) as (app, _):
        assert [row[66:].split()[-2] for row in rows(app.timeline)[:3]] == ["wait", "comp", "step"]


async def test_a_stall_is_a_wall_within_a_third_of_a_second_and_grows(run: CannedRun) -> None:
    run.many(8.0, *COMPUTE_BOUND)
    run.phase(Phase.WAIT)
    async with shown(run) as (app, _):
        run.wait(300)
        show(app.timeline, run.snapshot())
        narrow = [row[GUTTER:66].count("#") for row in rows(app.timeline)[:7]]
        run.wait(20_000)
        show(app.timeline, run.snapshot())
        wide = rows(app.timeline)
    assert narrow[0] >= 1
    assert wide[0].count("#") >= 30
    assert ">20 s" in wide[0]
    assert "stalled now 20.3 s" in wide[9]


@pytest.mark.parametrize(
    "phase", [Phase.WAIT, Phase.COMPUTE, Phase.HOST], ids=lambda phase: phase.name
)
async def test_while_a_step_lasts_too_long_the_figures_are_those_before_it(
    run: CannedRun, phase: Phase
) -> None:
    run.many(8.0, *COMPUTE_BOUND)
    run.phase(phase)
    async with shown(run, 120, 15) as (app, _):
        assert "now, mean ms" in rows(app.timeline)[1]
        run.wait(20_000)
        show(app.timeline, run.snapshot())
        assert "before, mean ms" in rows(app.timeline)[1]
        lines = [line for y in range(app.timeline.size.height) if (line := app.timeline.row_key(y))]
        assert {role for line in lines for text, role in line if text in ("   0.2", "  14.2")} == {
            QUIET_COLOUR
        }


async def test_a_process_without_an_answer_waits_no_longer_than_its_last_sign(
    tmp_path: Path,
) -> None:
    run = CannedRun(tmp_path)
    run.many(8.0, *COMPUTE_BOUND)
    run.phase(Phase.WAIT)
    run.wait(5000)
    seen = run.snapshot()
    lost = replace(seen, life=Life.NOT_RESPONDING, silent_s=6.0, now_s=seen.now_s + 6.0)
    async with shown(run) as (app, _):
        show(app.timeline, lost)
        texts = rows(app.timeline)
    assert "not responding 6.0 s" in texts[9]
    assert texts[3][: GUTTER + 57].endswith(" " * 11), "nothing is known of the last six seconds"
    assert "####" in texts[3]


@pytest.mark.parametrize(
    ("life", "when", "roles"),
    [
        pytest.param(Life.RUNNING, "now", {NUMBER}, id="now"),
        pytest.param(Life.NOT_RESPONDING, "last", {QUIET_COLOUR}, id="no answer"),
        pytest.param(Life.GONE, "last", {QUIET_COLOUR}, id="folder gone"),
    ],
)
async def test_figures_that_are_not_of_now_are_grey(
    run: CannedRun, life: Life, when: str, roles: set[str]
) -> None:
    run.many(20.0, *STARVED)
    async with shown(run, 120, 15) as (app, _):
        show(app.timeline, replace(run.snapshot(), life=life))
        lines = [line for y in range(app.timeline.size.height) if (line := app.timeline.row_key(y))]
        assert f"{when}, mean ms" in rows(app.timeline)[1]
    found = [(text, role) for line in lines for text, role in line if text in ("  24.0", "  10.0")]
    assert [text for text, _ in found] == ["  10.0", "  24.0", "  24.0"]
    assert {role for _, role in found} == roles


@pytest.mark.parametrize(
    ("phase", "words"),
    [
        (Phase.STARTING, "starting, 6.2 s"),
        (Phase.COMPILE, "compiling the first step, 6.2 s"),
        (Phase.WAIT, "waiting for the first batch, 6.2 s"),
    ],
)
async def test_before_the_first_step_the_chart_shows_the_phase(
    run: CannedRun, phase: Phase, words: str
) -> None:
    run.phase(phase)
    run.wait(6200)
    async with shown(run) as (app, _):
        assert words in rows(app.timeline)[4]
        assert "n/a" in rows(app.timeline)[2]


async def test_a_compile_is_marked_and_has_no_colour_of_a_step(run: CannedRun) -> None:
    run.one(10.0, 1.0, 2400.0, Flag.COMPILE)
    run.many(8.0, *COMPUTE_BOUND)
    async with shown(run) as (app, _):
        texts = rows(app.timeline)
    assert "////" in texts[1]
    assert "C compile 2.4 s" in texts[9]


async def test_validation_is_a_gap_with_its_length(run: CannedRun) -> None:
    run.many(6.0, *COMPUTE_BOUND)
    run.wait(6000)
    run.writer.event(ValidationEnded(run.now_ns, 0, 6000.0))
    run.many(6.0, *COMPUTE_BOUND)
    async with shown(run) as (app, _):
        texts = rows(app.timeline)
    assert re.search("=+ {11,12}=+", texts[6])
    assert "EV 6.0 s" in texts[9]


async def test_only_rows_that_changed_are_painted_again(
    run: CannedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.many(20.2, *COMPUTE_BOUND)
    async with shown(run) as (app, _):
        painted: list[tuple[Region, ...]] = []
        monkeypatch.setattr(app.timeline, "refresh", lambda *regions, **_: painted.append(regions))
        run.many(0.01, *COMPUTE_BOUND)
        show(app.timeline, run.snapshot())
        quiet = len(painted)
        run.writer.event(PipelineSwitched(run.now_ns, "prefetch", "off", "4", 1, 2, 3.0, "key"))
        show(app.timeline, run.snapshot())
        monkeypatch.undo()
    assert quiet == 0
    assert [sum(region.height for region in regions) for regions in painted] == [4]


@pytest.mark.parametrize(("width", "height"), [(8, 3), (20, 4), (40, 6), (60, 9), (200, 30)])
@pytest.mark.parametrize("unicode", [True, False])
async def test_it_draws_at_any_size(run: CannedRun, width: int, height: int, unicode: bool) -> None:
    starved_then_switched(run)
    async with shown(run, width, height) as (app, pilot):
        for colour in (True, False):
            app.timeline.glyphs = choose_glyphs(colour, unicode)
            app.timeline.action_home()
            await pilot.pause()
            strips = [app.timeline.render_line(y) for y in range(app.timeline.size.height)]
            assert {strip.cell_length for strip in strips} == {app.timeline.size.width}
            assert all(strip.text.isascii() for strip in strips) or unicode


async def test_a_theme_changes_the_colours_of_rows_already_drawn(run: CannedRun) -> None:
    run.many(8.0, *COMPUTE_BOUND)
    async with shown(run) as (app, pilot):
        app.timeline.glyphs = choose_glyphs(colour=True, unicode=True)
        dark = [segment.style for segment in app.timeline.render_line(6)]
        app.theme = "textual-light"
        await pilot.pause()
        assert [segment.style for segment in app.timeline.render_line(6)] != dark


@pytest.mark.parametrize(
    ("height", "compact", "gpus", "strip_rows", "gpu_rows", "has_axis"),
    [
        (13, False, 0, 11, 0, True),
        (10, True, 0, 9, 0, False),
        (5, True, 0, 4, 0, False),
        (14, False, 1, 10, 2, True),
        (10, False, 1, 7, 1, True),
        (7, True, 1, 5, 1, False),
    ],
)
def test_the_strip_gets_what_the_rows_below_leave(
    height: int, compact: bool, gpus: int, strip_rows: int, gpu_rows: int, has_axis: bool
) -> None:
    layout = lay_out(118, height, compact, gpus)
    seen = layout.strip_rows, layout.gpu_rows, layout.has_axis
    assert seen == (strip_rows, gpu_rows, has_axis)


def test_a_label_keeps_its_cells_with_any_text() -> None:
    labels = [Label(2, "p off→図\x1b[2J館", Kind.SWITCH), Label(15, "E 2", Kind.EPOCH)]

    assert "".join(text for text, _ in mark_line(labels, 20)) == "  p off→??     E 2  "
