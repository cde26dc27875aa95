"""The tuner's view of a run, and how often it reads it."""

from __future__ import annotations

import pytest

from tests.tuner.simulated import Simulated
from tfwatch.core.events import Noted, RunEnded
from tfwatch.core.rows import Flag
from tfwatch.runs.requests import SwitchRequest
from tfwatch.tuner.driver import POLL_S, Interrupt


def test_the_steps_after_an_epochs_start_are_left_out_also_where_it_lies_before_the_first_one_asked_for() -> (  # noqa: E501
    None
):
    run = Simulated(lambda knobs, step: 20.0)
    run.flags = {8: Flag.EPOCH_START, 20: Flag.EPOCH_START}
    driver = run.driver()
    run.advance(30)
    driver.look()
    assert driver.settled_rows(10, 5)["step"].tolist() == [*range(13, 20), *range(25, 31)]


def test_what_takes_its_time_is_looked_at_seldom_until_it_is_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Simulated(lambda knobs, step: 1.0)
    pauses: list[float] = []

    def wait(patience_s: float) -> bool:
        pauses.append(patience_s)
        run.clock.at_s += patience_s
        return False

    monkeypatch.setattr(run.line.cancelled, "wait", wait)
    driver = run.line.driver(run.clock.clock, None)
    over_s = run.clock.at_s + 0.99
    driver.wait(lambda _: run.clock.at_s >= over_s, expected_s=1.0)
    assert pauses == pytest.approx([0.2] * 4 + [POLL_S] * 10)


def test_a_job_cancelled_by_the_end_of_its_run_ended_with_the_run() -> None:
    run = Simulated(lambda knobs, step: 20.0)
    driver = run.driver()
    run.advance(30)
    driver.look()
    run.writer.event(RunEnded(driver.now_ns(), "finished", 30, ""))
    run.writer.flush()
    run.line.cancelled.set()

    with pytest.raises(Interrupt) as interrupted:
        driver.ask("prefetch", "4", "autopilot")
    assert interrupted.value.cause == "ended"


def test_a_switch_of_the_user_ends_a_job_and_its_knob_is_left_alone() -> None:
    run = Simulated(lambda knobs, step: 20.0)
    driver = run.driver()
    run.advance(30)
    run.line.press("prefetch", "8")

    with pytest.raises(Interrupt) as interrupted:
        driver.ask("workers", "4", "autopilot")
    driver.ask_final("prefetch", "2", "autopilot")
    driver.ask_final("workers", "2", "autopilot")

    assert interrupted.value.cause == "key"
    assert [(one.knob, one.value) for one in run.control.take(30)] == [
        ("prefetch", "8"),
        ("workers", "2"),
    ]


def test_a_switch_of_the_user_between_the_tuners_look_and_its_line_has_precedence() -> None:
    run = Simulated(lambda knobs, step: 20.0)
    driver = run.driver()
    run.advance(30)
    driver.look()
    after = len(run.line.data)

    run.line.press("prefetch", "8")
    run.line.send(SwitchRequest("prefetch", "2", "autopilot", after=after))
    run.line.send(SwitchRequest("workers", "2", "autopilot", after=after))

    assert [(one.knob, one.value) for one in run.control.take(30)] == [
        ("prefetch", "8"),
        ("workers", "2"),
    ]
    notes = [event.text for event in run.events() if isinstance(event, Noted)]
    assert notes == ["prefetch 2 of the autopilot is not taken: the user switched it"]


def test_a_job_begins_once_the_training_has_taken_earlier_requests() -> None:
    run = Simulated(lambda knobs, step: 200.0)
    run.advance(10)
    run.line.press("prefetch", "8")
    driver = run.driver()
    run.control.take(10)

    assert driver.is_switching
    run.advance(4)
    driver.look()
    assert not driver.is_switching
