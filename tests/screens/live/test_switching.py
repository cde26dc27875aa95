"""The live screen with canned runs: the requests that its keys send."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.screens.canned import COMPUTE_BOUND, STARVING, Canned, usual
from tests.screens.showing import shown
from tests.screens.states import importing, starving
from tfwatch.core.rows import Phase

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_key_requests_a_setting(tmp_path: Path) -> None:
    async with shown(starving(tmp_path)) as show:
        for keys, asked in (
            (["u"], []),  # nothing to undo
            (["underscore"], []),  # nothing is shallower than off
            (["l"], []),  # no latency was asked for
            (["t"], []),  # a pipeline of one form
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


async def test_enter_on_a_stage_switches_its_parallel_calls_alone(tmp_path: Path) -> None:
    stages = ["map(decode)", "map(augment)"]
    async with shown(starving(tmp_path, parallel_stages=stages), size=(120, 40)) as show:
        assert "map(augment)" in show.text
        await show.press("1", "down", "down", "down", "down", "enter")
        assert show.asked() == [("workers", "off/auto")]
        assert "workers off next: off/auto requested" in show.words


async def test_what_orders_the_elements_has_its_reason_beside_it(tmp_path: Path) -> None:
    why = "buffer_size of shuffle(50) sets the order of training"
    fixed = {
        "shuffle": why,
        "cycle_length": why.replace("buffer_size", "cycle_length").replace("shuffle", "interleave"),
    }
    run = starving(tmp_path, knobs={"prefetch": "default", "workers": "off"}, fixed=fixed)
    async with shown(run, size=(160, 50)) as show:
        assert f"b shuffle {why}" in show.words
        assert (
            "cycle length cycle_length of interleave(50) sets the order of training" in show.words
        )
        await show.press("b")
        assert [note.message for note in show.app._notifications] == [
            f"shuffle: as the script has it: {why}"
        ]
        assert show.asked() == []


async def test_u_undoes_the_last_switch(tmp_path: Path) -> None:
    async with shown(usual(tmp_path)) as show:
        assert "u undo: prefetch back to off" in show.text
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
    async with shown(importing(tmp_path)) as show:
        await show.press("p")
        assert "requested: prefetch 4; takes effect with the first batch" in show.text
        assert "p prefetch off next: 4 requested, applies at start" in show.words
        show.run.started().steps(30, STARVING)
        show.run.switched("prefetch", "off", "4").steps(100, COMPUTE_BOUND).doing(
            Phase.COMPUTE, 0.001
        )
        await show.frame()
        assert "taken up" not in show.text
        assert "requested" not in show.text
        assert "p prefetch 4 next: off" in show.words


@pytest.mark.parametrize(
    ("keys", "undoes"),
    [
        pytest.param(["p", "w"], "p", id="a knob's own key"),
        pytest.param(["t", "p"], "t", id="the form's"),
        pytest.param(["plus", "p"], "u", id="a depth has none"),
    ],
)
async def test_the_first_switch_shows_its_undo_key(keys: list[str], undoes: str) -> None:
    knobs = {"prefetch": "off", "workers": "off", "fast_pipeline": "off"}
    run = Canned(None, knobs=knobs, switchable=[*knobs], settings={"fast_pipeline": "tf.data"})
    async with shown(run.started().steps(150, STARVING).doing(Phase.COMPUTE, 0.001)) as show:
        await show.press(*keys)
        assert [note.message for note in show.app._notifications] == [
            f"{undoes} undoes the switch, space freezes the charts"
        ]


async def test_latency_is_a_knob_only_where_the_run_started_with_it() -> None:
    run = usual(
        None,
        settings={"storage_latency_ms": 20.0},
        knobs={"prefetch": "off", "workers": "off", "latency_ms": "20 ms"},
    )
    async with shown(run) as show:
        assert "l latency 20 ms next: off" in show.words
        await show.press("l", "l")
        assert show.asked() == [("latency_ms", "20 ms")]


async def test_a_fast_pipeline_is_switched_and_named() -> None:
    knobs = {"prefetch": "off", "workers": "off", "fast_pipeline": "off"}
    run = Canned(None, knobs=knobs, switchable=[*knobs], settings={"fast_pipeline": "tf.data"})
    run.started().steps(150, (40.0, 13.0, 0.8)).doing(Phase.COMPUTE, 0.001)
    async with shown(run) as show:
        assert "t fast pipeline (tf.data) on: " in show.text
        assert "t fast pipeline off next: on 18.0 ms 3.0 x, tf.data" in show.words
        assert "t fast" in show.rows[-1]
        await show.press("t")
        assert show.asked() == [("fast_pipeline", "on")]
        run.switched("fast_pipeline", "off", "on").steps(100, COMPUTE_BOUND).doing(
            Phase.COMPUTE, 0.001
        )
        await show.frame()
        assert "u undo: fast pipeline back to off" in show.text
        assert "t fast pipeline on next: off" in show.words
        assert "fast pipeline (tf.data) off → on at step" in show.text
        await show.press("u")
        assert show.asked() == [("fast_pipeline", "off")]


async def test_a_fixed_pipeline_explains_why_it_cannot_switch() -> None:
    async with shown(usual(None, switchable=["prefetch"])) as show:
        assert "fixed in this run's own pipeline" in show.text
        await show.press("w")
        assert show.asked() == []


async def test_keys_in_quick_succession_reach_the_pane_of_the_first() -> None:
    knobs = {"prefetch": "off", "workers": "off"}
    async with shown(starving(None, knobs=knobs, switchable=[*knobs])) as show:
        show.live.action_pane(1)
        assert show.app.focused is show.live.knobs
