"""The timeline as the rows of text that it shows; its keys."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from textual.app import ComposeResult
from textual.pilot import Pilot

from tests.screens.canned import WALL_NS, Canned
from tests.screens.showing import rows_of
from tfwatch.core.clock import local_time
from tfwatch.core.events import GpuFound, SensorMissing
from tfwatch.core.rows import Flag, Phase
from tfwatch.judge.event_rows import EventCollector
from tfwatch.judge.view import Follower
from tfwatch.runs.liveness import Life
from tfwatch.runs.snapshot import Snapshot
from tfwatch.screens.keys import LIVE_BINDINGS
from tfwatch.screens.live.timeline.picture import GUTTER, WIDE
from tfwatch.screens.live.timeline.widget import Timeline
from tfwatch.screens.overlays import Leave
from tfwatch.screens.text import QUIET_COLOUR
from tfwatch.screens.themes import _ASCII, ThemedApp

NAN = float("nan")


@pytest.fixture
def run(tmp_path: Path) -> Canned:
    """Return a run whose steps are all alike."""
    run = Canned(tmp_path, accelerated=True)
    run.jitter = 0.0
    return run


#: Data wait, compute and host of a step, ms.
STARVED, COMPUTE_BOUND = (10.0, 13.0, 1.0), (0.2, 13.0, 1.0)


class TimelineApp(ThemedApp):
    CSS = "Timeline { height: 1fr; }"
    BINDINGS = [key for key in LIVE_BINDINGS if key.action.startswith("timeline")]  # noqa: RUF012

    def compose(self) -> ComposeResult:
        yield Timeline(is_fine=self._unicode)

    @property
    def timeline(self) -> Timeline:
        return self.query_one(Timeline)

    async def action_timeline(self, action: str) -> None:
        await self.timeline.run_action(action)


@asynccontextmanager
async def shown(
    run: Canned, width: int = 80, height: int = 12, *, unicode: bool = False
) -> AsyncIterator[tuple[TimelineApp, Pilot[Leave]]]:
    app = TimelineApp(unicode=unicode)
    async with app.run_test(size=(width, height)) as pilot:
        show(app.timeline, run.snapshot())
        await pilot.pause()
        yield app, pilot


def show(timeline: Timeline, snapshot: Snapshot) -> None:
    """Show a frame as the live screen does."""
    view = Follower(live=True).follow(snapshot, (), None)
    timeline.show(view, EventCollector().take(view))


def rows(timeline: Timeline) -> list[str]:
    return [
        timeline.render_line(y).text.rstrip().translate(_ASCII) for y in range(timeline.size.height)
    ]


def title(timeline: Timeline) -> str:
    return " ... ".join(timeline._titles).translate(_ASCII)


def time_of_day(at_s: float) -> str:
    return local_time(WALL_NS + round(at_s * 1e9)).strftime("%H:%M:%S")


def starved_then_switched(run: Canned) -> Canned:
    run.lasting(8.0, STARVED).switched("prefetch", "off", "4")
    run.steps(1, (12.0, 13.0, 1.0), Flag.SWITCH)
    run.lasting(8.0, COMPUTE_BOUND)
    return run


# -- the picture -----------------------------------------------------------------------------------


async def test_beside_stalls_the_legend_has_the_usual_step(run: Canned) -> None:
    """36.8 ms, the mean with one callback of 1.5 s, stood beside bars of 8 ms."""
    for _ in range(4):
        run.steps(150, COMPUTE_BOUND).steps(1, (3000.0, 13.0, 1.0))
    run.steps(20, COMPUTE_BOUND).steps(1, (0.2, 13.0, 1500.0)).steps(20, COMPUTE_BOUND)
    run.doing(Phase.COMPUTE, 0.001)
    async with shown(run) as (app, _):
        heading, step, *_ = rows(app.timeline)
        assert heading.endswith(" median ms")
        assert float(step.split()[-1]) < 20


async def test_a_switch_is_seen_to_cut_the_wait_off(run: Canned) -> None:
    async with shown(starved_then_switched(run)) as (app, _):
        assert rows(app.timeline) == [
            " 30 ms                                                             mean ms",
            "                                                                   step   14.2",
            "                               ################                  # wait    0.2",
            "                               ################                  = comp   13.0",
            "    15                         ################                  . host    1.0",
            "                               ================================",
            "                               ================================",
            "                               ================================",
            "     0                         ================================",
            "why                                           p prefetch off > 4",
        ]
        assert title(app.timeline) == "last 28 s ... z zoom  < > look back"


async def test_a_stall_is_a_wall_within_a_third_of_a_second_and_grows(run: Canned) -> None:
    run.lasting(8.0, COMPUTE_BOUND)
    run.doing(Phase.WAIT, 0.0)
    async with shown(run) as (app, _):
        run.pass_s(0.3)
        show(app.timeline, run.snapshot())
        assert rows(app.timeline)[0].count("#") >= 1
        run.pass_s(20.0)
        show(app.timeline, run.snapshot())
        assert rows(app.timeline)[0].count("#") >= 30
        figures = [line[-1] for line in app.timeline._lines[1:5]]
    assert {style for _, style in figures} == {QUIET_COLOUR}, "they are from before the stall"


async def test_a_process_without_an_answer_waits_no_longer_than_its_last_sign(
    run: Canned,
) -> None:
    run.lasting(8.0, COMPUTE_BOUND)
    run.doing(Phase.WAIT, 0.0)
    run.pass_s(5.0)
    seen = run.snapshot()
    lost = replace(seen, life=Life.NOT_RESPONDING, silent_s=6.0, now_s=seen.now_s + 6.0)
    async with shown(run) as (app, _):
        show(app.timeline, lost)
        row = app.timeline.render_line(6).text.translate(_ASCII)
        figures = [line[-1] for line in app.timeline._lines[1:5]]
    assert row[GUTTER : GUTTER + 57].rstrip().endswith("####")
    assert row[: GUTTER + 57].endswith("# " + " " * 11), "nothing is known of the last six seconds"
    assert {style for _, style in figures} == {QUIET_COLOUR}


@pytest.mark.parametrize(("width", "height"), [(60, 4), (60, 9), (200, 30)])
@pytest.mark.parametrize("unicode", [True, False])
async def test_it_draws_at_any_size(run: Canned, width: int, height: int, unicode: bool) -> None:
    starved_then_switched(run)
    async with shown(run, width, height, unicode=unicode) as (app, pilot):
        await pilot.press("left")
        strips = [app.timeline.render_line(y) for y in range(app.timeline.size.height)]
        assert {strip.cell_length for strip in strips} == {app.timeline.size.width}
        assert unicode or "".join(rows_of(app.screen)).isascii()


# -- the GPU ---------------------------------------------------------------------------------------


def gpu_steps(run: Canned, seconds: float, busy: float, **columns: float) -> None:
    """Write steps with these GPU samples."""
    run.event(GpuFound, source="nvml", name="H100", memory_bytes=None, unified=False)
    run.sensors = lambda _: {"gpu_busy": busy, **columns}
    run.lasting(seconds, COMPUTE_BOUND)


async def test_what_is_not_known_of_the_gpu_is_a_gap_and_an_idle_one_a_line(run: Canned) -> None:
    for busy in (0.0, NAN, 1.0):
        gpu_steps(run, 4.0, busy)
    async with shown(run) as (app, _):
        assert re.fullmatch(r"GPU +\.{8} {8}={8}  100 %", rows(app.timeline)[-1])


async def test_a_gpu_whose_sensor_died_is_seen_where_it_was(run: Canned) -> None:
    gpu_steps(run, 10.0, 0.9)
    run.event(
        SensorMissing, sensor="GPU", reason="ioreg: it ended with 1", fix="tfwatch tries again"
    )
    gpu_steps(run, 60.0, NAN)
    async with shown(run) as (app, _):
        assert not [text for text in rows(app.timeline) if text.startswith("GPU")]
        app.timeline.jump_to(8.0)
        assert [text for text in rows(app.timeline) if re.match(r"GPU +=+ +n/a", text)]


# -- keys ------------------------------------------------------------------------------------------


async def test_space_freezes_and_follows_again(run: Canned) -> None:
    run.lasting(8.0, COMPUTE_BOUND)
    async with shown(run, 120, 15) as (app, pilot):
        await pilot.press("space")
        before = rows(app.timeline)
        run.lasting(3.0, STARVED)
        show(app.timeline, run.snapshot())
        assert rows(app.timeline) == before
        assert title(app.timeline).startswith(f"FROZEN at {time_of_day(7.99)}, space: live")
        await pilot.press("space")
        assert not app.timeline.frozen
        assert rows(app.timeline) != before


async def test_arrows_look_back_by_half_a_window(run: Canned) -> None:
    run.lasting(40.0, STARVED)
    run.lasting(40.0, COMPUTE_BOUND)
    async with shown(run, 120, 15) as (app, pilot):
        await pilot.press("left")
        assert app.timeline.frozen
        assert title(app.timeline).startswith(f"FROZEN at {time_of_day(80.0 - 11.6)[:7]}")
        app.timeline.action_look(-4000)
        assert rows(app.timeline)[12].lstrip().startswith(time_of_day(11.0)[:5]), "the start"
        await pilot.press("end")
        assert not app.timeline.frozen


async def test_a_jump_puts_the_moment_in_the_middle(run: Canned) -> None:
    run.lasting(40.0, COMPUTE_BOUND)
    run.steps(1, (3000.0, 13.0, 1.0))
    run.lasting(40.0, COMPUTE_BOUND)
    async with shown(run, 120, 15) as (app, _):
        app.timeline.jump_to(40.0)
        assert abs(rows(app.timeline)[11].index("S no batch for 3.0 s") - GUTTER - 43) <= 2
        app.timeline.jump_to(400.0)
        assert app.timeline._view.end_s == pytest.approx(run.at_s), "no further than there is"


async def test_a_run_that_is_over_opens_whole_and_names_the_moment_in_view(run: Canned) -> None:
    run.lasting(300.0, COMPUTE_BOUND)
    over = replace(run.snapshot(), life=Life.ENDED)
    async with shown(run, 120, 15) as (app, pilot):
        app.timeline._newest = None
        show(app.timeline, over)
        assert title(app.timeline).startswith("the whole run, 5:00")
        assert len(rows(app.timeline)[8].rstrip()) == app.timeline.size.width - WIDE, (
            "its steps fill the chart"
        )
        app.timeline.jump_to(100.0)
        await pilot.pause()
        assert title(app.timeline).startswith(f"FROZEN at {time_of_day(111.5)[:7]}")


async def test_zoom_goes_from_seconds_to_the_whole_run(run: Canned) -> None:
    run.lasting(700.0, (60.0, 300.0, 1.0))
    async with shown(run, 120, 15) as (app, pilot):
        titles = [title(app.timeline)]
        for key in ("z", "z", "z"):
            await pilot.press(key)
            titles.append(title(app.timeline))
    spans = [words.split(" ... ")[0] for words in titles]
    minutes, whole, seconds = "last 6 min", "the whole run, 11:40", "last 23 s"
    assert spans == [seconds, minutes, whole, seconds]
