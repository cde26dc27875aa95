"""Samples of the training thread's Python, their weights and their events."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

import pytest

from tests.runs.folders import FakeClock, read_back, written
from tfwatch.core.events import CodeSample, CodeSampled
from tfwatch.core.rows import Phase
from tfwatch.runs.format import PULSES, decode_pulse
from tfwatch.sensors import code_sampler
from tfwatch.sensors.code_sampler import CodeSampler
from tfwatch.sensors.running_code import RunningCode

if TYPE_CHECKING:
    from tfwatch.runs.writer import RunWriter

SAVE = RunningCode("SaveOften", "save_weights", "train.py:23 in on_train_batch_end")
LOAD = RunningCode("", "sort", "train.py:20 in load_chunk")
READ, PARSE = (RunningCode("", "", f"feed.py:{n} in f", for_data=True) for n in (1, 2))


class Training:
    """A training whose code is set by the test, and the sampler of it."""

    def __init__(
        self, writer: RunWriter, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.writer, self.clock = writer, clock
        self.code = RunningCode()
        self.data: list[RunningCode] = []
        self.reads = 0
        monkeypatch.setattr(code_sampler, "code_of_training", self._read)
        monkeypatch.setattr(code_sampler, "codes_of_data", lambda: self.data)
        self.sampler = CodeSampler(writer)

    def _read(self, _: int) -> RunningCode:
        self.reads += 1
        return self.code

    def runs(
        self, phase: Phase, seconds: float, code: RunningCode = LOAD, *, polls: int = 1
    ) -> None:
        """Poll after this phase has lasted for seconds, in even intervals."""
        self.code = code
        self.writer.status = (phase, self.writer.now_ns(), 7, self.writer.status[3], "")
        for _ in range(polls):
            self.clock.at_s += seconds / polls
            self.sampler.poll()

    def samples(self) -> list[CodeSample]:
        self.writer.flush()
        events = read_back(self.writer).events
        return [one for event in events if isinstance(event, CodeSampled) for one in event.samples]


@pytest.fixture
def training(writer: RunWriter, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Training:
    return Training(writer, clock, monkeypatch)


def test_a_sample_counts_the_time_since_the_poll_before(training: Training) -> None:
    training.runs(Phase.HOST, 0.4, SAVE, polls=4)
    training.runs(Phase.HOST, 0.2, RunningCode())
    training.runs(Phase.EPOCH_END, 0.12)
    training.sampler.write()

    assert training.samples() == [
        CodeSample("HOST", SAVE.callback, SAVE.call, SAVE.place, 10),
        CodeSample("HOST", "", "", "", 5),
        CodeSample("EPOCH_END", "", LOAD.call, LOAD.place, 3),
    ]


@pytest.mark.parametrize("phase", [Phase.COMPUTE, Phase.COMPILE])
def test_no_frame_is_read_in_compute(phase: Phase, training: Training) -> None:
    training.runs(phase, 1.0, polls=10)
    training.sampler.write()

    assert (training.reads, training.samples()) == (0, [])


def test_the_time_between_two_fits_has_a_name_of_its_own(training: Training) -> None:
    training.writer.is_between_fits = True
    training.runs(Phase.EPOCH_END, 0.4)
    training.sampler.write()

    assert [sample.phase for sample in training.samples()] == ["BETWEEN_FITS"]


def test_python_of_the_pipeline_is_the_place_of_a_data_wait(training: Training) -> None:
    training.runs(Phase.WAIT, 0.08)
    training.data = [READ, PARSE]
    training.runs(Phase.WAIT, 0.4, polls=2)
    training.sampler.write()

    assert {sample.place: sample.samples for sample in training.samples()} == {
        LOAD.place: 2,
        READ.place: 5,
        PARSE.place: 5,
    }


def test_a_frame_of_a_training_that_went_on_does_not_count(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(_: int) -> RunningCode:
        training.writer.phase(Phase.COMPUTE)
        return SAVE

    monkeypatch.setattr(code_sampler, "code_of_training", read)
    training.runs(Phase.HOST, 0.4)
    training.sampler.write()

    assert training.samples() == []
    assert training.sampler.newest == (0, RunningCode())


def test_the_time_for_which_the_process_was_stopped_does_not_count(training: Training) -> None:
    training.clock.at_s += 600
    training.sampler.skip()
    training.runs(Phase.HOST, 0.04, SAVE)
    training.sampler.write()

    assert [sample.samples for sample in training.samples()] == [1]


def late(training: Training) -> None:
    """Poll in a data wait that began just now: the poll was due in a callback."""
    stopping = threading.Event()
    training.sampler._jitter.uniform = lambda *_: 0.0  # type: ignore[method-assign]
    training.sampler.wait(stopping)
    training.clock.at_s += 0.1595
    training.writer.status = (Phase.WAIT, training.writer.now_ns(), 8, 0, "")
    training.clock.at_s += 0.0005
    training.sampler.poll()


def test_a_poll_that_pythons_lock_held_up_counts_for_the_code_that_held_it(
    training: Training,
) -> None:
    training.runs(Phase.HOST, 0.12, SAVE)
    training.runs(Phase.HOST, 0.04, LOAD)
    late(training)
    training.sampler.write()

    assert {sample.place: sample.samples for sample in training.samples()} == {
        SAVE.place: 3 + 3,
        LOAD.place: 1 + 1,
    }


def test_the_next_poll_asks_for_the_lock_sooner_and_the_usual_interval_returns(
    training: Training,
) -> None:
    usual_s, waits = sys.getswitchinterval(), []

    class Stopping(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(sys.getswitchinterval())
            return False

    training.sampler.wait(Stopping())
    late(training)
    training.sampler.wait(Stopping())

    assert waits == [usual_s, code_sampler._QUICK_S]
    assert sys.getswitchinterval() == usual_s


def test_an_interval_that_the_training_sets_meanwhile_stays(training: Training) -> None:
    class Stopping(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            sys.setswitchinterval(0.002)
            return False

    usual_s = sys.getswitchinterval()
    late(training)
    try:
        training.sampler.wait(Stopping())
        assert sys.getswitchinterval() == 0.002
    finally:
        sys.setswitchinterval(usual_s)


def test_sums_are_written_every_few_seconds_at_ends_of_epochs_and_at_the_end(
    training: Training,
) -> None:
    training.writer.before_end = training.sampler.write
    for epoch, seconds in ((0, 4.9), (0, 0.2), (1, 0.9), (2, 1.2), (2, 0.4)):
        training.writer.status = (Phase.HOST, 0, 1, epoch, "")
        training.runs(Phase.HOST, seconds)
    training.writer.end("finished")
    training.writer.flush()

    events = read_back(training.writer).events
    at_s = [event.at_ns / 1e9 for event in events if isinstance(event, CodeSampled)]
    assert at_s == pytest.approx([1 + 5.1, 1 + 7.2, 1 + 7.6])
    assert type(events[-1]).__name__ == "RunEnded"


def test_an_event_has_the_most_frequent_places(training: Training) -> None:
    for line in range(14):
        training.runs(Phase.HOST, 0.04 * (line + 1), RunningCode(place=f"a.py:{line} in f"))
    training.sampler.write()

    assert [sample.samples for sample in training.samples()] == list(range(14, 2, -1))


@pytest.mark.parametrize(
    ("phase", "seconds", "text"),
    [
        (Phase.HOST, 0.008, ""),
        (Phase.HOST, 0.05, "SaveOften"),
        (Phase.WAIT, 1.9, ""),
        (Phase.WAIT, 2.1, "f (feed.py:1)"),
        (Phase.COMPUTE, 2.1, "f (feed.py:1)"),
        (Phase.VALIDATION, 2.1, ""),
    ],
)
def test_the_pulse_names_the_code_of_a_long_phase(
    phase: Phase, seconds: float, text: str, training: Training
) -> None:
    training.data = [READ]
    training.runs(phase, seconds, SAVE)
    training.writer.flush()
    named = decode_pulse(written(training.writer, PULSES))
    training.writer.status = (Phase.HOST, training.writer.now_ns(), 7, 0, "")
    training.writer.flush()
    then = decode_pulse(written(training.writer, PULSES))

    assert named
    assert then
    assert (named.detail, then.detail) == (text, "")
