"""Requests within the process that trains, and how its writer takes them from the run folder."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from msgspec.structs import replace

from tests.runs.folders import FakeClock, make_manifest, reader_of
from tests.runs.processes import wait_until
from tests.runs.requested import planned, switch
from tfwatch.core.events import AutopilotBegan, Event, Noted, StopRefused, SwitchFailed, TunerLost
from tfwatch.runs.control import NO_FIT, Control, RequestTaker
from tfwatch.runs.format import REQUESTS
from tfwatch.runs.requests import (
    RequestSender,
    StopRequest,
    SwitchRequest,
    TunerNote,
    append,
    encode_request,
)
from tfwatch.runs.writer import RunWriter

# -- the queue -------------------------------------------------------------------------------------


def test_the_last_request_for_a_knob_wins() -> None:
    control = Control()
    for request in (switch("prefetch", "2"), switch("workers", "auto"), switch("prefetch", "4")):
        control.ask(request)
    assert control.take(0) == [switch("workers", "auto"), switch("prefetch", "4")]
    assert not control.has_requests


def test_a_planned_switch_waits_for_its_step() -> None:
    control = Control()
    for request in (
        planned(9, "workers", "4"),
        planned(5, "prefetch", "2"),
        planned(1, "cache", "on"),
    ):
        control.ask(request)

    assert control.take(1) == [planned(1, "cache", "on")]
    control.release(4)
    assert not control.has_requests
    control.release(5)
    assert control.take(5) == [planned(5, "prefetch", "2")]
    assert control.planned == [planned(9, "workers", "4")]


# -- the taker -------------------------------------------------------------------------------------


class Taken:
    """A run in a folder whose requests the test has taken by `look`."""

    def __init__(self, folder: Path, control: Control | None = None) -> None:
        self.folder = folder
        self.clock = FakeClock()
        knobs = {"prefetch": "off", "workers": "off"}
        manifest = make_manifest(knobs=knobs, switchable=["prefetch", "workers"])
        self.writer = RunWriter(folder, manifest, self.clock.clock)
        self.control = control or Control()
        self.taker = RequestTaker(self.writer, self.control)

    def events(self, kind: type[Event]) -> list[Any]:
        """Take the requests, and return the events of a kind."""
        self.taker.look()
        self.writer.flush()
        found = reader_of(self.writer, self.clock.clock).read().events
        return [event for event in found if isinstance(event, kind)]

    def taken(self) -> list[SwitchRequest]:
        """Take the requests, and return the switches for the next batch."""
        self.taker.look()
        return self.control.take(0)


@pytest.fixture
def run(tmp_path: Path) -> Taken:
    return Taken(tmp_path)


def test_switches_of_the_folder_reach_the_training_in_order(run: Taken) -> None:
    append(run.folder, switch("prefetch", "4"))
    append(run.folder, switch("workers", "auto", "command"))

    assert run.taken() == [switch("prefetch", "4"), switch("workers", "auto", "command")]
    assert run.taken() == []


def test_a_stop_ends_the_training_and_refuses_what_follows(run: Taken) -> None:
    append(run.folder, StopRequest("key"))
    append(run.folder, switch("prefetch", "4"))

    (failed,) = run.events(SwitchFailed)

    assert run.control.was_stopped
    assert (failed.knob, failed.new, failed.reason) == ("prefetch", "4", "the run is ending")


def test_a_stop_of_the_tuner_is_a_planned_end(run: Taken) -> None:
    append(run.folder, StopRequest("experiment"))
    assert run.taken() == []
    assert run.control.stop.is_set()
    assert not run.control.was_stopped


def test_what_is_refused_comes_back_as_an_event(run: Taken) -> None:
    append(run.folder, switch("cache", "on"))
    run.writer.describe(knobs={"prefetch": "off", "workers": "off"}, switchable=["prefetch"])
    append(run.folder, switch("workers", "4"))

    failed = run.events(SwitchFailed)

    assert [event.knob for event in failed] == ["cache", "workers"]
    assert failed[1].reason == "its pipeline is not read yet"
    assert not run.control.has_requests


def test_workers_of_random_maps_are_requested_by_whoever_accepts_other_draws(run: Taken) -> None:
    knobs = {"prefetch": "off", "workers": "default"}
    run.writer.describe(knobs=knobs, switchable=["prefetch"], workers_ask=True)
    append(run.folder, switch("workers", "4"))
    append(run.folder, replace(switch("workers", "8"), random_draws=True))

    assert [request.value for request in run.taken()] == ["8"]
    assert [event.new for event in run.events(SwitchFailed)] == ["4"]


def test_between_two_fits_nothing_takes_requests(run: Taken) -> None:
    run.taker.serve(None)
    append(run.folder, switch("prefetch", "4"))
    append(run.folder, StopRequest("key"))

    assert [event.reason for event in run.events(SwitchFailed)] == [NO_FIT]
    assert [event.reason for event in run.events(StopRefused)] == [NO_FIT]

    following = Control()
    run.taker.serve(following)
    append(run.folder, switch("prefetch", "8"))
    run.taker.look()
    assert following.take(0) == [switch("prefetch", "8")]


def test_a_users_switch_precedes_a_tuners_that_has_not_seen_it(run: Taken) -> None:
    append(run.folder, switch("prefetch", "4"))
    seen = (run.folder / REQUESTS).stat().st_size
    append(run.folder, switch("prefetch", "8"))
    append(run.folder, SwitchRequest("prefetch", "2", "autopilot", after=seen))
    append(run.folder, SwitchRequest("workers", "2", "autopilot", after=seen))

    assert run.taken() == [
        switch("prefetch", "8"),
        SwitchRequest("workers", "2", "autopilot", after=seen),
    ]
    (note,) = run.events(Noted)
    assert note.text == "prefetch 2 of the autopilot is not taken: the user switched it"


def test_a_switch_of_the_scripts_code_is_recorded_and_precedes_a_tuners(run: Taken) -> None:
    run.control.ask_by_code(switch("prefetch", "8", "code"))
    append(run.folder, SwitchRequest("prefetch", "2", "experiment"))

    assert run.taken() == [switch("prefetch", "8", "code")]
    assert b'"by":"code"' in (run.folder / REQUESTS).read_bytes()
    assert run.taken() == []


def test_bad_lines_are_noted_once_and_skipped(run: Taken) -> None:
    append(run.folder, switch("prefetch", "2"))
    with (run.folder / REQUESTS).open("ab") as file:
        file.write(b"no request\n" * 50)
    append(run.folder, switch("prefetch", "4"))

    assert run.taken() == [switch("prefetch", "4")]
    (note,) = run.events(Noted)
    assert note.text.startswith("a line of the requests is skipped: this is no request")


def test_a_flood_is_cut_and_later_requests_are_taken(run: Taken) -> None:
    flood = [switch("prefetch", str(number % 1024 + 1)) for number in range(3000)]
    data = b"".join(encode_request(request) for request in flood)
    (run.folder / REQUESTS).write_bytes(data)
    (run.folder / REQUESTS).chmod(0o600)

    assert len(run.taken()) == 1
    (note,) = run.events(Noted)
    assert note.text == "requests are skipped: too many in a second"
    run.clock.at_s += 1.0
    append(run.folder, switch("workers", "4"))
    assert run.taken() == [switch("workers", "4")]


def test_a_flood_of_planned_switches_delays_no_step() -> None:
    """As many may wait as came while a step took an hour."""
    took_s = []
    for count in (500, 16_000):
        control = Control()
        for number in range(count):
            control.ask(planned(number + 2, "prefetch", "4"))
        begin_s = time.process_time()
        assert control.take(1) == []
        took_s.append(time.process_time() - begin_s)

    assert [one.at_step for one in control.planned] == list(range(2, 16_002))
    assert took_s[1] < 200 * took_s[0]


def test_a_strangers_file_is_noted_once_and_gives_nothing(run: Taken) -> None:
    append(run.folder, switch("prefetch", "4"))
    (run.folder / REQUESTS).chmod(0o666)

    assert run.taken() == []
    (note,) = run.events(Noted)
    assert note.text == "the run takes no requests: others may write to its requests.jsonl"


def test_a_note_of_the_tuner_becomes_an_event_of_the_run(run: Taken) -> None:
    own = psutil.Process()
    append(run.folder, TunerNote(AutopilotBegan(5, 6), own.pid, own.create_time()))

    assert run.events(AutopilotBegan) == [AutopilotBegan(5, 6)]
    run.clock.at_s += 2.0
    assert run.events(TunerLost) == []


def test_the_end_of_a_killed_tuner_is_recorded(run: Taken) -> None:
    terminal = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    started_s = psutil.Process(terminal.pid).create_time()
    append(run.folder, TunerNote(AutopilotBegan(5, 6), terminal.pid, started_s))
    append(run.folder, SwitchRequest("prefetch", "4", "autopilot"))
    assert run.events(TunerLost) == []

    terminal.kill()
    terminal.wait()
    run.clock.at_s += 2.0

    assert len(run.events(TunerLost)) == 1
    assert run.taken() == [SwitchRequest("prefetch", "4", "autopilot")]
    run.clock.at_s += 2.0
    assert len(run.events(TunerLost)) == 1


# -- the sender ------------------------------------------------------------------------------------


def test_a_sender_appends_in_order_without_a_wait(run: Taken) -> None:
    sender = RequestSender(run.folder)
    for depth in (2, 4, 8):
        sender.send(switch("prefetch", str(depth)))
    sender.send(StopRequest("key"))

    assert sender.is_stopping

    def is_stopped() -> bool:
        run.taker.look()
        return run.control.stop.is_set()

    wait_until(is_stopped)
    assert run.control.take(0) == [switch("prefetch", "8")]
    assert sender.take_failures() == []


def test_a_request_to_a_folder_that_is_gone_has_a_reason(tmp_path: Path) -> None:
    sender = RequestSender(tmp_path / "gone")
    sender.send(StopRequest("key"))
    wait_until(lambda: not sender.is_stopping)
    assert sender.take_failures() == ["the run's folder is gone"]
