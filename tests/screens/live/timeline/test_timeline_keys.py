"""The keys and the mouse of a timeline."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.screens.timelines import COMPUTE_BOUND, STARVED, rows, show, shown, time_of_day, title
from tfwatch.core.rows import Flag
from tfwatch.runs.liveness import Life
from tfwatch.screens.live.timeline.picture import GUTTER, WIDE
from tfwatch.screens.live.timeline.widget import Timeline

if TYPE_CHECKING:
    from tests.screens.runs import CannedRun


async def test_space_freezes_and_follows_again(run: CannedRun) -> None:
    run.many(8.0, *COMPUTE_BOUND)
    async with shown(run, 120, 15) as (app, pilot):
        await pilot.press("space")
        before = rows(app.timeline)
        assert "then, mean ms" in before[1]
        run.many(3.0, *STARVED)
        show(app.timeline, run.snapshot())
        assert rows(app.timeline) == before
        assert title(app.timeline).startswith(
            f"FROZEN at {time_of_day(7.99)} - 125 steps since - space: live"
        )
        await pilot.press("space")
        assert not app.timeline.frozen
        assert "now, mean ms" in rows(app.timeline)[1]
        await pilot.pause()
        assert app.messages == [pytest.approx(8.0, abs=0.05), None]


async def test_arrows_look_back_a_column_and_read_it_out(run: CannedRun) -> None:
    run.many(8.0, *STARVED)
    run.many(8.0, *COMPUTE_BOUND)
    async with shown(run, 120, 15) as (app, pilot):
        await pilot.press("left")
        assert app.timeline.frozen
        assert title(app.timeline).endswith("wait 0.2 host 1.0 compute 13.0 ms")
        app.timeline.action_look(-40)
        assert re.search(
            r"steps [\d ]+ to [\d ]+: wait 10.0 host 1.0 compute 13.0 ms$", title(app.timeline)
        )
        assert "|" in rows(app.timeline)[0]
        await pilot.press("end")
        assert not app.timeline.frozen


async def test_home_shows_the_beginning_and_looking_back_stops_there(run: CannedRun) -> None:
    run.one(10.0, 1.0, 2400.0, Flag.COMPILE)
    run.many(60.0, *COMPUTE_BOUND)
    async with shown(run, 120, 15) as (app, pilot):
        await pilot.press("home", "left", "left")
        texts = rows(app.timeline)
        assert texts[11].index("C compile 2.4 s") == GUTTER
        assert texts[12].lstrip().startswith(time_of_day(5.0)[:5])


async def test_a_jump_puts_the_moment_in_the_middle(run: CannedRun) -> None:
    run.many(40.0, *COMPUTE_BOUND)
    run.one(900.0, 1.0, 13.0)
    run.many(40.0, *COMPUTE_BOUND)
    async with shown(run, 120, 15) as (app, _):
        app.timeline.jump_to(40.0)
        assert abs(rows(app.timeline)[11].index("S stall 0.9 s") - GUTTER - 43) <= 2


async def test_the_figures_beside_what_is_looked_back_at_are_its_own(run: CannedRun) -> None:
    run.columns = {"gpu_busy": 0.25}
    run.many(60.0, *STARVED)
    run.columns = {"gpu_busy": 0.75, "cpu_cores": 7.0}
    run.many(60.0, *COMPUTE_BOUND)
    async with shown(run, 120, 20) as (app, pilot):

        def beside() -> list[str]:
            texts = [
                app.timeline.render_line(y).text[-WIDE:] for y in range(app.timeline.size.height)
            ]
            return [" ".join(text.lstrip("#.= ").split()) for text in texts]

        await pilot.press("space")
        newest = [
            "wait 0.2",
            "host 1.0",
            "compute 13.0",
            "step 14.2",
            "p95 14.2",
            "75 %",
        ]
        assert [words for words in newest if words in beside()] == newest
        assert "then, mean ms" in rows(app.timeline)[1]
        app.timeline.jump_to(20.0)
        assert "in view, mean ms" in rows(app.timeline)[1]
        own = [
            "wait 10.0",
            "host 1.0",
            "compute 13.0",
            "step 24.0",
            "25 %",
        ]
        assert [words for words in own if words in beside()] == own
        assert not {"step 14.2", "p95 14.2", "75 %"} & {*beside()}
        await pilot.press("end")
        assert "now, mean ms" in rows(app.timeline)[1]


async def test_looking_forward_stops_at_what_is_there(run: CannedRun) -> None:
    run.many(40.0, *COMPUTE_BOUND)
    async with shown(run, 120, 15) as (app, pilot):
        app.timeline.jump_to(39.0)
        end_s = app.timeline._view.end_s
        await pilot.press("pagedown", "pagedown")
        assert end_s == app.timeline._view.end_s == pytest.approx(run.at_s)


async def test_a_run_that_is_over_opens_whole_and_names_the_moment_in_view(run: CannedRun) -> None:
    run.many(300.0, *COMPUTE_BOUND)
    over = replace(run.snapshot(), life=Life.ENDED)
    async with shown(run, 120, 15) as (app, pilot):
        app.timeline.snapshot = None
        show(app.timeline, over)
        assert title(app.timeline).startswith("the whole run, 5:00")
        assert len(rows(app.timeline)[8].rstrip()) == app.timeline.size.width - WIDE, (
            "its steps fill the chart"
        )
        assert "run, mean ms" in rows(app.timeline)[1]
        app.timeline.jump_to(100.0)
        await pilot.pause()
        assert title(app.timeline).startswith(f"VIEWING {time_of_day(100.0)[:5]}")
        assert "FROZEN" not in title(app.timeline)


async def test_a_long_step_is_read_out_in_seconds(run: CannedRun) -> None:
    run.many(10.0, *COMPUTE_BOUND)
    run.one(12_000.0, 1.0, 13.0)
    async with shown(run, 120, 15) as (app, pilot):
        app.timeline.jump_to(11.0)
        await pilot.pause()
        assert title(app.timeline).endswith("wait 12.0 s host 1.0 ms compute 13.0 ms")


async def test_a_click_freezes_and_reads_the_column_out(run: CannedRun) -> None:
    run.many(20.0, *STARVED)
    async with shown(run, 120, 15) as (app, pilot):
        await pilot.click(Timeline, offset=(60, 5))
        assert app.timeline.frozen
        assert title(app.timeline).endswith("wait 10.0 host 1.0 compute 13.0 ms")


async def test_the_pointer_reads_out_without_freezing(run: CannedRun) -> None:
    run.many(20.0, *STARVED)
    async with shown(run, 120, 15) as (app, pilot):
        await pilot.hover(Timeline, offset=(60, 5))
        assert not app.timeline.frozen
        assert title(app.timeline).endswith("wait 10.0 host 1.0 compute 13.0 ms")
        await pilot.hover(Timeline, offset=(117, 5))
        assert title(app.timeline).endswith("one column = 0.25 s")


async def test_zoom_goes_from_seconds_to_the_whole_run(run: CannedRun) -> None:
    run.many(700.0, 60.0, 1.0, 300.0)
    async with shown(run, 120, 15) as (app, pilot):
        titles = [title(app.timeline)]
        for key in ("z", "z", "z", "Z", "Z", "Z"):
            await pilot.press(key)
            titles.append(title(app.timeline))
    spans = [words.split(" ... ")[0] for words in titles]
    minutes, whole, seconds = "last 6 min", "the whole run, 11:40", "last 23 s"
    assert spans == [seconds, minutes, whole, whole, minutes, seconds, seconds]
