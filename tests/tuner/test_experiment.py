"""A/B tests of a simulated training: their answers, the settings they leave, and their ends."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.tuner.trainings import ODD_MS, Training, timed
from tfwatch.core.events import (
    ExperimentBegan,
    ExperimentBlock,
    ExperimentEnded,
    PipelineSwitched,
    SwitchAsked,
)
from tfwatch.core.knobs import Knobs
from tfwatch.core.rows import Flag
from tfwatch.tuner import experiment
from tfwatch.tuner.client import Interrupt, RefusedError
from tfwatch.tuner.experiment import Experiment, block_means

OFF_4 = Experiment("prefetch", ("off", "4"), 600)


def noisy(ms_of: dict[str, float], spread: float = 0.02, knobs: Knobs | None = None) -> Training:
    """Step times by the setting of prefetch, with noise of their own for each step."""
    factors = np.exp(np.random.default_rng(1).normal(0, spread, 5000))
    return timed(lambda knobs, step: float(ms_of[knobs.prefetch] * factors[step]), knobs)


def ended_of(run: Training, order: Experiment = OFF_4) -> ExperimentEnded:
    """Return the end of an A/B test of a training, which trains on a little."""
    order.run(run.driver())
    run.train(40)
    (ended,) = run.events(ExperimentEnded)
    assert isinstance(ended, ExperimentEnded)
    return ended


EQUAL = {"off": 20.0, "4": 20.0, "8": 15.0}


def test_the_faster_setting_is_found_and_left() -> None:
    run = noisy({"off": 23.4, "4": 13.9})
    ended = ended_of(run)
    assert (ended.cause, ended.answer, ended.kept) == ("clear", "faster", "4")
    assert ended.ratio == pytest.approx(23.4 / 13.9, rel=0.03)
    assert ended.low is not None
    assert ended.high is not None
    assert ended.low < 23.4 / 13.9 < ended.high
    assert ended.step_ms == pytest.approx({"off": 23.4, "4": 13.9}, rel=0.03)
    assert run.control.knobs.prefetch == "4"
    (began,) = run.events(ExperimentBegan)
    assert (began.values, began.budget) == (("off", "4"), 600)
    assert ended.step - ended.began < 300


def test_steps_that_are_buffered_or_settle_count_on_neither_side() -> None:
    run = timed(lambda knobs, step: {"off": 23.0, "4": 14.0}[knobs.prefetch])
    ended_of(run)
    blocks = run.events(ExperimentBlock)
    assert ODD_MS > 23
    found = {(block.value, round(block.step_ms, 4)) for block in blocks}
    assert found == {("off", 23.0), ("4", 14.0)}
    assert all(block.steps >= experiment.BLOCK for block in blocks)


@pytest.mark.parametrize(
    ("ms_of", "spread", "ends"),
    [
        pytest.param(EQUAL, 0.02, ("clear", "same", "4"), id="nothing differs"),
        pytest.param({"off": 20.2, "4": 20.0}, 0.6, ("budget", "unclear", "4"), id="noise"),
    ],
)
def test_without_a_difference_the_setting_stays(
    ms_of: dict[str, float], spread: float, ends: tuple[str, str, str]
) -> None:
    run = noisy(ms_of, spread, Knobs(prefetch="4"))
    ended = ended_of(run)
    assert (ended.cause, ended.answer, ended.kept) == ends
    assert ended.step - ended.began < 650
    assert run.control.knobs.prefetch == "4"


def test_the_order_of_blocks_is_drawn_from_the_seed() -> None:
    def order_of(seed: int) -> list[str]:
        run = noisy(EQUAL)
        ended_of(run, Experiment("prefetch", ("off", "4"), 600, seed))
        return [event.value for event in run.events(ExperimentBlock)]

    first = order_of(1)
    assert first == order_of(1)
    assert first != order_of(2)
    assert all({*pair} == {"off", "4"} for pair in zip(first[::2], first[1::2], strict=True))


def test_epochs_stalls_and_validations_within_blocks_spoil_nothing() -> None:
    flagged = {at: Flag.EPOCH_START if at % 2 else Flag.VALIDATION for at in range(37, 4000, 30)}
    factors = np.exp(np.random.default_rng(1).normal(0, 0.01, 5000))

    def step_ms(knobs: Knobs, step: int) -> float:
        is_slow = step in flagged or step % 171 == 0
        return 4000.0 if is_slow else {"off": 21.0, "4": 20.0}[knobs.prefetch] * factors[step]

    run = timed(step_ms)
    run.flags = flagged
    ended = ended_of(run)
    assert ended.answer == "faster"
    assert ended.ratio == pytest.approx(1.05, abs=0.01)


def while_four_is_asked(run: Training, do: Callable[[], object]) -> Callable[[int], None]:
    """Return what does something once, while a request for prefetch 4 is not in effect."""
    done: list[int] = []

    def before_step(step: int) -> None:
        asked, made = run.events(SwitchAsked), run.events(PipelineSwitched)
        if step >= 60 and not done and len(asked) > len(made) and asked[-1].new == "4":
            done.append(step)
            do()

    return before_step


@pytest.mark.parametrize(
    ("do", "cause", "kept", "prefetch"),
    [
        pytest.param(lambda run: run.line.press("prefetch", "8"), "key", "", "8", id="its key"),
        pytest.param(
            lambda run: run.line.press("workers", "2"), "key", "off", "off", id="another key"
        ),
        pytest.param(
            lambda run: run.line.cancelled.set(), "cancelled", "off", "off", id="cancelled"
        ),
        pytest.param(lambda run: run.line.stop(), "stopped", "off", None, id="a stop"),
    ],
)
def test_it_can_be_ended_and_leaves_the_knob_as_it_was_or_as_the_user_asked(
    do: Callable[[Training], object], cause: str, kept: str, prefetch: str | None
) -> None:
    """Also where the other setting is on its way: else the run would go on with what was only to be
    tried."""
    run = noisy(EQUAL, spread=0.2)
    run.build_steps, run.pace = 3, 1
    run.before_step = while_four_is_asked(run, lambda: do(run))
    ended = ended_of(run)
    assert (ended.cause, ended.kept) == (cause, kept)
    assert prefetch in (None, run.control.knobs.prefetch)


def test_a_run_that_ends_before_it_begins_has_no_experiment() -> None:
    run = noisy(EQUAL)
    run.last = 5
    with pytest.raises(Interrupt, match="ended"):
        OFF_4.run(run.driver())
    assert not run.events(ExperimentBegan)


def test_a_setting_that_cannot_be_had_ends_it() -> None:
    run = noisy(EQUAL)
    run.refuses = {"prefetch": "ResourceExhaustedError: no memory"}
    ended = ended_of(run)
    assert (ended.cause, ended.kept) == ("failed", "off")
    assert ended.reason == "ResourceExhaustedError: no memory"


def test_where_its_own_reckoning_breaks_the_knob_is_put_right_and_the_end_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(times: list[list[NDArray[np.float64]]]) -> NDArray[np.float64]:
        if len(times[0]) > 3 and run.control.knobs.prefetch == "4":
            raise ZeroDivisionError("a mistake of its own")
        return block_means(times)

    run = noisy(EQUAL, spread=0.2)
    monkeypatch.setattr(experiment, "block_means", broken)
    ended = ended_of(run)
    assert (ended.cause, ended.answer, ended.kept) == ("failed", "unclear", "off")
    assert ended.reason == "ZeroDivisionError: a mistake of its own"
    assert run.control.knobs.prefetch == "off"


@pytest.mark.parametrize(("values", "was_stopped"), [(("off", "8"), False), (("4", "4"), True)])
def test_where_it_is_the_commands_only_purpose_the_training_ends_with_it(
    values: tuple[str, str], was_stopped: bool
) -> None:
    """Also where it cannot begin: else `tfwatch ab` would train on without an end."""
    run = noisy(EQUAL)
    order = Experiment("prefetch", values, 600, ends=True)
    if was_stopped:
        with pytest.raises(RefusedError, match="compares two settings: prefetch is 4 now"):
            order.run(run.driver())
    else:
        order.run(run.driver())
    assert (run.control.stop.is_set(), run.control.was_stopped) == (True, was_stopped)


def test_a_knob_that_the_device_brings_is_awaited() -> None:
    """A prefetch to the device is switchable only once TensorFlow has found one: the test is asked
    for before."""
    order = Experiment("device_prefetch", ("off", "2"), 600)
    run = noisy(EQUAL)
    with pytest.raises(RefusedError, match="device prefetch cannot be switched in this run"):
        order.run(run.driver())
    driver = run.driver()
    knobs = {**run.writer.manifest().knobs, "device_prefetch": "off"}
    run.writer.describe(knobs=knobs, switchable=["prefetch", "device_prefetch"])
    run.train(60)  # a reader looks at the manifest once a second
    order.run(driver)
    (ended,) = run.events(ExperimentEnded)
    assert ended.rounds > 0


@pytest.mark.parametrize(("steps", "count"), [(None, 167), (600, experiment.BLOCK)])
def test_of_fast_steps_a_block_has_so_many_that_switching_is_a_small_part_of_it(
    steps: int | None, count: int
) -> None:
    """A budget that is too short for that is shared out among rounds enough for an answer."""
    run = timed(lambda knobs, step: {"off": 2.4, "4": 3.4}[knobs.prefetch])
    ended_of(run, Experiment("prefetch", ("off", "4"), steps))
    blocks = [event.steps for event in run.events(ExperimentBlock)]
    assert count - 8 <= min(blocks) < count + 14
