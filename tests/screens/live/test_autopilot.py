"""The autopilot on the live screen."""

from pathlib import Path

from tests.screens.canned import STARVING
from tests.screens.showing import shown
from tests.screens.states import starving
from tfwatch.core.events import AutopilotBegan, AutopilotEnded, MoveMade
from tfwatch.core.knobs import KnobChange
from tfwatch.core.rows import Phase
from tfwatch.tuner.autopilot import Autopilot


async def test_f_starts_the_autopilot_and_f_again_ends_it(tmp_path: Path) -> None:
    async with shown(starving(tmp_path)) as show:
        await show.press("f")
        assert show.tuner.jobs == [Autopilot()]
        show.tuner.busy = True
        run = show.run.event(AutopilotBegan, step=show.run.step).doing(Phase.COMPUTE, 0.001)
        await show.frame()
        assert "AUTOPILOT" in show.text
        assert "measuring the current setting" in show.text
        assert "f autopilot f ends it; measuring" in show.words
        assert "moves kept" not in show.text
        run.event(
            MoveMade,
            step=run.step,
            changes=(KnobChange("prefetch", "off", "4"),),
            forecast_ms=13.8,
        ).steps(20, STARVING).doing(Phase.COMPUTE, 0.001)
        await show.frame()
        assert "move 1: prefetch off → 4, forecast 13.8 ms" in show.text
        await show.press("f")
        assert show.tuner.jobs == [Autopilot(), None]


async def test_its_end_is_one_sentence_and_that_of_another_terminals_an_event(
    tmp_path: Path,
) -> None:
    async with shown(starving(tmp_path)) as show:
        for is_own in (False, True):
            if is_own:
                await show.press("f")
            run = show.run.event(AutopilotBegan, step=show.run.step)
            why = {"cause": "not_starving", "reason": "data wait is only 3 % of a step"}
            run.event(AutopilotEnded, step=run.step, steps=0, **why).doing(Phase.COMPUTE, 0.001)
            await show.frame()
            notes = [note.message for note in show.app._notifications]
            assert notes == ["autopilot: nothing to gain: data wait is only 3 % of a step"] * is_own
            assert "F autopilot: nothing to gain" in show.words
            assert "f autopilot nothing to gain" in show.words
        show.app.clear_notifications()
        await show.frame()
        assert not show.app._notifications, "once"


async def test_what_it_found_stands_at_its_key_until_a_setting_changes(tmp_path: Path) -> None:
    async with shown(starving(tmp_path)) as show:
        assert "f autopilot finds the fastest settings by itself" in show.words
        run = show.run.event(AutopilotBegan, step=show.run.step)
        why = {"cause": "not_starving", "reason": "data wait is only 3 % of a step"}
        run.event(AutopilotEnded, step=run.step, steps=0, **why).steps(20, STARVING)
        await show.frame()
        assert "f autopilot nothing to gain" in show.words
        run.switched("prefetch", "off", "4").steps(20, STARVING)
        await show.frame()
        assert "f autopilot finds the fastest settings by itself" in show.words


async def test_the_next_key_takes_a_message_from_the_keys_of_the_last_row(tmp_path: Path) -> None:
    async with shown(starving(tmp_path), notifies=True) as show:
        keys = show.text.splitlines()[-1]
        show.live.notify("autopilot: nothing to gain")
        await show.pilot.pause()
        assert show.text.splitlines()[-1].split() == ["autopilot:", "nothing", "to", "gain"]
        await show.press("z")
        assert show.text.splitlines()[-1] == keys
