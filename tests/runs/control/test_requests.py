"""Requests of the user and of the tuner."""

from __future__ import annotations

import threading

from tfwatch.runs.control.requests import Autopilot, Control, Experiment, Request


def test_the_last_request_for_a_knob_wins() -> None:
    control = Control()
    for request in (Request("prefetch", "2"), Request("workers", "auto"), Request("prefetch", "4")):
        control.ask(request)
    assert control.take() == [Request("workers", "auto"), Request("prefetch", "4")]
    assert not control.has_requests


def test_the_tuner_asks_only_without_a_user_request() -> None:
    control = Control()
    user_request_count = control.user_request_count
    assert control.ask_if_no_user_request(
        Request("prefetch", "4", "experiment"), user_request_count
    )
    assert control.user_request_count == user_request_count
    control.ask(Request("prefetch", "8"))
    assert not control.ask_if_no_user_request(
        Request("prefetch", "off", "experiment"), user_request_count
    )
    assert control.take() == [Request("prefetch", "8")]


def test_a_tuner_request_wakes_its_thread_and_none_cancels_it() -> None:
    control, got = Control(), []
    waiting = threading.Thread(target=lambda: got.append(control.next_tuner_request(0)))
    waiting.start()
    control.ask_tuner(Experiment("prefetch", ("off", "4")))
    waiting.join(10)
    assert got == [(1, Experiment("prefetch", ("off", "4")))]
    control.ask_tuner(None)
    assert control.next_tuner_request(1) == (2, None)
    assert control.tuner_request_count == 2


def test_waiting_for_a_tuner_request_times_out() -> None:
    control = Control()
    control.ask_tuner(Autopilot())
    assert control.next_tuner_request(1, 0.001) == (1, Autopilot())
