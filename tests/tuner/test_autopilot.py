"""The autopilot beside trainings that are formulas."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from tests.judge.plants import Plant
from tests.tuner.trainings import Training, of_plant
from tfwatch.core.events import (
    AutopilotBegan,
    AutopilotEnded,
    MoveJudged,
    MoveMade,
    PipelineSwitched,
)
from tfwatch.core.knobs import KnobChange, Knobs
from tfwatch.judge.effects.switching_state import AUTOPILOT_EVENTS, autopilot_runs
from tfwatch.judge.effects.wording import autopilot_text
from tfwatch.tuner import autopilot
from tfwatch.tuner.autopilot import Autopilot
from tfwatch.tuner.search import BUDGET, AutopilotSearch

BOTH = (KnobChange("prefetch", "off", "4"), KnobChange("workers", "off", "4"))
GPU = Plant(data_ms=21, compute_ms=8)
GENERATOR = Plant(data_ms=13, compute_ms=1.5, serial=True)


def flown(
    plant: Plant,
    knobs: Knobs | None = None,
    each: Callable[[Training], None] | None = None,
    **manifest: Any,
) -> Training:
    """A training after the autopilot has ended, and so many steps more that all is in effect."""
    training = of_plant(plant, knobs, **manifest)
    Autopilot().run(training.driver(each and partial(each, training)))
    training.train(100)
    return training


@pytest.mark.parametrize(
    "plant", [GPU, GENERATOR, Plant(data_ms=3, storage_ms=40, compute_ms=10, cores=2)]
)
def test_it_feeds_the_device_and_tells_each_move_with_what_came(plant: Plant) -> None:
    training = flown(plant)
    (ended,), made, judged = (
        training.events(kind) for kind in (AutopilotEnded, MoveMade, MoveJudged)
    )
    assert plant.step_ms(training.settings[-1]) <= 1.05 * plant.best_ms(autopilot.SHARE * 2**33)
    assert {knob: training.settings[-1][knob] for knob in ended.knobs} == ended.knobs
    assert ended.steps <= BUDGET
    assert ended.after_ms == pytest.approx(plant.step_ms(ended.knobs), rel=0.05)
    assert ended.before_ms == pytest.approx(plant.step_ms(plant.worst), rel=0.05)
    assert [move.changes for move in made] == [move.changes for move in judged]


def test_the_gain_comes_with_the_interval_of_a_before_after() -> None:
    (ended,) = flown(GPU).events(AutopilotEnded)
    assert 1 < ended.low < ended.ratio < ended.high
    assert ended.low < ended.before_ms / ended.after_ms < ended.high


def test_a_gain_within_the_noise_is_not_claimed() -> None:
    (ended,) = flown(Plant(data_ms=8.9, compute_ms=8, noise=1.0), knobs=Knobs(prefetch="4")).events(
        AutopilotEnded
    )
    assert ended.ratio is None or ended.low < 1 < ended.high


def test_what_is_fed_already_is_left_as_it_is() -> None:
    training = flown(Plant(data_ms=0.05, compute_ms=12))
    assert training.events(AutopilotEnded)[0].cause == "not_starving"
    assert not training.events(MoveMade)
    assert not training.events(PipelineSwitched)


@pytest.mark.parametrize("random_draws", [False, True])
def test_maps_that_draw_random_numbers_run_in_parallel_by_consent(random_draws: bool) -> None:
    plant = Plant(data_ms=40, compute_ms=5, accelerated=True, cores=16)
    training = of_plant(plant, switchable=["prefetch"], workers_ask=True)
    Autopilot(random_draws).run(training.driver())
    training.train(100)
    assert (training.settings[-1]["workers"] != Knobs().workers) == random_draws
    assert (plant.step_ms(training.settings[-1]) < 10) == random_draws


def test_no_buffer_is_asked_for_that_the_limit_does_not_bear() -> None:
    plant = replace(GPU, batch_bytes=7e8)
    training = flown(plant)
    asked = [change for move in training.events(MoveMade) for change in move.changes]
    buffers = [one.new for one in asked if one.knob in ("prefetch", "workers")]
    assert all(int(value) <= 3 for value in buffers if value.isdigit())
    assert plant.step_ms(training.settings[-1]) < plant.step_ms(plant.worst)


def test_a_key_ends_it_and_what_the_key_asked_stays() -> None:
    def press(training: Training) -> None:
        if len(training.settings) == 91:
            training.line.press("prefetch", "7")

    training = flown(GPU, each=press)
    (ended,) = training.events(AutopilotEnded)
    assert ended.cause == "user"
    assert training.settings[-1]["prefetch"] == "7"


def test_told_to_stop_it_takes_back_what_it_has_not_judged() -> None:
    def cancel(training: Training) -> None:
        if len(training.settings) == 91:
            training.line.cancelled.set()

    training = flown(GPU, each=cancel)
    (ended,) = training.events(AutopilotEnded)
    assert (ended.cause, ended.reason) == ("user", "it was cancelled")
    assert len(training.events(MoveMade)) == 1
    assert {knob: training.settings[-1][knob] for knob in ended.knobs} == ended.knobs


def test_a_stop_of_the_training_ends_it() -> None:
    training = flown(GPU, each=lambda training: training.line.stop())
    assert training.events(AutopilotEnded)[0].cause == "over"


@pytest.mark.parametrize(
    ("last", "words"),
    [
        pytest.param(62, "prefetch off → 4, workers off → 4 until the end, not proved", id="early"),
        pytest.param(95, "kept prefetch off → 4, workers off → 4", id="enough steps"),
    ],
)
def test_what_is_in_effect_when_the_run_ends_is_judged_and_said(last: int, words: str) -> None:
    training = of_plant(GPU)
    training.last = last
    Autopilot().run(training.driver())
    assert training.settings[-1]["workers"] == "4"
    events = [one for kind in AUTOPILOT_EVENTS for one in training.events(kind)]
    assert f"{words}; the run has ended" in autopilot_text(autopilot_runs(events)[0])


@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        ({"switchable": ["prefetch"], "fixed": {"workers": "map writes"}}, "workers: map writes"),
        ({"workers_from_epoch": True}, "workers: they change with an epoch, by w or tfwatch set"),
    ],
)
def test_where_nothing_is_left_it_says_why_workers_were_left_alone(
    manifest: dict[str, Any], why: str
) -> None:
    (ended,) = flown(GPU, **manifest).events(AutopilotEnded)
    assert ended.reason == f"no other switch is left to try ({why})"


def in_epochs(epoch_steps: int) -> tuple[Training, AutopilotEnded]:
    """A training in short epochs after the autopilot, and its end."""
    training = of_plant(GPU, Knobs(prefetch="16"))
    training.epoch_steps, training.epoch_end_ms = epoch_steps, 28.0
    Autopilot().run(training.driver())
    training.train(100)
    (ended,) = training.events(AutopilotEnded)
    return training, ended


def test_in_epochs_in_which_no_step_settles_it_ends_soon() -> None:
    training, ended = in_epochs(15)
    assert ended.steps <= BUDGET
    assert ended.reason.startswith("fewer than 20 of 400 steps were steady")
    assert not training.events(MoveMade)


@pytest.mark.parametrize("epoch_steps", [23, 25, 30])
def test_in_epochs_in_which_few_steps_settle_it_finds_the_best_too(epoch_steps: int) -> None:
    training, ended = in_epochs(epoch_steps)
    assert ended.steps <= 5 * BUDGET
    assert GPU.step_ms(training.settings[-1]) <= 1.05 * GPU.best_ms(autopilot.SHARE * 2**33)


def test_in_epochs_in_which_hardly_a_step_settles_it_does_not_search_for_ever() -> None:
    _, ended = in_epochs(21)
    assert ended.steps <= 5 * BUDGET


def test_in_short_epochs_nothing_is_kept_that_lengthens_their_begin_by_more_than_it_gains() -> None:
    training = of_plant(GPU, Knobs(prefetch="16"))
    own, training.epoch_steps = training._row_of, 30

    def row_of(knobs: Knobs, step: int) -> Any:
        row = own(knobs, step)
        if (step - 1) % 30 == 0 and knobs != Knobs(prefetch="16"):
            row["wait_ms"] += 3000.0
        return row

    training._row_of = row_of
    Autopilot().run(training.driver())
    judged = training.events(MoveJudged)
    assert judged
    assert not any(one.kept for one in judged)
    assert "its epochs take longer to begin" in {one.reason for one in judged}


def test_in_short_epochs_it_begins_before_all_of_its_base_has_settled() -> None:
    training, _ = in_epochs(25)
    assert training.events(MoveMade)[0].step <= 200


def test_where_its_own_judging_breaks_the_open_move_is_taken_back_and_the_end_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("a mistake of its own")

    monkeypatch.setattr(AutopilotSearch, "judge", broken)
    training = flown(GPU)
    (ended,) = training.events(AutopilotEnded)
    assert (ended.cause, ended.reason) == ("failed", "ZeroDivisionError: a mistake of its own")
    assert len(training.events(MoveMade)) == 1
    assert any(knobs != training.settings[0] for knobs in training.settings)
    assert {knob: training.settings[-1][knob] for knob in ended.knobs} == ended.knobs


def test_of_two_knobs_one_of_which_cannot_be_had_the_other_is_taken_back() -> None:
    training = of_plant(GPU)
    training.refuses = {"workers": "no memory"}
    Autopilot().run(training.driver())
    training.train(100)
    first = training.events(MoveJudged)[0]
    assert (first.changes, first.kept, first.reason) == (BOTH, False, "no memory")
    (ended,) = training.events(AutopilotEnded)
    assert ended.cause != "failed"
    assert {knob: training.settings[-1][knob] for knob in ended.knobs} == ended.knobs


def test_what_cannot_be_switched_is_not_asked_for() -> None:
    training = flown(GPU, switchable=["prefetch"])
    asked = [change for move in training.events(MoveMade) for change in move.changes]
    assert {change.knob for change in asked} == {"prefetch"}


def test_what_a_key_asked_for_just_before_it_is_waited_for() -> None:
    """Else it takes the knob for what it was, asks for what it is already, and waits for ever."""

    def not_for_ever(training: Training) -> None:
        assert len(training.settings) < 1000

    training = of_plant(GPU)
    training.line.press("prefetch", "4")
    Autopilot().run(training.driver(partial(not_for_ever, training)))
    training.train(100)
    asked = [change for move in training.events(MoveMade) for change in move.changes]
    assert ("prefetch", "4") not in [(one.knob, one.new) for one in asked]
    (ended,) = training.events(AutopilotEnded)
    assert (ended.cause != "failed", ended.knobs["prefetch"]) == (True, "4")


def test_a_move_may_want_what_the_one_before_it_is_to_give_back() -> None:
    """Prefetch is taken back with workers and asked for alone: it never changes, and no switch of
    it is told."""

    def not_for_ever(training: Training) -> None:
        assert len(training.settings) < 1000

    plant = Plant(data_ms=20, compute_ms=8, cores=2, crowd_ms=5.0)
    training = flown(plant, each=not_for_ever, switchable=["prefetch", "workers"])
    tried = [(one.changes, one.kept) for one in training.events(MoveJudged)]
    assert tried[0] == (BOTH, False)
    assert (BOTH[:1], True) in tried
    assert training.events(AutopilotEnded)[0].steps <= BUDGET


@pytest.mark.parametrize(("build_steps", "pace"), [(0, 5), (15, 5), (60, 5), (0, 60), (15, 60)])
@pytest.mark.parametrize("step_ms", [1.0, 12.0])
def test_all_that_it_does_to_a_run_is_over_within_its_steps(
    build_steps: int, pace: int, step_ms: float
) -> None:
    """But for the steps until somebody looks, and until the last move is taken back."""
    late = pace + build_steps + 16
    plant = Plant(
        data_ms=1.2 * step_ms,
        compute_ms=step_ms,
        crowd_ms=0.2 * step_ms,
        bursts_ms=0.1 * step_ms,
        noise=0.1,
    )
    training = of_plant(plant)
    training.build_steps, training.pace = build_steps, pace
    Autopilot().run(training.driver())
    training.train(200)
    assert training.events(AutopilotEnded)[0].steps <= BUDGET + late
    assert (
        training.events(PipelineSwitched)[-1].step
        <= training.events(AutopilotBegan)[0].step + BUDGET + 2 * late
    )
