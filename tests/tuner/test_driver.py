"""The tuner's view of a run, and how often it reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.tuner.simulated import Simulated
from tfwatch.core.events import RunEnded
from tfwatch.core.rows import Flag
from tfwatch.runs.control.requests import Autopilot
from tfwatch.tuner.driver import POLL_S, Driver, Interrupt

if TYPE_CHECKING:
    from tfwatch.runs.control.requests import TunerRequest


def test_the_steps_after_an_epochs_start_are_left_out_also_where_it_lies_before_the_first_one_asked_for() -> (
    None
):
    run = Simulated(lambda knobs, step: 20.0)
    run.flags = {8: Flag.EPOCH_START, 20: Flag.EPOCH_START}
    driver = run.driver(Autopilot())
    run.advance(30)
    driver.look()
    assert driver.settled_rows(10, 5)["step"].tolist() == [*range(13, 20), *range(25, 31)]


def test_what_takes_its_time_is_looked_at_seldom_until_it_is_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Simulated(lambda knobs, step: 1.0)
    pauses: list[float] = []

    def next_tuner_request(known: int, patience_s: float) -> tuple[int, TunerRequest | None]:
        pauses.append(patience_s)
        run.clock.at_s += patience_s
        return known, None

    monkeypatch.setattr(run.control, "next_tuner_request", next_tuner_request)
    driver = Driver(
        run.writer, run.control, run.writer.event, run.control.tuner_request_count, run.clock.clock
    )
    over_s = run.clock.at_s + 0.99
    driver.wait(lambda _: run.clock.at_s >= over_s, expected_s=1.0)
    assert pauses == pytest.approx([0.2] * 4 + [POLL_S] * 10)


def test_a_driver_keeps_no_sums_for_a_timeline_that_nobody_draws() -> None:
    run = Simulated(lambda knobs, step: 20.0)
    driver = run.driver(Autopilot())
    run.advance(30)

    snapshot = driver.look()

    assert (snapshot.steps_total, snapshot.pyramid.end_s, len(snapshot.epochs.rows)) == (30, 0.0, 0)


def test_a_job_cancelled_by_the_end_of_its_run_ended_with_the_run() -> None:
    run = Simulated(lambda knobs, step: 20.0)
    driver = run.driver(Autopilot())
    run.advance(30)
    driver.look()
    run.writer.event(RunEnded(driver.now_ns(), "finished", 30, ""))
    run.writer.flush()
    run.control.ask_tuner(None)

    with pytest.raises(Interrupt) as interrupted:
        driver.ask("prefetch", "4", "autopilot")
    assert interrupted.value.cause == "ended"


def test_a_job_cancelled_in_a_running_run_was_cancelled() -> None:
    run = Simulated(lambda knobs, step: 20.0)
    driver = run.driver(Autopilot())
    run.advance(30)
    driver.look()
    run.control.ask_tuner(None)

    with pytest.raises(Interrupt) as interrupted:
        driver.ask("prefetch", "4", "autopilot")
    assert interrupted.value.cause == "cancelled"
