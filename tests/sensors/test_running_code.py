"""The callback, the user's line and the function that it calls, read from a thread's frames."""

import gc
import linecache
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any

import pytest

from tfwatch.sensors import running_code
from tfwatch.sensors.running_code import (
    RunningCode,
    code_of_training,
    codes_of_data,
    is_alone_in_python,
)

TRAINS, OTHER = 1, 2
SITE = "/opt/base/lib/python3.11/site-packages"
CALLBACKS = f"{SITE}/keras/src/callbacks/callback_list.py"
TRACEBACKS = f"{SITE}/keras/src/utils/traceback_utils.py"
TRAINER = f"{SITE}/keras/src/backend/tensorflow/trainer.py"
SCRIPT_OPS = f"{SITE}/tensorflow/python/ops/script_ops.py"
PY_DATASET = f"{SITE}/keras/src/trainers/data_adapters/py_dataset_adapter.py"
AUTOGRAPH = f"{SITE}/tensorflow/python/autograph/impl/api.py"
TRAIN, FEED = "/home/me/train.py", "/home/me/feed.py"
WATCHED = str(running_code.__file__).replace("sensors/running_code", "watch/script/patches")


class SaveOften: ...


class Watch: ...


def frame(*calls: tuple[str, str], callback: object = None) -> FrameType:
    """Return the innermost frame of functions, each as (file, name), the outermost first, with the
    call in line 2 of each."""
    innermost: list[FrameType] = []
    call: Any = lambda _: innermost.append(sys._getframe(1))  # noqa: E731
    for file, name in reversed(calls):
        names: dict[str, Any] = {"inner": call}
        exec(compile(f"def {name}(callback):\n    inner(callback)", file, "exec"), names)
        call = names[name]
    call(callback)
    return innermost[0]


MAIN, PREDICT = (TRAIN, "main"), (TRAINER, "predict")


@pytest.mark.parametrize(
    ("calls", "call", "place"),
    [
        pytest.param([MAIN, (FEED, "rows")], "", "feed.py:2 in rows", id="innermost"),
        pytest.param(
            [MAIN, (TRACEBACKS, "error_handler"), PREDICT, (TRAINER, "_run")],
            "predict",
            "train.py:2 in main",
            id="behind Keras' wrapper",
        ),
        pytest.param(
            [MAIN, (WATCHED, "fit"), (TRACEBACKS, "error_handler"), (TRAINER, "fit")],
            "fit",
            "train.py:2 in main",
            id="behind tfwatch",
        ),
        pytest.param(
            [MAIN, ("/usr/lib/python3/dist-packages/pandas/io.py", "read_csv")],
            "read_csv",
            "train.py:2 in main",
            id="of the system's packages",
        ),
        pytest.param([MAIN, ("<string>", "init")], "init", "train.py:2 in main", id="made"),
    ],
)
def test_the_users_line_is_the_innermost_outside_libraries(
    calls: list[tuple[str, str]], call: str, place: str
) -> None:
    found = code_of_training(TRAINS, {TRAINS: frame(*calls)})

    assert found == RunningCode("", call, place)
    assert found.in_tensorflow is (call in ("predict", "fit"))


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("sys.intern(name)", "sys.intern"),
        ("self.batches.sort(axis=0)", "sort"),
        ("np.sort(rng.random((3, 2)))", ""),
        ("if loss:", ""),
    ],
)
def test_a_function_in_c_is_named_as_its_line_has_it_where_that_has_one_call(
    line: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linecache, "getline", lambda *_: line)

    assert running_code._written_call(sys._getframe()) == name


@pytest.mark.parametrize(
    ("callbacks", "name"),
    [([SaveOften], "SaveOften"), ([SaveOften, Watch], "SaveOften"), ([Watch], ""), ([], "")],
)
def test_the_outermost_callback_is_named_and_never_watch(
    callbacks: list[type], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [MAIN, *((CALLBACKS, f"on_epoch_end_{n}") for n in range(len(callbacks)))]
    innermost = frame(*calls, (FEED, "rows"))
    running = {f"on_epoch_end_{n}": kind() for n, kind in enumerate(callbacks)}
    monkeypatch.setattr(running_code, "variable_of", lambda frame, _: running[frame.f_code.co_name])

    assert code_of_training(TRAINS, {TRAINS: innermost}).callback == name


@pytest.mark.parametrize("caller", [SCRIPT_OPS, PY_DATASET])
def test_only_python_that_the_pipeline_calls_is_of_the_data(caller: str) -> None:
    frames = {
        TRAINS: frame(MAIN),
        OTHER: frame((caller, "call"), (FEED, "rows"), (f"{SITE}/numpy/npyio.py", "load")),
        3: frame(("/home/me/server.py", "serve")),
    }

    (found,) = codes_of_data(frames)

    assert found == RunningCode("", "load", "feed.py:2 in rows", for_data=True)
    assert found.function == "rows (feed.py:2)"


def test_a_copy_by_autograph_has_no_line_of_the_users() -> None:
    copy = "/tmp/__autograph_generated_file1.py"
    frames = {OTHER: frame((SCRIPT_OPS, "call"), (AUTOGRAPH, "a"), (copy, "f"), (AUTOGRAPH, "b"))}

    assert codes_of_data(frames) == []


@pytest.mark.parametrize(
    ("file", "is_alone"),
    [
        ("/usr/lib/python3.11/threading.py", True),
        ("/usr/lib/python3.11/concurrent/futures/thread.py", True),
        (WATCHED, True),
        (FEED, False),
        (f"{SITE}/numpy/npyio.py", False),
    ],
)
def test_threads_that_wait_leave_the_training_alone_in_python(file: str, is_alone: bool) -> None:
    frames = {TRAINS: frame(MAIN), OTHER: frame((FEED, "rows"), (file, "wait"))}

    assert is_alone_in_python(TRAINS, frames) is is_alone


def test_a_running_thread_is_read() -> None:
    here = threading.get_ident()
    with ThreadPoolExecutor(1) as other:
        found = other.submit(code_of_training, here).result()

    assert found.place.endswith("in test_a_running_thread_is_read")
    assert found.call in ("submit", "result")


# -- the frames of threads ------------------------------------------------------------------------

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
    not running_code.DEADLOCKS, reason="a collection does no harm in this Python"
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
    seen = running_code.thread_frames()
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
            running_code.thread_frames()
    else:
        assert running_code.thread_frames() == {}
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
        callers = running_code.with_callers(sys._getframe())
        return callers, running_code.variable_of(callers[1], "known")

    known = 3
    callers, value = called()
    assert [caller.f_code.co_name for caller in callers[:2]] == [
        "called",
        sys._getframe().f_code.co_name,
    ]
    assert value == known
    assert running_code.variable_of(callers[0], "missing") is None


@only_deadlocking
def test_another_threads_setting_of_the_collector_is_never_undone(collects: bool) -> None:
    choose, undone = gc.enable if collects else gc.disable, []
    looked, before = 0, sys.getswitchinterval()
    over = threading.Event()

    def look() -> None:
        nonlocal looked
        while not over.is_set():
            running_code.thread_frames()
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
