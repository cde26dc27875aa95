"""Quitting: the question, its answers, and the cases without a question."""

from pathlib import Path

import pytest

from tests.screens.canned import usual
from tests.screens.showing import shown
from tfwatch.core.rows import Phase
from tfwatch.screens.overlays import Leave, Question


async def test_quitting_asks_and_n_keeps_the_screen(tmp_path: Path) -> None:
    async with shown(usual(tmp_path)) as show:
        assert show.control is not None
        for key, back in (("q", "n"), ("ctrl+q", "escape"), ("ctrl+c", "n")):
            await show.press(key)
            assert isinstance(show.app.screen, Question)
            assert "The shell is back when it ends" in show.words
            await show.press("enter", "space", "p", key)
            assert isinstance(show.app.screen, Question)
            assert show.asked() == []
            await show.press(back)
            assert show.app.screen_stack[-1] is show.live
            assert not show.control.stop.is_set()


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
        assert isinstance(show.app.screen, Question)
        await show.press("y")
        assert show.control is not None
        assert show.control.stop.is_set()
        show.run.ended("stopped")
        await show.frame()
        assert "STOPPED" in show.rows[1]
        assert show.app.return_value is None


async def test_a_stopping_run_refuses_switches() -> None:
    async with shown(usual(None)) as show:
        await show.press("s", "y")
        assert [one.key for one in show.live.keys.keys if one.key in "pwfau"] == []
        for key, message in (
            ("p", "prefetch: the run is ending"),
            ("plus", "prefetch: the run is ending"),
            ("a", "prefetch: the run is ending"),
            ("f", "autopilot: the run is ending"),
            ("u", "prefetch: the run is ending"),
        ):
            show.app.clear_notifications()
            await show.press(key)
            assert [note.message for note in show.app._notifications] == [message], key
            assert show.asked() == []
            assert show.tuner.jobs == []


async def test_a_finished_run_quits_without_asking(tmp_path: Path) -> None:
    async with shown(usual(tmp_path).ended()) as show:
        await show.press("q")
        assert show.app.return_value is Leave.LEFT


@pytest.mark.parametrize(
    ("keys", "answer"), [("q", "y"), ("q", "d"), ("q", "n"), ("s", "y"), ("s", "n")]
)
async def test_a_question_waits_for_its_key_beyond_the_end_of_the_run(
    tmp_path: Path, keys: str, answer: str
) -> None:
    """It closed by itself, and the `y` on its way copied lines."""
    async with shown(usual(tmp_path)) as show:
        await show.press(keys)
        show.run.ended()
        await show.frame()
        await show.frame()
        assert isinstance(show.app.screen, Question)
        assert "The run has ended meanwhile." in show.words
        await show.press(answer)
        assert show.app.screen_stack[-1] is show.live or show.app.return_value is Leave.LEFT
        assert (show.app.return_value is Leave.LEFT) == (keys == "q" and answer != "n")
        assert not show.app._notifications
        assert show.control is not None
        assert not show.control.stop.is_set()


async def test_a_tiny_window_shows_every_answer() -> None:
    async with shown(usual(None), (40, 10)) as show:
        for key, question, answers in (
            ("q", "Quit?", ("y stop the script", "d quit the screen", "n stay")),
            ("s", "Stop the script?", ("y stop the script", "n go on")),
        ):
            await show.press(key)
            assert question in show.text
            assert all(answer in show.text for answer in answers)
            await show.press("n")
