"""The app itself: paint, theme, title, cost."""

import gc
import math
from contextlib import suppress
from dataclasses import replace
from queue import SimpleQueue
from select import select
from socket import socketpair
from types import SimpleNamespace

import pytest
from textual.color import Color, rgb_to_lab
from textual.strip import Strip
from textual.theme import Theme

from tests.screens.canned import Canned, usual
from tests.screens.showing import shown
from tfwatch.app import TfwatchApp
from tfwatch.core.rows import Phase
from tfwatch.notices import Notifier, NotifyOptions
from tfwatch.screens.text import (
    COMPUTE_COLOUR,
    HOST_COLOUR,
    MUTED_COLOUR,
    STALL_COLOUR,
    WAIT_COLOUR,
)
from tfwatch.screens.themes import THEMES


async def test_training_is_started_after_the_first_paint() -> None:
    painted: list[str] = []
    run = Canned(None).doing(Phase.STARTING, 0.0)
    async with shown(run, painted=lambda: painted.append("now")) as show:
        await show.frame()
        assert painted == ["now"]
        assert "STARTING" in show.rows[1]


async def test_a_notice_of_the_end_rings_the_bell_in_place_of_the_screen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rung: list[str] = []
    monkeypatch.setattr(TfwatchApp, "bell", lambda _: rung.append("bell"))
    monkeypatch.setattr(TfwatchApp, "_show_notice", lambda _, _said, text: rung.append(text))
    for options in (NotifyOptions(in_terminal=True), NotifyOptions(command=("/bin/true",))):
        rung.clear()
        async with shown(usual(None), notifier=Notifier(options, environ={})) as show:
            show.run.ended()
            await show.frame()
            await show.frame()
            assert [one for one in rung if one in ("bell", "\a")] == [
                "\a" if options.in_terminal else "bell"
            ]


async def test_the_bell_rings_once_where_a_run_ends_that_was_seen_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rung: list[str] = []
    monkeypatch.setattr(TfwatchApp, "bell", lambda _: rung.append("rung"))
    async with shown(usual(None)) as show:
        await show.frame()
        assert not rung
        show.run.ended()
        await show.frame()
        await show.frame()
        assert len(rung) == 1
    async with shown(usual(None).ended(), live=False):
        assert len(rung) == 1


async def test_a_closed_screen_keeps_no_rows_in_memory() -> None:
    async with shown(usual(None)) as show:
        strips = []
        for _ in range(3):
            for _ in range(5):
                await show.press("question_mark", "escape")
            gc.collect()
            strips.append(sum(isinstance(one, Strip) for one in gc.get_objects()))
        assert strips[2] - strips[1] < 20, "a row of the help is a strip or two"


def _shown(theme: Theme, colour: str) -> Color:
    """Return a colour of the charts as it is drawn on the screen's background."""
    name, _, percent = colour.removeprefix("$").partition(" ")
    share = int(percent.removesuffix("%")) / 100 if percent else 1.0
    return Color.parse(str(theme.background)).blend(Color.parse(str(getattr(theme, name))), share)


@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)
@pytest.mark.parametrize(
    "beside", [STALL_COLOUR, COMPUTE_COLOUR, HOST_COLOUR, MUTED_COLOUR, "$background"]
)
def test_data_wait_stands_out_from_the_parts_beside_it(theme: Theme, beside: str) -> None:
    """From a distance of about 2 in CIELAB on, the eye tells colours apart."""
    wait, other = (rgb_to_lab(_shown(theme, colour)) for colour in (WAIT_COLOUR, beside))

    assert math.dist((wait.L, wait.a, wait.b), (other.L, other.a, other.b)) >= 35


async def test_without_colour_no_cell_has_one() -> None:
    async with shown(usual(None), colour=False) as show:
        styles = [
            segment.style
            for strip in show.app.screen._compositor.render_strips()
            for segment in strip
        ]
        assert all(
            style is None or style.color is None or style.color.is_default for style in styles
        )
        assert all(
            style is None or style.bgcolor is None or style.bgcolor.is_default for style in styles
        )


@pytest.mark.parametrize(("cpu_ms", "drawn"), [(5.0, 12), (60.0, 6)])
async def test_costly_frames_are_drawn_less_often(cpu_ms: float, drawn: int) -> None:
    run, frames = usual(None), 0

    def thread_ns() -> int:
        return round(frames * cpu_ms * 1e6)

    async with shown(run) as show:
        show.live._clock = replace(run.clock, thread_ns=thread_ns)
        for _ in range(12):
            before, frames = show.live.view, frames + 1
            run.at_s += 0.25
            show.live.frame()
            frames -= show.live.view is before
    assert frames == drawn


async def test_no_frame_is_drawn_while_the_terminal_still_takes_the_last_one() -> None:
    run, waiting = usual(None), SimpleQueue[str]()
    screen, line = socketpair()
    line.setblocking(False)
    async with shown(run) as show:
        writer = SimpleNamespace(_queue=waiting, fileno=line.fileno)
        show.app._driver._writer_thread = writer  # type: ignore[union-attr]
        waiting.put("the last frame")
        run.at_s += 5.0
        before = show.live.view
        show.app.frame()
        assert show.live.view is before, "it waits for its turn"
        part = waiting.get()
        with suppress(BlockingIOError):
            while line.send(part.encode() * 1000):
                pass
        show.app.frame()
        assert show.live.view is before, "the line is full"
        while not select([], [line], [], 0)[1]:
            screen.recv(1 << 16)
        show.app.frame()
        assert show.live.view is not before
        show.app._driver._writer_thread = None  # type: ignore[union-attr]
    screen.close()
    line.close()
