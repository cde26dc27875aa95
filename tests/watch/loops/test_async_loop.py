"""The data wait of a loop that launches GPU work asynchronously, on a simulated GPU whose idle time
is known."""

import itertools
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from tests.runs.processes import wait_until
from tfwatch.watch.loops.async_loop import GpuProbe, LoopStep

#: Of the simulated GPU, milliseconds: a probe takes IDLE if it is idle; the probing thread wakes
#: after WAKE; the end of work is read after LATE; work starts LAUNCH after its batch is there.
IDLE, WAKE, LATE, LAUNCH = 0.3, 0.05, 0.5, 0.6
MS = 1_000_000
IDLE_NS = round(IDLE * MS)


def probe_of_idle_gpu() -> GpuProbe:
    """Return a probe whose thread does not run."""
    probe = GpuProbe(lambda: lambda: 0, lambda: 0, lambda _: None)
    probe.idle_ns = IDLE_NS
    return probe


@dataclass
class SimulatedLoop:
    """A loop whose fetches take `fetches` milliseconds, whose body launches for `launching` and
    computes for `work`.

    completions: the step, and the begin and the end of its probe. idle_ms: by step, the GPU's idle
    time while the step's batch was fetched.
    """

    fetches: list[float]
    launching: float
    work: float
    steps: list[LoopStep] = field(default_factory=list)
    completions: list[tuple[LoopStep, int, int]] = field(default_factory=list)
    idle_ms: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        now = free = asking = 0.0
        for number, fetch in enumerate(self.fetches, 1):
            start, got = now, now + fetch
            now = got + self.launching
            step = LoopStep(number, *(round(at * MS) for at in (start, got, now)))
            asked = max(start + WAKE, asking)
            if asked <= got:
                asking = max(asked + IDLE, free + LATE)
                self.completions.append((step, round(asked * MS), round(asking * MS)))
            self.idle_ms.append(max(0.0, got - max(start, free)))
            free = max(free, got + LAUNCH) + self.work
            self.steps.append(step)

    def starved_ms(self) -> list[float]:
        """Return the measured data wait, step by step."""
        probe, completions = probe_of_idle_gpu(), deque(self.completions)
        waits: list[tuple[LoopStep, int]] = []
        for step in self.steps:
            while completions and completions[0][2] <= step.end_ns:
                probe.complete(*completions.popleft())
            waits += probe.finish_step(step)
        for completion in completions:
            probe.complete(*completion)
        waits += probe.rest()
        assert [step for step, _ in waits] == self.steps
        return [ns / MS for _, ns in waits]


def test_a_host_that_waits_while_the_gpu_computes_does_not_starve_it() -> None:
    """As on an H200: with a 5 ms loader the host waits half of the time while the GPU is busy."""
    loop = SimulatedLoop([5.0] * 200, launching=4.0, work=13.0)

    assert sum(loop.fetches) > 0.5 * loop.steps[-1].end_ns / MS
    assert sum(loop.starved_ms()[1:]) == 0


@pytest.mark.parametrize("fetches", [[10.0], [14.0], [20.0], [40.0], [*[30.0] * 20, *[0.5] * 8]])
def test_data_wait_is_the_part_of_the_fetch_in_which_the_gpu_is_idle(fetches: list[float]) -> None:
    loop = SimulatedLoop(fetches * 100, launching=4.0, work=13.0)

    # A fetch that ends just before the work does starves by no more than the delay of a probe.
    assert loop.starved_ms()[1:] == pytest.approx(loop.idle_ms[1:], abs=0.4)


@pytest.mark.parametrize(
    ("launching", "work"),
    [pytest.param(4.0, 1.0, id="launch-bound"), pytest.param(20.0, 13.0, id="pulls its loss")],
)
def test_a_gpu_that_is_done_before_the_fetch_starves_for_all_of_it(
    launching: float, work: float
) -> None:
    loop = SimulatedLoop([5.0] * 100, launching=launching, work=work)

    assert loop.starved_ms() == [5.0] * 100


def test_a_stall_after_a_backlog_starves_once_the_backlog_is_done() -> None:
    """Ten steps are launched together: the GPU works for 90 ms of the 500 ms without a batch."""
    loop = SimulatedLoop([*[0.2] * 10, 500.0, *[0.2] * 3], launching=4.0, work=13.0)

    assert loop.starved_ms()[10] == pytest.approx(500.0 - (10 * 13.0 - 10 * 4.2), abs=1.5)


def fetched(step: int) -> LoopStep:
    return LoopStep(step, step * MS, step * MS + 1000, step * MS + 5000)


def test_short_fetches_without_a_probe_count_as_the_last_probe_found_the_gpu() -> None:
    probe, (one, two, three, four) = probe_of_idle_gpu(), map(fetched, (1, 2, 3, 4))
    probe.complete(one, one.start_ns + 10, one.start_ns + 10 + IDLE_NS)
    assert list(probe.finish_step(one)) == [(one, 1000)]
    assert list(probe.finish_step(two)) == []
    probe.complete(three, three.start_ns + 10, three.start_ns + 50 * MS)
    assert list(probe.finish_step(three)) == [(two, 1000), (three, 0)]
    assert list(probe.finish_step(four)) == []
    assert list(probe.rest()) == [(four, 0)]


def test_a_probe_of_a_fetch_without_a_batch_belongs_to_no_step() -> None:
    """As at the end of an epoch: the next one's first step has the same number."""
    probe, step = probe_of_idle_gpu(), LoopStep(1, 50 * MS, 90 * MS, 95 * MS)
    probe.complete(fetched(1), 1 * MS, 20 * MS)
    assert list(probe.finish_step(step)) == []


class Gpu:
    """Responds once `free` is set; `probes` counts."""

    def __init__(self) -> None:
        self.probes = 0
        self.at_ns = itertools.count(0, 1000)
        self.free = threading.Event()
        self.free.set()
        self.fails = False

    def now_ns(self) -> int:
        return next(self.at_ns)

    def probe(self) -> int:
        self.probes += 1
        self.free.wait(timeout=20)
        if self.fails:
            raise RuntimeError("out of memory")
        return self.now_ns()


def make_probe_thread(gpu: Gpu, notes: list[str]) -> GpuProbe:
    thread = GpuProbe(lambda: gpu.probe, gpu.now_ns, notes.append)
    thread.start()
    wait_until(lambda: gpu.probes >= 12)
    return thread


def probe_while_busy(gpu: Gpu, notes: list[str]) -> GpuProbe:
    """Return a thread whose probe at the fetch of the first step has not returned."""
    thread = make_probe_thread(gpu, notes)
    gpu.free.clear()
    thread.begin_fetch(fetched(1))
    wait_until(lambda: gpu.probes == 13)
    return thread


def steps_of(waits: Iterable[tuple[LoopStep, int]]) -> list[int]:
    return [step.step for step, _ in waits]


def test_the_thread_probes_at_a_fetch_and_the_step_waits_for_the_probe() -> None:
    gpu = Gpu()
    notes: list[str] = []
    thread, two = probe_while_busy(gpu, notes), fetched(2)
    thread.end_fetch(fetched(1))
    assert steps_of(thread.finish_step(fetched(1))) == []
    gpu.free.set()
    thread.begin_fetch(two)
    wait_until(lambda: gpu.probes == 14)
    thread.end_fetch(two)
    waits = steps_of(thread.finish_step(two))
    waits += steps_of(thread.stop())
    assert waits == [1, 2]
    assert len(notes) == 1
    assert "a probe of an idle GPU takes" in notes[0]


def test_the_end_does_not_wait_for_a_busy_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfwatch.watch.loops.async_loop._JOIN_S", 0.01)
    gpu = Gpu()
    notes: list[str] = []
    thread = probe_while_busy(gpu, notes)
    assert steps_of(thread.finish_step(fetched(1))) == []
    assert steps_of(thread.stop()) == [1]
    gpu.free.set()


ENDS_WHILE_BUSY = """
import itertools, threading, time
from tfwatch.watch.loops import async_loop
async_loop._JOIN_S = 0.01
probes = itertools.count()
def probe():
    if next(probes) == 12:
        busy.set()
        threading.main_thread().join()
        time.sleep(1)
        print("done", flush=True)
    return 0
busy = threading.Event()
thread = async_loop.GpuProbe(lambda: probe, lambda: 0, lambda _: None)
thread.start()
thread.begin_fetch(async_loop.LoopStep(1, 0))
busy.wait()
list(thread.stop())
"""


def test_the_process_does_not_end_during_a_probe() -> None:
    """A TensorFlow function that still runs would crash the process."""
    ended = subprocess.run(
        [sys.executable, "-c", ENDS_WHILE_BUSY], capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr


def test_without_a_probe_the_whole_fetch_is_data_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu()
    notes: list[str] = []
    thread = make_probe_thread(gpu, notes)
    one, two, three = map(fetched, (1, 2, 3))
    gpu.at_ns = itertools.count(100 * MS, 10 * MS)  # busy
    thread.begin_fetch(one)
    wait_until(lambda: one.completed_ns is not None)
    assert list(thread.finish_step(one)) == [(one, 0)]
    gpu.fails = True
    thread.begin_fetch(two)
    wait_until(lambda: thread.failed)

    assert list(thread.finish_step(two)) == [(two, 1000)]
    assert list(thread.finish_step(three)) == [(three, 1000)]
    assert notes[1:] == [
        (
            "the GPU cannot be probed (RuntimeError: out of memory): every fetch that blocks counts as"  # noqa: E501
            " data wait"
        )
    ]
    assert list(thread.stop()) == []
