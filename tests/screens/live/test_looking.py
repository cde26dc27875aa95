"""The live screen with canned runs: keys that change only the view."""

from pathlib import Path

from tests.screens.canned import STARVING, usual
from tests.screens.hardware import compute_bound, unseen
from tests.screens.showing import shown
from tfwatch.core.events import Noted
from tfwatch.core.rows import Phase


async def test_space_freezes_the_charts_and_nothing_else(tmp_path: Path) -> None:
    async with shown(usual(tmp_path)) as show:
        await show.press("space")
        assert show.live.timeline.frozen
        assert "space live" in show.rows[-1]
        for _ in range(2):  # the second one 23 s later: the banner holds its verdict for 20
            show.run.steps(1000, STARVING).doing(Phase.COMPUTE, 0.001)
            await show.frame()
        assert "STARVING" in show.rows[1]
        await show.press("end")
        assert not show.live.timeline.frozen


async def test_the_timelines_keys_work_wherever_the_focus_is(tmp_path: Path) -> None:
    async with shown(usual(tmp_path).lasting(60.0, STARVING)) as show:
        await show.press("3", "left", "left", "left")
        assert show.app.focused is show.live.events_pane
        assert show.live.timeline.frozen
        far = show.live.timeline._view.end_s
        await show.press("right")
        near = show.live.timeline._view.end_s
    assert far is not None
    assert near is not None
    assert near > far


async def test_looking_back_at_a_finished_run_shows_nothing_as_live(tmp_path: Path) -> None:
    async with shown(usual(tmp_path).ended(), (140, 40), live=False) as show:
        await show.press("space")
        assert "settings at the end of the run" in show.text
        assert "space end" in show.rows[-1]
        assert "steps since" not in show.text
        await show.press("space")
        assert not show.live.timeline.frozen


async def test_a_missing_sensor_is_absent_until_it_is_asked_for(tmp_path: Path) -> None:
    async with shown(unseen(tmp_path), (80, 70)) as show:
        assert "GPU n/a" not in show.text
        await show.press("question_mark")
        assert "nvidia-ml-py is not installed" in show.text
        assert "pip install nvidia-ml-py" in show.text


async def test_every_overlay_is_ascii_on_an_ascii_terminal() -> None:
    async with shown(compute_bound(None), (80, 24), unicode=False) as show:
        for key in ("q", "s", "question_mark", "d"):
            await show.press(key)
            assert show.text.isascii(), key
            await show.press("escape")
            assert show.app.screen is show.live


async def test_the_selected_event_stays_selected_when_others_arrive(tmp_path: Path) -> None:
    async with shown(usual(tmp_path)) as show:
        await show.press("3", "down", "down")
        pane = show.live.events_pane
        chosen = pane.event_rows[-1 - pane.cursor]
        show.run.event(Noted, text="one").event(Noted, text="two")
        await show.frame()
        assert (pane.cursor, pane.event_rows[-1 - pane.cursor]) == (3, chosen)


async def test_the_list_follows_new_events_again_when_the_charts_do(tmp_path: Path) -> None:
    run = usual(tmp_path)
    for n in range(20):
        run.event(Noted, text=f"the note {n}")
    async with shown(run) as show:
        await show.press("3", "pagedown", "escape")
        pane = show.live.events_pane
        assert (pane.cursor, show.live.timeline.frozen) == (9, True)
        assert pane.scroll_offset.y > 0

        await show.press("space")
        assert (pane.cursor, pane.scroll_offset.y) == (-1, 0)
        run.event(Noted, text="and one more")
        await show.frame()
        assert "and one more" in show.text
