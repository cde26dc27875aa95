"""The live screen with canned runs: the requests that its keys send."""

from pathlib import Path

import pytest

from tests.screens.canned import COMPUTE_BOUND, STARVING, Canned, usual
from tests.screens.showing import shown
from tests.screens.states import starting, starving
from tfwatch.core.events import EpochStarted
from tfwatch.core.rows import Flag, Phase
from tfwatch.screens.overlays import Question


async def test_a_key_requests_a_setting(tmp_path: Path) -> None:
    async with shown(starving(tmp_path)) as show:
        for keys, asked in (
            (["u"], []),  # nothing to undo
            (["underscore"], []),  # nothing is shallower than off
            (["g"], []),  # a CPU has no memory of its own
            (["p", "u"], [("prefetch", "off")]),
            (["p", "p"], [("prefetch", "off")]),
            (["p"], [("prefetch", "4")]),
            (["p"], [("prefetch", "off")]),
            (["w"], [("workers", "auto")]),
            (["plus"], [("prefetch", "1")]),
            (["equals_sign", "plus"], [("prefetch", "4")]),
            (["minus"], [("prefetch", "2")]),
        ):
            await show.press(*keys)
            assert show.asked() == asked, keys


async def test_u_undoes_the_last_switch(tmp_path: Path) -> None:
    async with shown(usual(tmp_path)) as show:
        await show.press("u")
        assert show.asked() == [("prefetch", "off")]


async def test_a_held_key_is_one_request(tmp_path: Path) -> None:
    async with shown(starving(tmp_path)) as show:
        for delay_s in (
            0.0,
            0.5,
            0.03,
            0.03,
        ):  # an even number: each for itself would turn it off again
            show.run.at_s += delay_s
            await show.pilot.press("p")
        assert show.asked() == [("prefetch", "4")]


async def test_a_request_shows_until_the_training_answers(tmp_path: Path) -> None:
    async with shown(starting(tmp_path)) as show:
        await show.press("1", "p")
        assert "requested: prefetch 4; takes effect with the first batch" in show.text
        assert "p prefetch off next: 4 requested, applies at start" in show.words
        show.run.started().steps(30, STARVING)
        show.run.switched("prefetch", "off", "4").steps(100, COMPUTE_BOUND).doing(
            Phase.COMPUTE, 0.001
        )
        await show.frame()
        assert "taken up" not in show.text
        assert "requested" not in show.text
        assert "p prefetch 4 off: 1.7 x slower" in show.words


async def test_w_asks_before_maps_draw_other_random_numbers() -> None:
    draws = "map(load) draws random numbers"
    asks = {"switchable": ["prefetch"], "workers_ask": True, "random_maps": draws}
    async with shown(starving(None, **asks)) as show:
        await show.press("w")
        assert isinstance(show.app.screen, Question)
        assert show.app.screen.question.startswith(f"{draws}. In parallel it draws others")
        await show.press("n")
        assert show.asked() == []
        await show.press("w", "y")
        assert show.asked() == [("workers", "auto")]


async def test_consent_that_comes_after_the_end_of_the_run_switches_nothing() -> None:
    asks = {"switchable": ["prefetch"], "workers_ask": True, "random_maps": "map(load) draws"}
    async with shown(starving(None, **asks)) as show:
        await show.press("w")
        show.run.ended()
        await show.frame()
        await show.press("y")
        assert show.app.screen is show.live
        assert (show.asked(), [*show.app._notifications]) == ([], [])


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_fits_of_one_step_offer_no_switch_and_say_why_nothing_is_steady(
    size: tuple[int, int],
) -> None:
    run = Canned(None, steps_per_epoch=1, epochs=1)
    for fit in range(1, 6):
        run.event(EpochStarted, epoch=fit - 1, epochs=fit, steps=1, fit=fit)
        run.steps(1, STARVING, int(Flag.EPOCH_START)).pass_s(1.0)
        run.epoch = fit
    async with shown(run, size) as show:
        await show.press("p", "f", "1")
        assert (show.asked(), show.tuner.jobs) == ([], [])
        assert "fits: 1 step" in show.text
        assert "no switch yet: each fit has one step" in show.words
        assert not {"p", "w", "f", "a"} & {one.key for one in show.live.keys.keys}


async def test_a_fixed_pipeline_explains_why_it_cannot_switch() -> None:
    fixed = {"workers": "the pipeline has no map"}
    async with shown(usual(None, switchable=["prefetch"], fixed=fixed)) as show:
        await show.press("1")
        assert "the pipeline has no map" in show.text
        await show.press("w")
        assert show.asked() == []


async def test_keys_in_quick_succession_reach_the_pane_of_the_first() -> None:
    knobs = {"prefetch": "off", "workers": "off"}
    async with shown(starving(None, knobs=knobs, switchable=[*knobs])) as show:
        show.live.action_pane(3)
        assert show.app.focused is show.live.events_pane


async def test_a_run_whose_limit_is_compute_is_profiled_once_though_nobody_asked(
    tmp_path: Path,
) -> None:
    run = usual(tmp_path).started().lasting(10.0, COMPUTE_BOUND)
    async with shown(run) as show:
        assert show.control
        assert show.control.profiles == []
        for _ in range(3):
            run.lasting(20.0, COMPUTE_BOUND)
            await show.frame()
        assert show.control.profiles == ["automatic"]
