"""The pilot's thread: what it makes of orders that cannot be carried out."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from tests.tuner.simulated import Simulated
from tfwatch.core.events import Noted
from tfwatch.runs.control.requests import Autopilot, Experiment, Request
from tfwatch.tuner import thread as module
from tfwatch.tuner.driver import Driver
from tfwatch.tuner.thread import TunerThread

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.core.events import Event
    from tfwatch.runs.control.requests import Control, TunerRequest


def told(
    order: TunerRequest,
    monkeypatch: pytest.MonkeyPatch,
    after: Callable[[Control], None] = lambda _: None,
) -> list[str]:
    """Return the notes of a tuner on a request. after: asks more before the first step."""
    run, noted = Simulated(lambda knobs, step: 20.0), threading.Event()
    append = run.writer.event

    def heard(event: Event) -> None:
        append(event)
        if isinstance(event, Noted):
            noted.set()

    monkeypatch.setattr(run.writer, "event", heard)
    pilot = TunerThread(run.writer, run.control, run.clock.clock)
    pilot.start()
    run.control.ask_tuner(order)
    after(run.control)
    assert noted.wait(30)
    pilot.stop()
    return [one.text for one in run.events() if isinstance(one, Noted)]


def test_what_is_refused_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    order = Experiment("prefetch", ("4", "4"))
    assert told(order, monkeypatch) == [
        "experiment ended: 4, 4 are not different settings of prefetch"
    ]


def test_a_pilot_that_breaks_says_so_and_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(driver: Driver, order: Experiment) -> None:
        raise ZeroDivisionError("a mistake of its own")

    monkeypatch.setitem(module._JOBS, Experiment, broken)
    failed = told(Experiment("prefetch", ("off", "4")), monkeypatch)
    assert failed == ["experiment failed: ZeroDivisionError: a mistake of its own"]


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        pytest.param(lambda control: control.stop.set(), "the training stops", id="a stop"),
        pytest.param(
            lambda control: control.ask(Request("prefetch", "4")), "a knob was switched", id="a key"
        ),
    ],
)
@pytest.mark.parametrize("order", [Experiment("prefetch", ("off", "4")), Autopilot()])
def test_what_is_over_before_its_first_step_is_told_and_is_no_end_of_an_earlier_one(
    order: TunerRequest, ask: Callable[[Control], None], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = threading.Event()
    check = Driver.check

    def checked(driver: Driver) -> None:
        looked.set()
        check(driver)

    monkeypatch.setattr(Driver, "check", checked)
    name = type(order).__name__.lower()

    def ask_once_seen(control: Control) -> None:
        assert looked.wait(30)
        ask(control)

    found = told(order, monkeypatch, ask_once_seen)
    assert found == [f"{name} ended before it began: {why}"]


def test_stopped_before_any_order_it_ends() -> None:
    run = Simulated(lambda knobs, step: 20.0)
    pilot = TunerThread(run.writer, run.control, run.clock.clock)
    pilot.start()
    pilot.stop()
    assert not pilot._thread.is_alive()
