"""The tuner's thread: its jobs on the run of another process, as far as they come without a
training."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.runs.folders import make_manifest
from tests.runs.processes import wait_until
from tests.tuner.trainings import timed
from tfwatch.core.events import Noted, RunEnded
from tfwatch.core.rows import Flag
from tfwatch.runs.control import Control, RequestTaker
from tfwatch.runs.requests import Request, StopRequest, SwitchRequest, append
from tfwatch.runs.run import open_run
from tfwatch.runs.writer import RunWriter
from tfwatch.tuner.autopilot import Autopilot
from tfwatch.tuner.client import Driver, Interrupt, Tuner, TunerJob
from tfwatch.tuner.experiment import Experiment


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
        "A/B test ended: an A/B test compares two settings: prefetch is 4 now"
    ]


def test_a_job_that_breaks_is_a_sentence_of_the_run(
    writer: RunWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(job: Experiment, driver: Driver) -> None:
        raise ZeroDivisionError("a mistake of its own")

    monkeypatch.setattr(Experiment, "run", broken)
    failed = notes_of(writer, Experiment("prefetch", ("off", "4")), lambda _: None)
    assert failed == ["A/B test failed: ZeroDivisionError: a mistake of its own"]


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
    run = type(job).run

    def begun(job: TunerJob, driver: Driver) -> None:
        drivers.append(driver)
        run(job, driver)

    monkeypatch.setattr(type(job), "run", begun)

    def ask_once_seen(folder: Path) -> None:
        wait_until(lambda: drivers)
        append(folder, request_)

    found = notes_of(writer, job, ask_once_seen)
    assert found == [f"{job.name} ended before it began: {why}"]


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
        "A/B test ended before it began: it was cancelled",
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


# -- its view of a run ----------------------------------------------------------------------------


def test_the_steps_after_an_epochs_start_are_left_out_also_where_it_lies_before_the_first_one_asked_for() -> (  # noqa: E501
    None
):
    run = timed(lambda knobs, step: 20.0)
    run.flags = {8: Flag.EPOCH_START, 20: Flag.EPOCH_START}
    driver = run.driver()
    run.train(30)
    driver.look()
    assert driver.settled_rows(10)["step"].tolist() == [*range(13, 19), *range(25, 31)]


def test_a_job_cancelled_by_the_end_of_its_run_ended_with_the_run() -> None:
    run = timed(lambda knobs, step: 20.0)
    driver = run.driver()
    run.train(30)
    driver.look()
    run.writer.event(RunEnded(driver.now_ns(), "finished", 30, ""))
    run.writer.flush()
    run.line.cancelled.set()

    with pytest.raises(Interrupt) as interrupted:
        driver.switch({"prefetch": "4"}, "autopilot")
    assert interrupted.value.cause == "ended"


def test_a_switch_of_the_user_ends_a_job_and_its_knob_is_left_alone() -> None:
    run = timed(lambda knobs, step: 20.0)
    driver = run.driver()
    run.train(30)
    run.line.press("prefetch", "8")

    with pytest.raises(Interrupt) as interrupted:
        driver.switch({"workers": "4"}, "autopilot")
    driver.ask_final("prefetch", "2", "autopilot")
    driver.ask_final("workers", "2", "autopilot")

    assert interrupted.value.cause == "key"
    assert [(one.knob, one.value) for one in run.control.take(30)] == [
        ("prefetch", "8"),
        ("workers", "2"),
    ]


def test_a_switch_of_the_user_between_the_tuners_look_and_its_line_has_precedence() -> None:
    run = timed(lambda knobs, step: 20.0)
    driver = run.driver()
    run.train(30)
    driver.look()
    after = len(run.line.data)

    run.line.press("prefetch", "8")
    run.line.send(SwitchRequest("prefetch", "2", "autopilot", after=after))
    run.line.send(SwitchRequest("workers", "2", "autopilot", after=after))

    assert [(one.knob, one.value) for one in run.control.take(30)] == [
        ("prefetch", "8"),
        ("workers", "2"),
    ]
    notes = [event.text for event in run.events(Noted)]
    assert notes == ["prefetch 2 of the autopilot is not taken: the user switched it"]


def test_a_job_begins_once_the_training_has_taken_earlier_requests() -> None:
    run = timed(lambda knobs, step: 200.0)
    run.train(10)
    run.line.press("prefetch", "8")
    driver = run.driver()
    run.control.take(10)

    assert driver.is_switching
    run.train(4)
    driver.look()
    assert not driver.is_switching
