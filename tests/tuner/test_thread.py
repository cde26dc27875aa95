"""The tuner's thread: its jobs on the run of another process, as far as they come without a
training."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.runs.folders import make_manifest
from tests.runs.processes import wait_until
from tfwatch.core.events import Noted
from tfwatch.runs.control import Control, RequestTaker
from tfwatch.runs.requests import StopRequest, SwitchRequest, append
from tfwatch.runs.run import open_run
from tfwatch.runs.writer import RunWriter
from tfwatch.tuner import thread as module
from tfwatch.tuner.driver import Autopilot, Experiment
from tfwatch.tuner.thread import Tuner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tfwatch.runs.requests import Request
    from tfwatch.tuner.driver import Driver, TunerJob


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[RunWriter]:
    """A run without a step, whose writer takes requests."""
    made = RunWriter(tmp_path, make_manifest())
    made.take_requests = RequestTaker(made, Control()).look
    made.start()
    made.wait_until_begun()
    yield made
    made.close()


def notes_of(writer: RunWriter, job: TunerJob, do: Callable[[Path], None]) -> list[str]:
    """Return the notes of a job. do: what happens once the job looks at the run."""
    folder = writer.folder
    assert folder
    tuner = Tuner(lambda: folder)
    assert tuner.begin(job) == ""
    do(folder)
    wait_until(lambda: not tuner.is_busy)
    writer.close()
    return [event.text for event in open_run(folder).events.of(Noted)]


def test_what_is_refused_is_a_sentence_of_the_run(writer: RunWriter) -> None:
    job = Experiment("prefetch", ("4", "4"))
    assert notes_of(writer, job, lambda _: None) == [
        "experiment ended: an A/B test compares two settings: prefetch is 4 now"
    ]


def test_a_job_that_breaks_is_a_sentence_of_the_run(
    writer: RunWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(driver: Driver, job: Experiment) -> None:
        raise ZeroDivisionError("a mistake of its own")

    monkeypatch.setitem(module._JOBS, Experiment, broken)
    failed = notes_of(writer, Experiment("prefetch", ("off", "4")), lambda _: None)
    assert failed == ["experiment failed: ZeroDivisionError: a mistake of its own"]


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        pytest.param(StopRequest("key"), "the training stops", id="a stop"),
        pytest.param(SwitchRequest("prefetch", "4", "key"), "a knob was switched", id="a key"),
    ],
)
@pytest.mark.parametrize("job", [Experiment("prefetch", ("off", "4")), Autopilot()])
def test_what_is_over_before_its_first_step_has_no_end_of_its_own(
    job: TunerJob, request_: Request, why: str, writer: RunWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    drivers: list[Driver] = []
    run = module._JOBS[type(job)]

    def begun(driver: Driver, job: TunerJob) -> None:
        drivers.append(driver)
        run(driver, job)

    monkeypatch.setitem(module._JOBS, type(job), begun)

    def ask_once_seen(folder: Path) -> None:
        wait_until(lambda: drivers)
        append(folder, request_)

    found = notes_of(writer, job, ask_once_seen)
    assert found == [f"{type(job).__name__.lower()} ended before it began: {why}"]


def test_the_newest_job_runs_and_closing_ends_it(writer: RunWriter) -> None:
    tuner = Tuner(lambda: writer.folder)
    tuner.begin(Autopilot())
    tuner.begin(Experiment("prefetch", ("off", "4")))
    wait_until(lambda: "autopilot ended" in str(_notes(writer)))
    assert tuner.is_busy

    tuner.close()

    assert not tuner.is_busy
    assert _notes(writer) == [
        "autopilot ended before it began: it was cancelled",
        "experiment ended before it began: it was cancelled",
    ]


def _notes(writer: RunWriter) -> list[str]:
    writer.take_requests()
    writer.flush()
    assert writer.folder
    return [event.text for event in open_run(writer.folder).events.of(Noted)]


def test_without_a_folder_there_is_no_job() -> None:
    tuner = Tuner(lambda: None)
    assert "nothing is recorded" in tuner.begin(Autopilot())
    assert not tuner.is_busy
    tuner.close()
