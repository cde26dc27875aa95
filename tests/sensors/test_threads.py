from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from tfwatch.sensors import running_code as threads

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

#: Threads with changing frames, threads that start and end, and collections that release the
#: interpreter: where a collection can start inside, Python 3.11 deadlocked within 3 s, four times
#: of four; where one can start while callers and variables are read, it died of a segmentation
#: fault, three times of four.
CROWDED = """
import gc, os, sys, threading, time
from tfwatch.sensors import running_code as threads

reads = sys.argv[1] == "reads variables"

def recurse(depth):
    held = [depth]
    recurse(depth - 1) if depth else time.sleep(0.0001)

def work():
    while True:
        recurse(9)

def spawn():
    while True:
        ended = [threading.Thread(target=int) for _ in range(8)]
        [thread.start() for thread in ended]
        [thread.join() for thread in ended]

sys.setswitchinterval(1e-5)
gc.set_threshold(2)
gc.callbacks.append(lambda phase, info: time.sleep(0))
for target in [work] * 20 if reads else (*[work] * 20, spawn, spawn):
    threading.Thread(target=target, daemon=True).start()
until = time.monotonic() + 3
while time.monotonic() < until:
    for frame in threads.thread_frames().values():
        for caller in threads.with_callers(frame) if reads else ():
            threads.variable_of(caller, "depth")
print("done", flush=True)
os._exit(0)
"""


@pytest.fixture(params=[True, False])
def collects(request: pytest.FixtureRequest) -> Iterator[bool]:
    was = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if was else gc.disable)()


only_deadlocking = pytest.mark.skipif(
    not threads.DEADLOCKS, reason="a collection does no harm in this Python"
)


def test_frames_of_other_threads_are_returned_and_keep_nothing_alive(collects: bool) -> None:
    class Batch:
        pass

    here, go_on = threading.Event(), threading.Event()
    held = []

    def train() -> None:
        batch = Batch()
        held.append(weakref.ref(batch))
        here.set()
        go_on.wait(10)

    thread = threading.Thread(target=train)
    thread.start()
    assert here.wait(10)
    seen = threads.thread_frames()
    assert thread.ident in seen
    assert threading.get_ident() not in seen
    del seen
    go_on.set()
    thread.join()
    assert held[0]() is None  # immediately: no collection is needed


@only_deadlocking
@pytest.mark.parametrize("fails", [False, True])
def test_no_collection_starts_inside_where_that_deadlocks(
    monkeypatch: pytest.MonkeyPatch, collects: bool, fails: bool
) -> None:
    meanwhile = []

    def current() -> dict[int, FrameType]:
        meanwhile.append(gc.isenabled())
        if fails:
            raise MemoryError
        return {}

    monkeypatch.setattr(sys, "_current_frames", current)
    if fails:
        with pytest.raises(MemoryError):
            threads.thread_frames()
    else:
        assert threads.thread_frames() == {}
    assert meanwhile == [False]
    assert gc.isenabled() is collects


@only_deadlocking
@pytest.mark.parametrize("reads", ["reads frames", "reads variables"])
def test_threads_that_go_on_and_end_do_not_stop_the_process(reads: str) -> None:
    command = [sys.executable, "-c", CROWDED, reads]
    crowded = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (crowded.returncode, crowded.stdout) == (0, "done\n"), crowded.stderr


def test_a_frame_is_followed_by_its_callers_and_has_its_variables() -> None:
    def called() -> tuple[list[FrameType], Any]:
        callers = threads.with_callers(sys._getframe())
        return callers, threads.variable_of(callers[1], "known")

    known = 3
    callers, value = called()
    assert [caller.f_code.co_name for caller in callers[:2]] == [
        "called",
        sys._getframe().f_code.co_name,
    ]
    assert value == known
    assert threads.variable_of(callers[0], "missing") is None


@only_deadlocking
def test_another_threads_setting_of_the_collector_is_never_undone(collects: bool) -> None:
    choose, undone = gc.enable if collects else gc.disable, []
    looked, before = 0, sys.getswitchinterval()
    over = threading.Event()

    def look() -> None:
        nonlocal looked
        while not over.is_set():
            threads.thread_frames()
            looked += 1

    thread = threading.Thread(target=look)
    sys.setswitchinterval(1e-6)
    try:
        thread.start()
        while looked < 20_000:
            (gc.disable if collects else gc.enable)()
            choose()
            undone += [gc.isenabled() is not collects for _ in range(20)]
    finally:
        sys.setswitchinterval(before)
        over.set()
        thread.join()
    assert not any(undone)
