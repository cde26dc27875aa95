"""Samples of the training thread's Python, their weights and their events."""

import os
import sys
import threading
from dataclasses import replace
from itertools import count

import pytest

from tests.runs.folders import FakeClock, read_back, written
from tfwatch.core.clock import Clock
from tfwatch.core.events import CodeSampled, RunEnded, StallLocated
from tfwatch.core.rows import Phase
from tfwatch.runs.format import PULSES, decode_pulse
from tfwatch.runs.writer import RunWriter
from tfwatch.sensors import code_sampler
from tfwatch.sensors.code_sampler import CodeSampler, Pace
from tfwatch.sensors.running_code import RunningCode

SAVE = RunningCode("SaveOften", "save_weights", "train.py:23 in on_train_batch_end")
LOAD = RunningCode("", "sort", "train.py:20 in load_chunk")
READ, PARSE = (RunningCode("", "", f"feed.py:{n} in f", for_data=True) for n in (1, 2))


class Stopping(threading.Event):
    """An event that notes the interval of Python's lock during each wait, and may set another."""

    def __init__(self, clock: FakeClock, sets: float = 0.0) -> None:
        super().__init__()
        self.clock, self.sets = clock, sets
        self.intervals: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.intervals.append(sys.getswitchinterval())
        self.clock.at_s += timeout or 0.0
        if self.sets:
            sys.setswitchinterval(self.sets)
        return False


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
        self.interval_s = 0.0
        monkeypatch.setattr(self.sampler._pace, "next_s", lambda: self.interval_s)

    def _read(self, _: int) -> RunningCode:
        self.reads += 1
        return self.code

    def runs(
        self, phase: Phase, seconds: float, code: RunningCode = LOAD, *, polls: int = 1
    ) -> None:
        """Poll after this phase has lasted for seconds, in even intervals."""
        self.code = code
        self.writer.status = (phase, self.writer.now_ns(), 7, self.writer.status[3], "")
        self.interval_s = seconds / polls
        for _ in range(polls):
            self.sampler.wait(Stopping(self.clock))
            self.sampler.poll()

    def events(self) -> list[CodeSampled]:
        """Return the events, with what is not written yet."""
        self.sampler.write()
        self.writer.flush()
        return read_back(self.writer).events.of(CodeSampled)

    def seconds(self) -> dict[tuple[str, str, str, str], float]:
        """Return the seconds of each place."""
        found: dict[tuple[str, str, str, str], float] = {}
        for event in self.events():
            for one in event.samples:
                key = one.phase, one.callback, one.call, one.place
                found[key] = found.get(key, 0.0) + one.samples * event.every_ms / 1e3
        return found

    def by_place(self) -> dict[str, float]:
        """Return the seconds of each line."""
        return {place: seconds for (*_, place), seconds in self.seconds().items()}


@pytest.fixture
def training(writer: RunWriter, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Training:
    return Training(writer, clock, monkeypatch)


def test_a_sample_counts_the_time_since_the_poll_before(training: Training) -> None:
    training.runs(Phase.HOST, 0.4, SAVE, polls=4)
    training.runs(Phase.HOST, 0.2, RunningCode(), polls=2)
    training.runs(Phase.EPOCH_END, 0.3)  # late
    training.runs(Phase.COMPUTE, 0.2, polls=2)

    assert training.seconds() == pytest.approx(
        {
            ("HOST", SAVE.callback, SAVE.call, SAVE.place): 0.4,
            ("HOST", "", "", ""): 0.2,
            ("EPOCH_END", "", LOAD.call, LOAD.place): 0.3,
        },
        abs=0.07,
    )


def test_the_begin_of_an_epoch_is_none_of_the_end_before(training: Training) -> None:
    training.runs(Phase.EPOCH_END, 0.4, SAVE, polls=4)
    training.writer.epoch += 1
    training.runs(Phase.EPOCH_END, 0.8, polls=8)

    seconds = {phase: seconds for (phase, *_), seconds in training.seconds().items()}
    assert seconds == pytest.approx({"EPOCH_END": 0.4, "FIRST_BATCH": 0.8})


@pytest.mark.parametrize("phase", [Phase.COMPUTE, Phase.COMPILE])
def test_no_frame_is_read_in_compute(phase: Phase, training: Training) -> None:
    training.runs(phase, 1.0, polls=10)

    assert (training.reads, training.events()) == (0, [])


def test_the_body_of_an_own_loop_is_host_time_where_tensorflow_does_not_run(
    training: Training,
) -> None:
    training.writer.describe(loop="train.py:22")
    training.runs(Phase.COMPUTE, 0.4, LOAD, polls=4)
    training.runs(Phase.COMPUTE, 0.2, replace(SAVE, in_tensorflow=True), polls=2)

    assert {phase: round(s, 1) for (phase, *_), s in training.seconds().items()} == {
        "HOST": 0.4,
        "COMPUTE": 0.2,
    }


def test_a_long_body_of_an_own_loop_is_at_the_python_that_tensorflow_calls(
    training: Training,
) -> None:
    training.writer.describe(loop="train.py:22")
    training.data = [READ]
    training.runs(Phase.COMPUTE, 2.5, replace(SAVE, in_tensorflow=True), polls=10)

    assert ("COMPUTE", "", "", READ.place) in training.seconds()
    assert training.writer.current_code[1] == "f (feed.py:1)"


def test_the_time_between_two_fits_counts_once_the_next_one_begins(training: Training) -> None:
    training.runs(Phase.HOST, 0.4, SAVE, polls=4)
    training.writer.is_between_fits = True
    training.runs(Phase.EPOCH_END, 0.8, polls=8)
    assert [phase for phase, *_ in training.seconds()] == ["HOST"]

    training.writer.is_between_fits = False
    training.runs(Phase.COMPUTE, 0.1)
    found = {phase: seconds for (phase, *_), seconds in training.seconds().items()}
    assert found["BETWEEN_FITS"] == pytest.approx(0.8)


@pytest.mark.parametrize("phase", [Phase.WAIT, Phase.VALIDATION])
def test_python_of_the_pipeline_is_the_place_of_a_wait_for_data(
    phase: Phase, training: Training
) -> None:
    training.runs(phase, 0.1)
    training.data = [READ, PARSE]
    training.runs(phase, 0.4, polls=4)

    assert training.by_place() == pytest.approx(
        {LOAD.place: 0.1, READ.place: 0.2, PARSE.place: 0.2}
    )


def test_a_frame_of_a_training_that_went_on_does_not_count(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(_: int) -> RunningCode:
        training.writer.phase(Phase.COMPUTE)
        return SAVE

    monkeypatch.setattr(code_sampler, "code_of_training", read)
    training.runs(Phase.HOST, 0.4)

    assert training.events() == []
    assert training.sampler.newest == (0, RunningCode())


def test_the_time_for_which_the_process_was_stopped_does_not_count(training: Training) -> None:
    training.clock.at_s += 600
    training.sampler.skip()
    training.runs(Phase.HOST, 0.04, SAVE)

    assert training.by_place() == {SAVE.place: pytest.approx(0.04)}


# -- Python's lock -----------------------------------------------------------------------------


def come_late(training: Training, seconds: float = 0.04) -> None:
    """Poll in a data wait that began just now: the poll was due in a callback."""
    training.interval_s = 0.0
    training.sampler.wait(Stopping(training.clock))
    training.clock.at_s += 0.1
    training.sampler._polled_ns = training.writer.now_ns() - round((seconds - 0.0005) * 1e9)
    training.writer.status = (Phase.WAIT, training.writer.now_ns(), 8, 0, "")
    training.clock.at_s += 0.0005
    training.sampler.poll()


@pytest.fixture
def other_threads(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return whether the training is alone in Python, at the last index."""
    alone = [True]
    monkeypatch.setattr(code_sampler, "is_alone_in_python", lambda _: alone[-1])
    return alone


@pytest.mark.usefixtures("other_threads")
def test_a_poll_that_pythons_lock_held_up_counts_for_the_code_that_held_it(
    training: Training,
) -> None:
    come_late(training, 0.2)
    assert training.by_place() == {"": pytest.approx(0.2)}

    training.runs(Phase.HOST, 0.3, SAVE)  # asks for the lock sooner, as each poll after a late one
    come_late(training, 0.2)
    training.runs(Phase.HOST, 0.1, LOAD)
    training.runs(Phase.HOST, 4.0, LOAD, polls=80)
    found = training.by_place()
    assert found[SAVE.place] == pytest.approx(0.3 + 0.15, rel=0.05)
    assert found[LOAD.place] == pytest.approx(4.1 + 0.05, rel=0.02)


def test_keras_own_code_behind_a_callback_is_none_of_a_late_polls(
    training: Training, other_threads: list[bool]
) -> None:
    training.runs(Phase.HOST, 0.1, SAVE, polls=2)
    for seconds in (0.004, 0.4):  # one that a function in C held up is where it came
        training.interval_s = 0.1
        training.sampler.wait(Stopping(training.clock))
        training.clock.at_s += seconds
        training.code = LOAD
        training.sampler.poll()

    assert len(other_threads) == 1
    assert training.by_place() == {
        SAVE.place: pytest.approx(0.2, abs=0.1),
        LOAD.place: pytest.approx(0.5, abs=0.1),
    }


def test_a_late_poll_in_a_data_wait_counts_for_what_others_see_of_the_data(
    training: Training,
) -> None:
    training.data = [READ]
    come_late(training, 0.3)
    assert training.by_place() == {READ.place: pytest.approx(0.3)}

    training.data = [PARSE]
    training.runs(Phase.WAIT, 3.0, polls=60)
    training.data = [READ]
    come_late(training, 0.6)
    assert training.by_place() == {
        READ.place: pytest.approx(0.3),
        PARSE.place: pytest.approx(3.6, rel=0.02),
    }


def test_the_next_poll_asks_for_the_lock_sooner_for_long_where_no_other_thread_wants_it(
    training: Training, other_threads: list[bool]
) -> None:
    usual_s, quick_s = sys.getswitchinterval(), code_sampler._QUICK_S
    found: list[list[float]] = []
    for is_alone in (True, True, False, True, True):
        other_threads.append(is_alone)
        come_late(training)
        stopping = Stopping(training.clock)
        training.sampler.wait(stopping)
        found.append(stopping.intervals)
    training.runs(Phase.HOST, 0.01, SAVE)
    training.sampler.wait(stopping := Stopping(training.clock))

    look = [usual_s, quick_s]
    assert found == [look, [quick_s], look, look, [quick_s]]
    come_late(training)
    training.data = [READ]
    come_late(training)
    training.sampler.wait(beside := Stopping(training.clock))
    assert beside.intervals == look
    assert stopping.intervals == [usual_s]
    assert sys.getswitchinterval() == usual_s


@pytest.mark.usefixtures("other_threads")
def test_an_interval_that_the_training_sets_meanwhile_stays(training: Training) -> None:
    usual_s = sys.getswitchinterval()
    come_late(training)
    come_late(training)
    try:
        training.sampler.wait(Stopping(training.clock, sets=0.002))
        assert sys.getswitchinterval() == 0.002
    finally:
        sys.setswitchinterval(usual_s)


def test_a_forked_process_has_the_usual_interval() -> None:
    usual_s = sys.getswitchinterval()
    with code_sampler._quick_lock(True):
        assert sys.getswitchinterval() == code_sampler._QUICK_S
        child = os.fork()
        if child == 0:
            os._exit(sys.getswitchinterval() != usual_s)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# -- its cost, and its events ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("poll_us", "least_s", "most_s"), [(10, 0.024, 0.026), (250, 0.105, 0.122), (9000, 0.19, 0.21)]
)
def test_the_pace_follows_the_cost_of_a_poll(poll_us: int, least_s: float, most_s: float) -> None:
    spent = count(0, poll_us * 1000)
    pace = Pace(Clock(lambda: 0, lambda: 0, lambda: next(spent)))
    waits = [pace.next_s() for _ in range(500)][200:]

    assert least_s < sum(waits) / len(waits) < most_s
    assert len(set(waits)) > 100


def test_sums_are_written_every_few_seconds_at_ends_of_epochs_and_at_the_end(
    training: Training,
) -> None:
    training.writer.before_end = training.sampler.write
    for epoch, seconds in ((0, 4.9), (0, 0.2), (1, 0.9), (2, 1.2), (2, 0.4)):
        training.writer.status = (Phase.HOST, 0, 1, epoch, "")
        training.runs(Phase.HOST, seconds)
    training.writer.end("finished")

    at_s = [event.at_ns / 1e9 for event in training.events()]
    assert at_s == pytest.approx([1 + 5.1, 1 + 7.2, 1 + 7.6])
    assert isinstance(read_back(training.writer).events[-1], RunEnded)


def test_a_stall_keeps_the_line_that_it_waits_for(training: Training) -> None:
    training.runs(Phase.WAIT, 0.9, polls=9)
    training.data = [READ]
    training.runs(Phase.WAIT, 0.4, polls=4)
    training.runs(Phase.WAIT, 0.9, polls=9)
    training.writer.flush()

    stalls = read_back(training.writer).events.of(StallLocated)
    assert [(e.place, e.thread) for e in stalls] == [
        (LOAD.place, "training"),
        (READ.place, "generator"),
    ]
    assert stalls[1].since_ns == training.writer.status[1]
    assert stalls[1].at_ns - stalls[1].since_ns == 500_000_000


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
