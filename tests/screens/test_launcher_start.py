"""The launcher: start knobs are changed and typed, and a user's script is run."""

from __future__ import annotations

from tests.screens.launching import BATCH, launcher, offer, text
from tests.screens.showing import rows_of
from tfwatch.core.start_knobs import Constraint, StartKnob, Value
from tfwatch.screens.basics.keyline import KeyLine
from tfwatch.screens.launcher_lists import Trainable

MODE = StartKnob(
    "mode",
    (
        Value("graph"),
        Value("jit", ("--jit",), (Constraint("no XLA on Metal", where=("device", ("auto",))),)),
    ),
    0,
    "of a step",
)
DEVICE = StartKnob("device", (Value("auto"), Value("cpu", ("--device", "cpu"))), 0, "what computes")
CALLS = StartKnob(
    "steps per call", (Value("1"), Value("2", ("--spe", "2"))), 0, "fused", refused="op by op only"
)
HALF = StartKnob(
    "precision",
    (Value("float32"), Value("mixed", ("--mixed",), (Constraint("slow", is_blocking=False),))),
    0,
    "of it",
)
GREYED = (Trainable("cnn", "starves", (DEVICE, MODE, CALLS, HALF)),)


async def test_an_invalid_value_shows_its_reason_and_is_not_selected() -> None:
    async with launcher(offer(GREYED), (120, 40)) as (app, pilot):
        assert "mode             graph            jit: no XLA on Metal" in text(app)
        assert "steps per call   1                op by op only" in text(app)
        assert "precision      < float32 >        mixed: slow" in text(app)
        await pilot.press("right", "down", "right", "down", "right", "down", "right")
        await pilot.pause()
        assert "tfwatch train cnn --mixed" in rows_of(app.screen)[-2]
        assert "precision      < mixed >          slow" in text(app)


async def test_a_key_without_effect_explains_why() -> None:
    async with launcher(offer(GREYED)) as (app, pilot):
        await pilot.press("right")
        for keys, message in (
            (["left"], "device: no value beyond auto"),
            (["e"], "device: cannot be typed, < and > change it"),
            (["down", "right"], "mode: no value beyond graph"),
            (["down", "right"], "steps per call: op by op only"),
            (["e"], "steps per call: op by op only"),
            (["ctrl+z"], "ctrl+z is disabled: q quits"),
        ):
            app.clear_notifications()
            await pilot.press(*keys)
            await pilot.pause()
            assert [note.message for note in app._notifications] == [message]


async def test_the_keys_are_listed_with_those_that_the_last_line_has_no_room_for() -> None:
    async with launcher(offer(GREYED), (60, 18)) as (app, pilot):
        await pilot.press("right", "question_mark")
        await pilot.pause()
        listed = text(app)
        assert "search all commands" in listed
        for key in app.screen_stack[-2].query_one(KeyLine).keys:
            assert f"{key.label:<13}{key.word}" in listed
        await pilot.press("question_mark")
        await pilot.pause()
        assert "search all commands" not in text(app)


async def test_an_invalid_value_is_skipped_both_ways() -> None:
    values = (
        Value("graph"),
        Value("jit", ("--jit",), (Constraint("no XLA here"),)),
        Value("eager", ("--eager",)),
    )
    knob = StartKnob("mode", values, 0, "of a step")
    async with launcher(offer((Trainable("cnn", "starves", (knob,)),))) as (app, pilot):
        await pilot.press("right", "right")
        await pilot.pause()
        assert "mode          < eager >" in text(app)
        await pilot.press("left")
        await pilot.pause()
        assert "mode          < graph >" in text(app)


async def test_a_value_made_invalid_by_another_shows_its_reason_in_place_of_the_command() -> None:
    async with launcher(offer(GREYED)) as (app, pilot):
        await pilot.press("right", "right", "down", "right")
        await pilot.pause()
        assert "tfwatch train cnn --device cpu --jit" in rows_of(app.screen)[-2]
        await pilot.press("up", "left", "enter")
        await pilot.pause()
        assert "mode jit: no XLA on Metal" in rows_of(app.screen)[-2]
        assert app.is_running
        await pilot.press("down", "left", "enter")
    assert app.words == ("train", "cnn")


async def test_a_value_is_typed() -> None:
    def read(typed: str) -> Value:
        if not typed.isdigit():
            raise ValueError(f"{typed!r} is no number")
        return Value(typed, ("--seed", typed))

    seed = StartKnob("seed", (Value("none"), Value("1", ("--seed", "1"))), 0, "of it", read=read)
    async with launcher(offer((Trainable("cnn", "starves", (seed, BATCH)),))) as (app, pilot):
        await pilot.press("right", "e", "x", "enter")
        await pilot.pause()
        assert "'x' is no number" in text(app)
        await pilot.press("backspace", "7", "enter")
        await pilot.pause()
        assert "tfwatch train cnn --seed 7" in rows_of(app.screen)[-2]
        await pilot.press("e", "8", "escape", "down", "e")
        await pilot.pause()
        assert "seed          < 7 >" in text(app)
        await pilot.press("up", "left", "left", "enter")
    assert app.words == ("train", "cnn")


async def test_a_users_script_is_typed_and_run() -> None:
    async with launcher() as (app, pilot):
        await pilot.press("end", "enter", *"no", "enter")
        await pilot.pause()
        assert "no cannot be run [red]" in text(app)
        await pilot.press(*".py", "enter")
    assert app.words == ("run", "no.py")


async def test_the_script_is_asked_for_from_its_empty_knobs_too_and_escape_takes_it_back() -> None:
    async with launcher() as (app, pilot):
        await pilot.press("end", "right", "enter", "escape")
        await pilot.pause()
        assert not app.words
        assert "enter choose script" in text(app)
        await pilot.press("enter", *"no.py", "enter")
    assert app.words == ("run", "no.py")
