"""A/B tests of a simulated training: their answers, the settings they leave, and their ends."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.tuner.simulated import ODD_MS, Simulated
from tfwatch.core.events import (
    ExperimentBegan,
    ExperimentBlock,
    ExperimentEnded,
    PipelineSwitched,
    SwitchAsked,
)
from tfwatch.core.knobs import Knobs
from tfwatch.core.rows import Flag
from tfwatch.judge.effects.experiment import block_means
from tfwatch.tuner import experiment
from tfwatch.tuner.client import Interrupt, RefusedError
from tfwatch.tuner.experiment import Experiment

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from tfwatch.core.events import Event

OFF_4 = Experiment("prefetch", ("off", "4"), 600)


def noisy(
    ms_of: dict[str, float], spread: float = 0.02, seed: int = 1
) -> Callable[[Knobs, int], float]:
    """Step times by the setting of prefetch, with noise of their own for each step."""
    rng = np.random.default_rng(seed)
    factors = np.exp(rng.normal(0, spread, 5000))
    return lambda knobs, step: float(ms_of[knobs.prefetch] * factors[step])


def end_of(run: Simulated) -> ExperimentEnded:
    (ended,) = (event for event in run.events() if isinstance(event, ExperimentEnded))
    return ended


def evaluate(events: list[Event]) -> str:
    return [event.new for event in events if isinstance(event, PipelineSwitched)][-1]


def test_the_faster_setting_is_found_and_left() -> None:
    run = Simulated(noisy({"off": 23.4, "4": 13.9}))
    OFF_4.run(run.driver())
    run.advance(20)
    ended, events = end_of(run), run.events()
    assert (ended.cause, ended.answer, ended.kept) == ("clear", "faster", "4")
    assert ended.ratio == pytest.approx(23.4 / 13.9, rel=0.03)
    assert ended.low is not None
    assert ended.high is not None
    assert ended.low < 23.4 / 13.9 < ended.high
    assert ended.step_ms == pytest.approx({"off": 23.4, "4": 13.9}, rel=0.03)
    assert evaluate(events) == "4"
    (began,) = (event for event in events if isinstance(event, ExperimentBegan))
    assert (began.values, began.budget) == (("off", "4"), 600)
    assert ended.step - ended.began < 300


def test_steps_that_are_buffered_or_settle_count_on_neither_side() -> None:
    run = Simulated(lambda knobs, step: {"off": 23.0, "4": 14.0}[knobs.prefetch])
    OFF_4.run(run.driver())
    blocks = [event for event in run.events() if isinstance(event, ExperimentBlock)]
    assert ODD_MS > 23
    assert {(block.value, round(block.step_ms, 6)) for block in blocks} == {
        ("off", 23.0),
        ("4", 14.0),
    }
    assert all(block.steps >= experiment.BLOCK for block in blocks)


def test_where_nothing_differs_it_says_so_and_the_knob_stays() -> None:
    run = Simulated(noisy({"off": 20.0, "4": 20.0}), knobs=Knobs(prefetch="4"))
    OFF_4.run(run.driver())
    run.advance(20)
    ended = end_of(run)
    assert (ended.cause, ended.answer, ended.kept) == ("clear", "same", "4")
    assert evaluate(run.events()) == "4"


def test_noise_spends_the_budget_and_is_no_answer() -> None:
    run = Simulated(noisy({"off": 20.0, "4": 20.2}, spread=0.6))
    OFF_4.run(run.driver())
    ended = end_of(run)
    assert (ended.cause, ended.answer, ended.kept) == ("budget", "unclear", "off")
    assert 600 <= ended.step - ended.began < 650
    assert ended.low is not None
    assert ended.low < 1


def test_the_order_of_blocks_is_drawn_from_the_seed() -> None:
    def order_of(seed: int) -> list[str]:
        order = Experiment("prefetch", ("off", "4"), 600, seed)
        run = Simulated(noisy({"off": 20.0, "4": 20.0}))
        order.run(run.driver())
        return [event.value for event in run.events() if isinstance(event, ExperimentBlock)]

    first = order_of(1)
    assert first == order_of(1)
    assert first != order_of(2)
    assert all({*pair} == {"off", "4"} for pair in zip(first[::2], first[1::2], strict=True))


def test_epochs_stalls_and_validations_within_blocks_spoil_nothing() -> None:
    flagged = {at: Flag.EPOCH_START if at % 2 else Flag.VALIDATION for at in range(37, 4000, 30)}

    def step_ms(knobs: Knobs, step: int) -> float:
        return 4000.0 if step in flagged or step % 171 == 0 else usual(knobs, step)

    usual = noisy({"off": 21.0, "4": 20.0}, spread=0.01)
    run = Simulated(step_ms)
    run.flags = flagged
    OFF_4.run(run.driver())
    ended = end_of(run)
    assert ended.answer == "faster"
    assert ended.ratio == pytest.approx(1.05, abs=0.01)


def test_a_key_pressed_meanwhile_ends_it_and_stands() -> None:
    run = Simulated(
        noisy({"off": 20.0, "4": 19.0, "8": 15.0}),
        before_step=lambda step: run.line.press("prefetch", "8") if step == 60 else None,
    )
    OFF_4.run(run.driver())
    run.advance(40)
    ended, events = end_of(run), run.events()
    assert (ended.cause, ended.kept) == ("key", "")
    assert evaluate(events) == "8"
    assert [event.by for event in events if isinstance(event, SwitchAsked)][-1] == "key"


def test_a_key_of_another_knob_ends_it_and_what_stood_before_comes_back() -> None:
    """Else the run would go on with whichever setting was being tried."""
    turned: list[int] = []

    def press(step: int) -> None:
        if step >= 60 and not turned and run.control.knobs.prefetch == "4":
            turned.append(step)
            run.line.press("workers", "2")

    run = Simulated(noisy({"off": 20.0, "4": 20.0}, spread=0.2), before_step=press)
    OFF_4.run(run.driver())
    run.advance(40)
    assert (end_of(run).cause, end_of(run).kept) == ("key", "off")
    assert (run.control.knobs.prefetch, run.control.knobs.workers) == ("off", "2")


def test_a_setting_that_is_on_its_way_when_it_is_ended_is_taken_back() -> None:
    """Else it comes all the same, and the run goes on with what was only to be tried."""
    turned: list[int] = []

    def press(step: int) -> None:
        asked = [event for event in run.events() if isinstance(event, SwitchAsked)]
        made = [event for event in run.events() if isinstance(event, PipelineSwitched)]
        if step >= 60 and not turned and len(asked) > len(made) and asked[-1].new == "4":
            turned.append(step)
            run.line.cancelled.set()

    run = Simulated(noisy({"off": 20.0, "4": 20.0}, spread=0.2), before_step=press)
    step = functools.partial(run.advance, 1)
    OFF_4.run(run.line.driver(run.clock.clock, step))
    run.advance(40)
    assert turned
    assert (end_of(run).cause, end_of(run).kept) == ("cancelled", "off")
    assert evaluate(run.events()) == run.control.knobs.prefetch == "off"


@pytest.mark.parametrize(("end", "cause"), [("stop", "stopped"), ("order", "cancelled")])
def test_it_can_be_ended(end: str, cause: str) -> None:
    def meddle(step: int) -> None:
        if step == 60:
            run.line.stop() if end == "stop" else run.line.cancelled.set()

    run = Simulated(noisy({"off": 20.0, "4": 20.0}, spread=0.2), before_step=meddle)
    OFF_4.run(run.driver())
    run.advance(20)
    ended = end_of(run)
    assert (ended.cause, ended.answer) == (cause, "unclear")
    if end == "order":
        assert ended.kept == evaluate(run.events()) == "off"


def test_a_run_that_ends_before_it_begins_has_no_experiment() -> None:
    run = Simulated(noisy({"off": 20.0, "4": 20.0}), steps=5)
    with pytest.raises(Interrupt, match="ended"):
        OFF_4.run(run.driver())
    assert not [
        event for event in run.events() if isinstance(event, ExperimentBegan | ExperimentEnded)
    ]


def test_a_setting_that_cannot_be_had_ends_it() -> None:
    run = Simulated(noisy({"off": 20.0, "4": 20.0}), refuses="ResourceExhaustedError: no memory")
    OFF_4.run(run.driver())
    ended = end_of(run)
    assert (ended.cause, ended.reason, ended.kept) == (
        "failed",
        "ResourceExhaustedError: no memory",
        "off",
    )


def test_where_its_own_reckoning_breaks_the_knob_is_put_right_and_the_end_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(times: list[list[NDArray[np.float64]]]) -> NDArray[np.float64]:
        if len(times[0]) > 3 and run.control.knobs.prefetch == "4":
            raise ZeroDivisionError("a mistake of its own")
        return block_means(times)

    run = Simulated(noisy({"off": 20.0, "4": 20.0}, spread=0.2))
    monkeypatch.setattr(experiment, "block_means", broken)
    OFF_4.run(run.driver())
    run.advance(40)
    ended = end_of(run)
    assert (ended.cause, ended.answer, ended.kept) == ("failed", "unclear", "off")
    assert ended.reason == "ZeroDivisionError: a mistake of its own"
    assert evaluate(run.events()) == "off"


def test_where_it_is_the_commands_only_purpose_the_training_ends_with_it() -> None:
    order = Experiment("prefetch", ("off", "4"), 600, ends=True)
    run = Simulated(noisy({"off": 20.0, "4": 10.0}))
    order.run(run.driver())
    assert run.control.stop.is_set()
    assert not run.control.was_stopped


def test_it_ends_too_where_the_experiment_cannot_begin() -> None:
    """Else `tfwatch ab` would train on without an end."""
    order = Experiment("prefetch", ("4", "4"), 600, ends=True)
    run = Simulated(noisy({"off": 20.0, "4": 10.0}))
    with pytest.raises(RefusedError):
        order.run(run.driver())
    assert run.control.was_stopped


def test_a_knob_that_the_device_brings_is_awaited() -> None:
    """A prefetch to the device is switchable only once TensorFlow has found one: the test is asked
    for before."""
    order = Experiment("device_prefetch", ("off", "2"), 600)
    run = Simulated(noisy({"off": 20.0, "4": 10.0}))
    driver = run.driver()
    knobs = {**run.writer.manifest().knobs, "device_prefetch": "off"}
    run.writer.describe(knobs=knobs, switchable=["prefetch", "device_prefetch"])
    run.advance(60)  # a reader looks at the manifest once a second
    order.run(driver)
    (ended,) = (event for event in run.events() if isinstance(event, ExperimentEnded))
    assert ended.knob == "device_prefetch"
    assert ended.rounds > 0


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        (
            Experiment("device_prefetch", ("off", "2")),
            "device prefetch cannot be switched in this run",
        ),
        (Experiment("prefetch", ("4", "4")), "compares two settings: prefetch is 4 now"),
    ],
)
def test_what_cannot_be_tried_is_refused(order: Experiment, reason: str) -> None:
    run = Simulated(noisy({"off": 20.0, "4": 10.0}))
    with pytest.raises(RefusedError, match=reason):
        order.run(run.driver())


@pytest.mark.parametrize(("steps", "count"), [(None, 167), (600, experiment.BLOCK)])
def test_of_fast_steps_a_block_has_so_many_that_switching_is_a_small_part_of_it(
    steps: int | None, count: int
) -> None:
    """A budget that is too short for that is shared out among rounds enough for an answer."""
    order = Experiment("prefetch", ("off", "16"), steps)
    run = Simulated(noisy({"off": 2.4, "16": 3.4}))
    order.run(run.driver())
    blocks = [event.steps for event in run.events() if isinstance(event, ExperimentBlock)]
    assert count - 8 <= min(blocks) < count + 12
