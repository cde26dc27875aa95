"""Quitting: the question, its answers, and the cases without a question."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from textual.command import CommandPalette

from tests.screens.canned import STARVING, Canned, usual
from tests.screens.showing import shown
from tfwatch.core.rows import Phase
from tfwatch.screens.leave import Leave, LeaveScreen, StopScreen

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("key", ["q", "ctrl+q", "ctrl+c"])
async def test_quitting_asks(tmp_path: Path, key: str) -> None:
    async with shown(usual(tmp_path)) as show:
        await show.press(key)
        assert isinstance(show.app.screen, LeaveScreen)
        await show.press("enter", "space", "p", key)
        assert isinstance(show.app.screen, LeaveScreen)
        assert show.asked() == []


async def test_the_palettes_quit_asks_too(tmp_path: Path) -> None:
    async with shown(usual(tmp_path)) as show:
        commands = {command.title: command for command in show.app.get_system_commands(show.app.screen)}
        await show.app.action_quit()
        assert commands["Quit"].callback == show.app.action_quit
        await show.pilot.pause()
        assert isinstance(show.app.screen, LeaveScreen)


@pytest.mark.parametrize("key", ["n", "escape"])
async def test_n_keeps_the_screen(tmp_path: Path, key: str) -> None:
    async with shown(usual(tmp_path)) as show:
        await show.press("q", key)
        assert show.app.screen is show.live
        assert show.control is not None
        assert not show.control.stop.is_set()


async def test_the_palette_does_what_keys_do(tmp_path: Path) -> None:
    async with shown(usual(tmp_path)) as show:
        commands = {command.title: command for command in show.app.get_system_commands(show.app.screen)}
        commands["prefetch off, or back on"].callback()
        await show.until(lambda: show.control and show.control.has_requests)
        assert show.asked() == [("prefetch", "off")]


async def test_the_palette_is_shown_once(tmp_path: Path) -> None:
    async with shown(usual(tmp_path)) as show:
        await show.press("ctrl+p", "ctrl+p")
        assert [type(screen) for screen in show.app.screen_stack[2:]] == [CommandPalette]


async def test_d_continues_training_without_a_screen(tmp_path: Path) -> None:
    async with shown(usual(tmp_path)) as show:
        await show.press("q", "d")
        assert show.app.return_value is Leave.DETACH
        assert show.control is not None
        assert not show.control.stop.is_set()


async def test_y_stops_and_quits_when_the_run_has_ended(tmp_path: Path) -> None:
    async with shown(usual(tmp_path)) as show:
        await show.press("q", "y")
        assert show.control is not None
        assert show.control.stop.is_set()
        assert "STOPPING" in show.rows[1]
        assert show.app.return_value is None
        show.run.ended("stopped")
        await show.frame()
        assert show.app.return_value is Leave.STOP


async def test_y_twice_quits_immediately(tmp_path: Path) -> None:
    run = usual(tmp_path)
    run.at_s += 5.0
    async with shown(run.doing(Phase.WAIT, 5.0)) as show:
        await show.press("q", "y")
        assert "y again quits now" in show.text
        await show.press("y")
        assert show.app.return_value is Leave.NOW


async def test_s_asks_stops_and_keeps_the_screen(tmp_path: Path) -> None:
    async with shown(usual(tmp_path)) as show:
        await show.press("s")
        assert isinstance(show.app.screen, StopScreen)
        await show.press("y")
        assert show.control is not None
        assert show.control.stop.is_set()
        show.run.ended("stopped")
        await show.frame()
        assert "STOPPED" in show.rows[1]
        assert show.app.return_value is None


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("p", "prefetch: the run is ending"),
        ("plus", "prefetch: the run is ending"),
        ("a", "prefetch: the run is ending"),
        ("f", "autopilot: the run is ending"),
        ("u", "prefetch: the run is ending"),
    ],
)
async def test_a_stopping_run_refuses_switches(key: str, message: str) -> None:
    async with shown(usual(None)) as show:
        await show.press("s", "y")
        assert [one.key for one in show.live.keys.keys if one.enabled and one.key in (*"pwfau", "plus", "minus")] == []
        await show.press(key)
        assert [note.message for note in show.app._notifications] == [message]
        assert show.asked() == []
        assert show.control is not None
        assert show.control.next_tuner_request(0, 0.0) == (0, None)


async def test_a_question_is_answered_by_mouse(tmp_path: Path) -> None:
    async with shown(usual(tmp_path)) as show:
        await show.press("q")
        row = next(row for row in show.rows if "stop and quit" in row)
        at = row.index("d keep training"), show.rows.index(row)
        await show.pilot.click(offset=at)
        await show.until(lambda: show.app.return_value)
        assert show.app.return_value is Leave.DETACH


async def test_a_finished_run_quits_without_asking(tmp_path: Path) -> None:
    async with shown(usual(tmp_path).ended()) as show:
        await show.press("q")
        assert show.app.return_value is Leave.LEFT


async def test_a_hangup_quits_without_asking(tmp_path: Path) -> None:
    async with shown(usual(tmp_path)) as show:
        show.app.exit_with(Leave.DETACH)
        await show.pilot.pause()
        assert show.app.return_value is Leave.DETACH


async def test_ctrl_z_explains_why_it_does_nothing(tmp_path: Path) -> None:
    async with shown(usual(tmp_path)) as show:
        await show.press("ctrl+z")
        assert "ctrl+z is disabled" in next(note.message for note in show.app._notifications)


@pytest.mark.parametrize(
    ("key", "question", "answers"),
    [
        ("q", "Quit?", "y stop and quit d continue n stay"),
        ("s", "Stop the training?", "y stop training  n keep training"),
    ],
)
async def test_a_tiny_window_shows_every_answer(key: str, question: str, answers: str) -> None:
    async with shown(usual(None), (40, 10)) as show:
        await show.press(key)
        assert question in show.text
        assert answers in show.text


@pytest.mark.parametrize("size", [(60, 18), (80, 24)], ids=["60x18", "80x24"])
async def test_the_question_fits_the_smallest_screen(size: tuple[int, int]) -> None:
    async with shown(Canned(None).started().steps(50, STARVING), size) as show:
        await show.press("q")
        for word in (
            "stop training at the next batch, and quit",
            "training continues without it",
            "shell is back",
            "n stay",
        ):
            assert word in show.text
