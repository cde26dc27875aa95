"""A profile for which nobody asked: when it is due, and what it costs."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.judge.profiles import PROFILE
from tests.screens.canned import COMPUTE_BOUND, STARVING, Canned, Split
from tfwatch.core import events as facts
from tfwatch.core.rows import Flag, Phase
from tfwatch.judge.profile.profiling import is_due
from tfwatch.judge.profile.step_parts import profile_of_run
from tfwatch.judge.view import Follower, RunView

#: A step of half a second.
LONG = (1.0, 498.0, 1.0)


def training(seconds: float, split: Split = COMPUTE_BOUND, **changes: Any) -> Canned:
    run = Canned(None, **changes).started().lasting(seconds, split)
    run.doing(Phase.COMPUTE, 0.0).writer.flush()
    return run


def view_of(run: Canned) -> RunView:
    return Follower(live=True).follow(run.reader().read(), (), None)


def test_a_run_is_profiled_once_compute_has_been_its_limit_for_a_while() -> None:
    run = training(13.0)
    assert not is_due(view_of(run))
    run.lasting(5.0, COMPUTE_BOUND).writer.flush()
    assert is_due(view_of(run))
    run.event(facts.StepProfiled, step=run.step, steps=0, step_ms=0.0, cost_ms=0.0, missing="no")
    run.writer.flush()
    assert not is_due(view_of(run))


@pytest.mark.parametrize(
    "changes", [{"op_by_op": True}, {"group": "ranks", "rank": 0}], ids=["op by op", "a rank"]
)
def test_what_a_profile_does_not_show_is_not_profiled(changes: dict[str, Any]) -> None:
    assert not is_due(view_of(training(60.0, **changes)))


def test_a_starving_run_is_not_profiled() -> None:
    assert not is_due(view_of(training(60.0, STARVING)))


def test_few_long_steps_are_profiled_once_that_costs_little_of_them() -> None:
    """A step of half a second costs up to 0.65 s to profile: 0.5 % of 130 s."""
    run = training(125.0, LONG)
    assert not is_due(view_of(run))
    run.lasting(10.0, LONG).writer.flush()
    assert is_due(view_of(run))


def test_a_gpu_is_profiled_after_a_minute() -> None:
    """Profiles of three models cost it up to 0.3 s in the mean: 0.5 % of a minute."""
    run = training(58.0, accelerated=True)
    assert not is_due(view_of(run))
    run.lasting(15.0, COMPUTE_BOUND).writer.flush()
    assert is_due(view_of(run))


def switches(run: Canned) -> None:
    run.switched("prefetch", "off", "4").steps(1, COMPUTE_BOUND, int(Flag.SWITCH))
    run.steps(100, COMPUTE_BOUND)


def asks(run: Canned) -> None:
    run.event(
        facts.SwitchAsked, knob="prefetch", old="off", new="4", step=run.step, by="key"
    ).steps(1, COMPUTE_BOUND)


def experiments(run: Canned) -> None:
    run.event(facts.ExperimentBegan, knob="prefetch", values=("off", "4"), step=run.step, budget=99)


@pytest.mark.parametrize("disturb", [switches, asks, experiments])
def test_nothing_else_is_measured_then(disturb: Callable[[Canned], None]) -> None:
    run = training(60.0)
    disturb(run)
    run.writer.flush()
    assert not is_due(view_of(run))


def test_a_training_that_stops_is_not_profiled() -> None:
    view = view_of(training(60.0))
    assert is_due(view)
    assert not is_due(replace(view, situation=replace(view.situation, stopping_s=1.0)))


def test_the_cost_is_that_of_the_slower_steps_too() -> None:
    """The profiler starts in the host part of a step; two more take 5 ms more, and another one 40
    ms while it is stopped. What slows the training down later is no part of it."""
    run = training(5.0)
    run.jitter = 0.0
    wait, compute, host = COMPUTE_BOUND
    run.steps(1, (wait, compute + 90.0, host + 2.0), int(Flag.PROFILED))
    for extra_ms in (5.0, 5.0, 40.0):
        run.steps(1, (wait, compute + extra_ms, host), int(Flag.PROFILED))
    step = run.step
    run.steps(100, COMPUTE_BOUND).steps(300, (wait, 2 * compute, host))
    values = {name: getattr(PROFILE, name) for name in ("steps", "step_ms", "cost_ms")}
    run.event(facts.StepProfiled, step=step, operations=PROFILE.operations, **values)
    run.writer.flush()
    profile = profile_of_run(run.reader().read())
    assert profile
    assert profile.cost_ms == pytest.approx(52.0, abs=2.0)
