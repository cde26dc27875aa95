"""Loops of the user's own under `track`: they run as they would without it, and their folder tells the steps."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tfwatch
from tests.runs.folders import FakeClock, make_manifest
from tests.runs.processes import wait_until
from tfwatch.core.events import EpochEnded, EpochStarted, Noted, TrainingFailed, WatchFailed
from tfwatch.core.rows import Flag, Phase
from tfwatch.report import as_text
from tfwatch.runs.library import list_runs
from tfwatch.runs.life import Life
from tfwatch.runs.opened import Run, open_run
from tfwatch.runs.writer import RunWriter
from tfwatch.training import track
from tfwatch.training.loop import Loop, LoopBooks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tfwatch import Track

pytestmark = pytest.mark.usefixtures("_all_ended")

ROOT = Path(tfwatch.__file__).parents[1]
BATCHES = [np.full((4, 2), n) for n in range(5)]


@pytest.fixture
def _all_ended() -> Iterator[None]:
    """No run of one test waits for a call in another one."""
    yield
    for loop in list(track._all):
        loop.end()


def opened(tracked: Track[Any]) -> Run:
    assert tracked.run_path
    return flushed(tracked.run_path)


def runs_in(runs_dir: Path) -> list[Run]:
    """The oldest first."""
    return [flushed(run) for run in reversed(list_runs(runs_dir))]


def flushed(folder: Path) -> Run:
    for loop in track._all:
        loop._writer.flush()
    return open_run(folder)


def of(run: Run, kind: type[Any]) -> list[Any]:
    return [event for event in run.events if isinstance(event, kind)]


def cause(run: Run) -> str:
    assert run.ended
    return run.ended.cause


def python(code: str, runs_dir: Path, *, rc: int = 0) -> list[Run]:
    """The runs of a script of its own, the oldest first."""
    script = runs_dir.parent / "script.py"
    script.write_text(f"import sys, tfwatch\nRUNS = {str(runs_dir)!r}\n{code}")
    done = subprocess.run([sys.executable, script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == rc, done.stderr
    return [open_run(run) for run in reversed(list_runs(runs_dir))]


# -- the loop is the loop ---------------------------------------------------------------------------


def test_the_elements_are_the_very_same_in_the_same_order(tmp_path: Path) -> None:
    with tfwatch.track(BATCHES, tmp_path) as tracked:
        for _ in range(2):
            got = list(tracked)
            assert len(got) == len(BATCHES)
            assert all(mine is yours for mine, yours in zip(got, BATCHES, strict=True))
    assert len(opened(tracked).steps) == 10


def test_len_goes_through_and_so_does_its_lack(tmp_path: Path) -> None:
    assert len(tfwatch.track(BATCHES, tmp_path)) == 5
    assert not tfwatch.track([], tmp_path)
    endless: Track[int] = tfwatch.track(iter(BATCHES), tmp_path)  # type: ignore[arg-type]
    assert endless
    with pytest.raises(TypeError, match="has no len"):
        len(endless)
    assert list_runs(tmp_path) == []


def test_what_cannot_be_looped_over_says_so_as_ever(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="'int' object is not iterable"):
        list(tfwatch.track(5, tmp_path))  # type: ignore[arg-type]


def test_a_generator_is_closed_when_its_loop_is_left(tmp_path: Path) -> None:
    closed = []

    def batches() -> Iterator[int]:
        try:
            yield from range(10)
        finally:
            closed.append(True)

    for n in tfwatch.track(batches(), tmp_path):
        if n == 3:
            break
    assert closed == [True]


def test_no_batch_is_held(tmp_path: Path) -> None:
    iterator = iter(tfwatch.track((np.zeros(n) for n in range(3)), tmp_path))
    batch = next(iterator)
    held = sys.getrefcount(np.zeros(1))  # of an object that nobody holds
    assert sys.getrefcount(batch) == held + 1
    assert len(list(iterator)) == 2


def test_without_tensorflow_none_is_loaded(tmp_path: Path) -> None:
    (run,) = python("for n in tfwatch.track(range(3), RUNS): pass\nassert 'tensorflow' not in sys.modules", tmp_path)
    assert len(run.steps) == 3
    assert (run.manifest.device.split()[0], run.manifest.accelerated) == ("CPU", False)


# -- rows ---------------------------------------------------------------------------------------------


def make_books(clock: FakeClock, traced: Callable[[], int] | None = None) -> tuple[LoopBooks, RunWriter]:
    writer = RunWriter(None, make_manifest(), clock.clock)
    return LoopBooks(writer, traced), writer


def rows_of(writer: RunWriter) -> Any:
    from tfwatch.runs.opened import read_run

    writer.flush()
    return read_run(writer).steps


def test_a_step_is_its_fetch_and_its_body() -> None:
    clock = FakeClock()
    books, writer = make_books(clock)
    books.begin_epoch(0, 0, None)
    for step, (fetch_s, body_s) in enumerate([(0.5, 1.0), (0.25, 2.0), (0.125, 4.0)], 1):
        start_ns = writer.now_ns()
        books.before(start_ns)
        assert writer.status[:3] == (Phase.WAIT, start_ns, step)
        clock.at_s += fetch_s
        books.got(start_ns, writer.now_ns(), np.zeros((8, 2)))
        assert writer.status[:3] == (Phase.COMPUTE, writer.now_ns(), step)
        clock.at_s += body_s
    books.end_epoch(None)
    assert writer.status[0] == Phase.EPOCH_END
    rows = rows_of(writer)
    assert rows["wait_ms"].tolist() == [500, 250, 125]
    assert rows["compute_ms"].tolist() == [1000, 2000, 4000]
    assert not rows["host_ms"].any()
    assert not rows["dispatch_ms"].any()
    assert rows["flags"].tolist() == [Flag.EPOCH_START, 0, 0]
    assert writer.progress is not None
    assert writer.progress[:4] == (24, 3, 0, 3)
    assert np.isnan(writer.progress[4])


def test_a_step_that_traced_is_flagged() -> None:
    counts = iter([0, 7, 7, 7, 7, 9])
    books, writer = make_books(FakeClock(), lambda: next(counts))
    for _ in range(3):
        books.before(0)
        books.got(0, 0, None)
    books.end_step(0)
    assert rows_of(writer)["flags"].tolist() == [Flag.COMPILE, 0, Flag.RETRACE]


def test_every_row_follows_the_one_before(tmp_path: Path) -> None:
    with tfwatch.track(BATCHES, tmp_path) as tracked:
        for _ in range(3):
            for _ in tracked:
                pass
    run = opened(tracked)
    rows = run.steps
    assert rows["step"].tolist() == list(range(1, 16))
    assert rows["epoch"].tolist() == [0] * 5 + [1] * 5 + [2] * 5
    assert np.flatnonzero(rows["flags"] & Flag.EPOCH_START).tolist() == [0, 5, 10]
    total_ms = rows["wait_ms"] + rows["compute_ms"] + rows["host_ms"]
    inside = np.flatnonzero(np.diff(rows["epoch"]) == 0)
    np.testing.assert_allclose(total_ms[inside], np.diff(rows["start_ns"])[inside] / 1e6, rtol=1e-3)
    assert [event.steps for event in of(run, EpochStarted)] == [5, 5, 5]
    assert [event.step for event in of(run, EpochEnded)] == [5, 10, 15]
    assert (run.manifest.switchable, run.manifest.knobs, run.manifest.steps_per_epoch) == ([], {}, 5)
    assert run.manifest.split.startswith("by the loop's fetches: ")


def test_the_summary_claims_nothing_of_keras_and_no_loss(tmp_path: Path) -> None:
    with tfwatch.track(range(40), tmp_path) as tracked:
        for _ in tracked:
            sum(range(20_000))
    text = as_text(opened(tracked), Path.home())
    assert "NOT input-bound, compute-bound" in text
    assert "Keras" not in text
    assert "loss" not in text


# -- epochs and runs ----------------------------------------------------------------------------------


def test_an_object_that_is_looped_over_again_goes_on_with_its_run_until_it_is_gone(tmp_path: Path) -> None:
    tracked = tfwatch.track(BATCHES, tmp_path)
    for _ in range(3):
        for _ in tracked:
            pass
    run = opened(tracked)
    assert (run.life, len(of(run, EpochEnded))) == (Life.RUNNING, 3)
    del tracked
    (folder,) = list_runs(tmp_path)
    assert cause(open_run(folder)) == "finished"


def test_a_call_from_the_same_line_goes_on_with_the_run(tmp_path: Path) -> None:
    for n in range(3):
        for _ in tfwatch.track([n] * 5, tmp_path):
            pass
    for _, _ in enumerate(tfwatch.track(BATCHES, tmp_path)):
        pass
    first, second = runs_in(tmp_path)
    assert (len(of(first, EpochStarted)), len(of(second, EpochStarted))) == (3, 1)


def test_a_call_within_another_generator_goes_on_too(tmp_path: Path) -> None:
    """As with a progress bar around it, which holds the object for as long as the loop."""

    def bar(tracked: Track[Any]) -> Iterator[Any]:
        yield from tracked

    for _ in range(2):
        for _ in bar(tfwatch.track(BATCHES, tmp_path)):
            pass
    (run,) = runs_in(tmp_path)
    assert len(of(run, EpochEnded)) == 2


def test_objects_that_live_side_by_side_have_runs_of_their_own(tmp_path: Path) -> None:
    several = [tfwatch.track([n] * 3, tmp_path) for n in range(2)]
    for tracked in several:
        assert len(list(tracked)) == 3
    for pair in zip(*several, strict=True):
        assert pair == (0, 1)
    for tracked in several:
        assert [len(of(opened(tracked), kind)) for kind in (EpochStarted, EpochEnded)] == [2, 2]
        tracked.close()
    assert len(list_runs(tmp_path)) == 2


def test_a_run_ends_with_the_epochs_that_were_announced(tmp_path: Path) -> None:
    tracked = tfwatch.track(BATCHES, tmp_path, epochs=2)
    for epoch in range(3):
        for _ in tracked:
            pass
        if epoch == 1:
            first = opened(tracked)
    assert (cause(first), len(first.steps), first.manifest.epochs) == ("finished", 10, 2)
    assert tracked.run_path != first.path
    tracked.close()
    assert (cause(opened(tracked)), len(opened(tracked).steps)) == ("finished", 5)


def test_a_with_block_is_one_run(tmp_path: Path) -> None:
    for _ in range(2):
        with tfwatch.track(BATCHES, tmp_path) as tracked:
            for _ in tracked:
                break
        assert cause(opened(tracked)) == "finished"
    assert len(list_runs(tmp_path)) == 2


def test_a_loop_in_a_loop_has_a_run_of_its_own(tmp_path: Path) -> None:
    inner: list[int] = []
    with tfwatch.track(range(2), tmp_path / "outer") as outer:
        for _ in outer:
            inner += [n for n in tfwatch.track(range(3), tmp_path / "inner")]  # noqa: C416  a loop
    assert inner == [0, 1, 2] * 2
    (run,) = runs_in(tmp_path / "inner")
    assert len(opened(outer).steps) == 2
    assert [event.epoch for event in of(run, EpochEnded)] == [0, 1]


def test_a_second_loop_over_the_same_object_takes_over(tmp_path: Path) -> None:
    with tfwatch.track(BATCHES, tmp_path) as tracked:
        first = iter(tracked)
        next(first)
        second = iter(tracked)
        assert (len(list(second)), len(list(first))) == (5, 4)
    assert len(opened(tracked).steps) == 6


def test_threads_have_runs_of_their_own(tmp_path: Path) -> None:
    together, counts = threading.Barrier(3), []

    def loop() -> None:
        for n in tfwatch.track(range(50), tmp_path):
            if n == 10:
                together.wait(timeout=20)
        counts.append(n)

    threads = [threading.Thread(target=loop) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert counts == [49] * 3
    wait_until(lambda: [len(open_run(run).steps) for run in list_runs(tmp_path)] == [50] * 3)


def test_no_more_than_a_few_runs_wait_for_another_call(tmp_path: Path) -> None:
    loops: dict[str, Any] = {"track": tfwatch.track, "runs_dir": tmp_path}
    for _ in range(8):  # as the cells of a notebook
        exec(compile("for _ in track(range(3), runs_dir): pass", "cell", "exec"), loops)
    lives = [open_run(run).life for run in reversed(list_runs(tmp_path))]
    assert len(lives) == 8
    assert set(lives[:3]) == {Life.ENDED}
    assert set(lives[-4:]) == {Life.RUNNING}


def test_a_run_is_ended_from_a_thread_that_is_joined_then(tmp_path: Path) -> None:
    """The garbage collector may run in the writer's own thread."""
    loop = Loop(tmp_path, None, compile("0", "", "eval"))
    thread = threading.Thread(target=loop.end, name="tfwatch-writer")
    thread.start()
    thread.join()
    wait_until(lambda: loop.over)
    assert loop.path
    wait_until(lambda: open_run(loop.path or "").ended is not None)


# -- ends ------------------------------------------------------------------------------------------------


def test_what_the_iterable_raises_is_what_the_loop_raises_and_the_run_failed(tmp_path: Path) -> None:
    error = OSError("no such share")

    def batches() -> Iterator[int]:
        yield from range(3)
        raise error

    tracked = tfwatch.track(batches(), tmp_path)
    with pytest.raises(OSError, match="no such share") as raised:
        for _ in tracked:
            pass
    assert raised.value is error
    run = opened(tracked)
    (failure,) = of(run, TrainingFailed)
    assert (cause(run), len(run.steps), failure.step) == ("failed", 3, 3)
    assert failure.error == "OSError: no such share"
    assert "in batches" in failure.traceback


def test_a_loop_that_goes_on_after_an_error_is_recorded_on(tmp_path: Path) -> None:
    class Flaky:
        n = 0

        def __iter__(self) -> Flaky:
            return self

        def __next__(self) -> int:
            self.n += 1
            if self.n == 3:
                raise ValueError("a bad record")
            if self.n == 6:
                raise StopIteration
            return self.n

    with tfwatch.track(Flaky(), tmp_path) as tracked:
        steps = iter(tracked)
        assert [next(steps), next(steps)] == [1, 2]
        with pytest.raises(ValueError, match="a bad record"):
            next(steps)
        assert list(steps) == [4, 5]
    assert (cause(opened(tracked)), len(opened(tracked).steps)) == ("finished", 4)


def test_an_exception_in_a_with_block_is_in_the_folder(tmp_path: Path) -> None:
    tracked = tfwatch.track(range(5), tmp_path)
    with pytest.raises(ZeroDivisionError), tracked:
        assert [1 / (2 - n) for n in tracked]
    (failure,) = of(opened(tracked), TrainingFailed)
    assert (cause(opened(tracked)), failure.step, len(opened(tracked).steps)) == ("failed", 3, 3)


def test_an_interrupt_is_no_failure(tmp_path: Path) -> None:
    def interrupted(n: int) -> None:
        raise KeyboardInterrupt

    tracked = tfwatch.track(range(5), tmp_path)
    with pytest.raises(KeyboardInterrupt), tracked:
        list(map(interrupted, tracked))
    run = opened(tracked)
    assert (cause(run), of(run, TrainingFailed)) == ("stopped", [])
    assert run.ended is not None
    assert run.ended.detail == "KeyboardInterrupt"


def test_a_loop_that_is_left_is_stopped(tmp_path: Path) -> None:
    tracked = tfwatch.track(BATCHES, tmp_path)
    for _ in range(2):
        for n, _ in enumerate(tracked):
            if n == 2:
                break
    path = tracked.run_path
    del tracked
    assert path
    run = open_run(path)
    assert run.ended is not None
    assert (run.ended.cause, run.ended.detail) == ("stopped", "the loop was left before its data ended")
    assert run.steps["epoch"].tolist() == [0] * 3 + [1] * 3


def test_a_run_ends_when_its_last_loop_did_and_not_with_the_process(tmp_path: Path) -> None:
    code = "import time\nfor n in tfwatch.track(range(3), RUNS): pass\ntime.sleep(0.5)"
    (run,) = python(code, tmp_path)
    assert (cause(run), len(run.steps)) == ("finished", 3)
    assert run.length_s < 0.4


UNCAUGHT = """
def train():
    for epoch in range(2):
        for n, batch in enumerate(tfwatch.track(range(5), RUNS)):
            if epoch and n == 3:
                step(batch)
    raise ValueError("later")

def step(batch):
    raise {error}

{call}
"""


@pytest.mark.parametrize(
    ("error", "rc", "ends"),
    [
        pytest.param("ValueError('bad batch')", 1, ("failed", "ValueError: bad batch"), id="an exception"),
        pytest.param("KeyboardInterrupt", -2, ("stopped", "KeyboardInterrupt"), id="an interrupt"),
    ],
)
def test_an_exception_that_nobody_catches_is_told(error: str, rc: int, ends: tuple[str, str], tmp_path: Path) -> None:
    (run,) = python(UNCAUGHT.format(error=error, call="train()"), tmp_path / "runs", rc=rc)
    assert run.ended is not None
    assert (run.ended.cause, run.ended.detail) == ends
    assert len(run.steps) == 9
    assert [failure.step for failure in of(run, TrainingFailed)] == ([9] if ends[0] == "failed" else [])


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(UNCAUGHT.replace("    step(batch)", "    break"), id="after a break"),
        pytest.param(UNCAUGHT.replace("                step(batch)", "                pass"), id="after the last loop"),
    ],
)
def test_an_exception_of_later_is_not_the_loops(code: str, tmp_path: Path) -> None:
    (run,) = python(code.format(error="TypeError", call="train()"), tmp_path / "runs", rc=1)
    assert (cause(run), of(run, TrainingFailed)) == ("stopped" if "break" in code else "finished", [])


# -- what fails in tfwatch, and where it cannot be ---------------------------------------------------------


def test_a_folder_that_cannot_be_made_leaves_the_loop_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    with tfwatch.track(BATCHES, tmp_path / "file" / "runs") as tracked:
        assert len(list(tracked)) == 5
    assert tracked.run_path is None
    assert "nothing is recorded" in capsys.readouterr().err


def test_a_run_that_cannot_begin_leaves_the_loop_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tfwatch.training.loop.ScriptRun", lambda *_: 1 / 0)
    with tfwatch.track(BATCHES, tmp_path) as tracked:
        assert len(list(tracked)) == 5
    assert "this loop is not watched: ZeroDivisionError" in capsys.readouterr().err


def test_what_breaks_in_tfwatch_never_reaches_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tfwatch.track(BATCHES, tmp_path) as tracked:
        for n, _ in enumerate(tracked):
            if n == 2:
                monkeypatch.setattr(RunWriter, "step", lambda *_: 1 / 0)
        assert n == 4
        assert len(list(tracked)) == 5
    run = opened(tracked)
    assert (len(of(run, WatchFailed)), len(run.steps), cause(run)) == (1, 2, "finished")


def test_a_batch_of_any_kind_is_recorded(tmp_path: Path) -> None:
    class Odd:
        @property
        def shape(self) -> Any:
            raise RuntimeError("not known yet")

    batches: list[Any] = [Odd(), None, "text", {}, np.zeros(())]
    with tfwatch.track(batches, tmp_path) as tracked:
        assert len(list(tracked)) == 5
    assert (len(opened(tracked).steps), of(opened(tracked), WatchFailed)) == (5, [])


def test_a_forked_process_goes_on_looping_and_leaves_its_parents_run_alone(tmp_path: Path) -> None:
    with tfwatch.track(range(6), tmp_path) as tracked:
        steps = iter(tracked)
        next(steps)
        if (child := os.fork()) == 0:
            try:
                rest = list(steps)
                tracked.close()
                mine = sum(1 for _ in tracked)
                tracked.close()
            finally:
                os._exit(0 if (rest, mine) == ([1, 2, 3, 4, 5], 6) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert list(steps) == [1, 2, 3, 4, 5]
    runs = runs_in(tmp_path)
    assert [(cause(run), len(run.steps)) for run in runs] == [("finished", 6)] * 2
    assert [run.path == tracked.run_path for run in runs] == [run.manifest.pid == os.getpid() for run in runs]


def _worker(runs_dir: Path) -> None:
    for _ in tfwatch.track(range(4), runs_dir):
        pass


def test_a_forked_worker_has_a_run_of_its_own(tmp_path: Path) -> None:
    process = multiprocessing.get_context("fork").Process(target=_worker, args=(tmp_path,))
    process.start()
    process.join(timeout=20)
    (run,) = (open_run(run) for run in list_runs(tmp_path))
    assert (process.exitcode, run.manifest.pid, cause(run), len(run.steps)) == (0, process.pid, "finished", 4)


# -- TensorFlow ----------------------------------------------------------------------------------------------


def dataset(arrays: Any) -> Any:
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices(arrays).shuffle(50, seed=1).batch(16)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU is taken for a GPU: what is asked of one is asked of it."""
    from tfwatch.training import loop, marker
    from tfwatch.training.device import Device

    make = marker.make_marker
    monkeypatch.setattr(loop, "find_device", lambda: Device("GPU:0", accelerated=True))
    monkeypatch.setattr(marker, "make_marker", lambda writer: make(writer, "/CPU:0"))


def weights(model: Any) -> str:
    return hashlib.sha256(b"".join(weight.tobytes() for weight in model.get_weights())).hexdigest()


def by_tape(make_model: Callable[[], Any], arrays: Any, wrap: Callable[[Any], Any]) -> tuple[str, list[float]]:
    """A loop that leaves its losses on the device."""
    import keras
    import tensorflow as tf

    model, data = make_model(), dataset(arrays)
    optimizer, loss_of = keras.optimizers.Adam(), keras.losses.SparseCategoricalCrossentropy()

    @tf.function
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    losses = []
    for _ in range(2):
        for x, y in wrap(data):
            losses.append(step(x, y))
    return weights(model), [float(loss) for loss in losses]


def by_train_on_batch(
    make_model: Callable[[], Any], arrays: Any, wrap: Callable[[Any], Any]
) -> tuple[str, list[float]]:
    model, data, losses = make_model(), dataset(arrays), []
    for _ in range(2):
        for x, y in wrap(data):
            losses.append(float(model.train_on_batch(x, y)[0]))
    return weights(model), losses


def by_hand(make_model: Callable[[], Any], arrays: Any, wrap: Callable[[Any], Any]) -> tuple[str, list[float]]:
    """Without a compiled function, with random numbers of the operations' own."""
    import tensorflow as tf

    make_model()
    weight, data, losses = tf.Variable(tf.random.normal((4,))), dataset(arrays), []
    for _ in range(2):
        for _, y in wrap(data):
            with tf.GradientTape() as tape:
                noise = tf.random.normal((4,))
                loss = tf.reduce_sum((tf.gather(weight + noise, y)) ** 2)
            weight.assign_sub(1e-3 * tf.convert_to_tensor(tape.gradient(loss, weight)))
            losses.append(float(loss))
    return hashlib.sha256(weight.numpy().tobytes()).hexdigest(), losses


LOOPS = [by_tape, by_train_on_batch, by_hand]


@pytest.mark.tensorflow
@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_is_the_same_bit_for_bit(
    loop: Any, arrays: Any, make_model: Callable[[], Any], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    bare = loop(make_model, arrays, lambda data: data)
    assert loop(make_model, arrays, lambda data: tfwatch.track(data, tmp_path / "cpu")) == bare
    request.getfixturevalue("gpu")
    assert loop(make_model, arrays, lambda data: tfwatch.track(data, tmp_path / "gpu")) == bare
    for runs_dir in (tmp_path / "cpu", tmp_path / "gpu"):
        (run,) = runs_in(runs_dir)
        assert len(run.steps) == 2 * len(dataset(arrays))
        assert run.manifest.accelerated == (runs_dir.name == "gpu")
        assert of(run, WatchFailed) == []


@pytest.mark.tensorflow
def test_steps_that_trace_are_told_from_the_others(tmp_path: Path) -> None:
    import tensorflow as tf

    @tf.function
    def step(x: Any) -> Any:
        return tf.reduce_sum(x)

    shapes = [(2,), (2,), (2,), (3, 3), (2,)]
    with tfwatch.track([tf.zeros(shape) for shape in shapes], tmp_path) as tracked:
        for x in tracked:
            step(x)
    flags = opened(tracked).steps["flags"].tolist()
    assert flags == [Flag.EPOCH_START | Flag.COMPILE, 0, 0, Flag.RETRACE, 0]


@pytest.mark.tensorflow
def test_a_gpu_is_asked_and_every_step_has_its_row_in_order(gpu: None, arrays: Any, tmp_path: Path) -> None:
    import tensorflow as tf

    with tfwatch.track(dataset(arrays), tmp_path) as tracked:
        for _ in range(5):
            for x, _ in tracked:
                tf.reduce_sum(x)
    run = opened(tracked)
    rows = run.steps
    assert rows["step"].tolist() == list(range(1, len(rows) + 1))
    assert len(rows) == 5 * len(dataset(arrays))
    inside = np.flatnonzero(np.diff(rows["epoch"]) == 0)
    total_ms = rows["wait_ms"] + rows["compute_ms"]
    np.testing.assert_allclose(total_ms[inside], np.diff(rows["start_ns"])[inside] / 1e6, rtol=1e-3)
    assert run.manifest.split.startswith("by the loop's fetches and the GPU: ")
    (note,) = of(run, Noted)
    assert note.text.startswith("an idle GPU answers after ")


@pytest.mark.tensorflow
def test_a_gpu_that_cannot_be_asked_is_told(
    gpu: None, arrays: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfwatch.training.marker.make_marker", lambda writer: 1 / 0)
    with tfwatch.track(dataset(arrays), tmp_path) as tracked:
        count = sum(1 for _ in tracked)
    run = opened(tracked)
    assert len(run.steps) == count
    assert "the GPU cannot be asked (division by zero)" in of(run, Noted)[0].text


@pytest.mark.tensorflow
def test_a_gpu_is_not_asked_where_its_work_cannot_be_seen(gpu: None, tmp_path: Path) -> None:
    import tensorflow as tf

    with tf.Graph().as_default(), tfwatch.track(range(5), tmp_path) as tracked:
        assert len(list(tracked)) == 5
    (note,) = of(opened(tracked), Noted)
    assert note.text == "the GPU cannot be asked: a fetch that blocks counts as data wait"


@pytest.mark.tensorflow
def test_devices_that_tensorflow_has_not_taken_yet_are_left_alone() -> None:
    code = (
        "import tensorflow as tf\n"
        "from tfwatch.training.marker import may_ask\n"
        "print(may_ask())\n"
        "tf.config.set_logical_device_configuration(tf.config.list_physical_devices('CPU')[0],\n"
        "    [tf.config.LogicalDeviceConfiguration()] * 2)\n"
        "tf.constant(1)\n"
        "print(may_ask())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["False", "True"]


@pytest.mark.tensorflow
def test_a_landing_is_told_on_the_run_s_clock() -> None:
    """In a process of its own: with the operations deterministic, as in these tests, another clock is read."""
    code = (
        "from pathlib import Path\n"
        "from tests.runs.folders import make_manifest\n"
        "from tfwatch.runs.writer import RunWriter\n"
        "from tfwatch.training.marker import make_marker\n"
        "writer = RunWriter(None, make_manifest())\n"
        "mark = make_marker(writer, '/CPU:0')\n"
        "for _ in range(100):\n"
        "    before_ns = writer.now_ns()\n"
        "    landed_ns = mark()\n"
        "    assert before_ns - 1e6 < landed_ns < writer.now_ns() + 1e6\n"
        "print('told')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "told", done.stderr
