"""A script's `PyDataset` under `Watch`: its workers change with an epoch, and the training's result
stays the same."""

from __future__ import annotations

import multiprocessing
import random
import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.watch.watched import Make, watch_in
from tests.whole import events_of
from tfwatch.core.events import PipelineSwitched, SwitchAsked, SwitchFailed
from tfwatch.runs.run import open_run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tfwatch.runs.snapshot import Snapshot

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def start_method(request: pytest.FixtureRequest) -> Iterator[str]:
    """Processes begin in this way; by itself Python forks before 3.14, and has a server fork from
    3.14 on."""
    before = multiprocessing.get_start_method()
    multiprocessing.set_start_method(request.param, force=True)
    yield request.param
    multiprocessing.set_start_method(before, force=True)


def make_batches(arrays: Any, **options: Any) -> Any:
    """Return a `PyDataset` that notes the threads that read it, in lists of one epoch each."""
    import keras

    x, y = arrays

    class Batches(keras.utils.PyDataset):
        def __init__(self) -> None:
            super().__init__(**options)
            self.threads: list[set[str]] = [set()]

        def __len__(self) -> int:
            return len(x) // 16

        def __getitem__(self, index: int) -> Any:
            self.threads[-1].add(threading.current_thread().name)
            return x[index * 16 : (index + 1) * 16], y[index * 16 : (index + 1) * 16]

        def on_epoch_end(self) -> None:
            self.threads.append(set())

    return Batches()


def switching(watch: Any, switches: dict[int, dict[str, Any]]) -> Any:
    """Return a callback that switches in the middle of some epochs."""
    import keras

    epoch = [0]

    def switch(batch: int, logs: Any = None) -> None:
        if batch == 1:
            watch.set(**switches.get(epoch[0], {}))

    def begin(number: int, logs: Any = None) -> None:
        epoch[0] = number

    return keras.callbacks.LambdaCallback(on_epoch_begin=begin, on_train_batch_end=switch)


def trained(
    make_model: Make, data: Any, callbacks: list[Any], epochs: int = 2, **options: Any
) -> Any:
    """Return the weights and losses of a training with a seed, which shuffles the batches."""
    import keras

    keras.utils.set_random_seed(3)
    model = make_model()
    history = model.fit(data, epochs=epochs, verbose=0, callbacks=callbacks, **options)
    return (
        [weight.tolist() for weight in model.get_weights()],
        history.history["loss"],
        random.random(),
    )


def failures(run: Snapshot) -> set[tuple[str, str]]:
    return {(event.knob, event.reason) for event in events_of(run, SwitchFailed)}


@pytest.mark.usefixtures("start_method")
@pytest.mark.parametrize("start_method", ["fork"], indirect=True)
def test_its_workers_change_with_an_epoch_and_the_result_stays(
    arrays: Any, make_model: Make, tmp_path: Path
) -> None:
    switches: dict[int, dict[str, Any]] = {
        0: {"workers": 3},
        1: {"queue_size": 2},
        2: {"multiprocessing": True},
        3: {"multiprocessing": False, "workers": "off"},
        4: {"queue_size": 5},
    }
    watch, data = watch_in(tmp_path), make_batches(arrays)
    bare = trained(make_model, make_batches(arrays), [], 6)
    watched = trained(make_model, data, [watch, switching(watch, switches)], 6)

    assert watched == bare
    run = open_run(watch.run_path)
    length = len(data)
    switched = [
        (event.knob, event.old, event.new, event.step) for event in events_of(run, PipelineSwitched)
    ]
    assert switched == [
        ("workers", "off", "3", length + 1),
        ("queue_size", "10", "2", 2 * length + 1),
        ("multiprocessing", "off", "on", 3 * length + 1),
        ("workers", "3", "off", 4 * length + 1),
        ("multiprocessing", "on", "off", 4 * length + 1),
    ]
    assert {event.epochs for event in events_of(run, SwitchAsked)} == {1}
    assert failures(run) == {("queue_size", "without workers there is no queue")}
    manifest = run.manifest
    assert {"workers", "multiprocessing", "queue_size"} <= {*manifest.switchable}
    assert manifest.epochs_until("workers", "4") == 1
    # Threads of Keras' pool read the second and third epoch, processes the fourth, and one thread
    # the others.
    read = [len(threads) for threads in data.threads[1:]]
    assert min(read[1:3]) >= 1
    assert all("Thread-" in name for name in data.threads[2])
    assert read[3] == 0, "processes have a copy of it"
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("start_method", ["forkserver"], indirect=True)
def test_processes_that_are_not_forked_are_refused(
    start_method: str, arrays: Any, make_model: Make, tmp_path: Path
) -> None:
    watch = watch_in(tmp_path)
    trained(
        make_model, make_batches(arrays), [watch, switching(watch, {0: {"multiprocessing": True}})]
    )

    run = open_run(watch.run_path)
    ((knob, reason),) = failures(run)
    assert (knob, run.manifest.fixed[knob]) == ("multiprocessing", reason)
    assert reason.startswith(f"processes begin by {start_method}")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        pytest.param(
            {"steps_per_epoch": 3}, "steps_per_epoch: an epoch does not begin", id="steps per epoch"
        ),
        pytest.param({}, "its on_epoch_begin changes", id="on_epoch_begin"),
    ],
)
def test_one_that_cannot_change_says_why(
    options: dict[str, int], why: str, arrays: Any, make_model: Make, tmp_path: Path
) -> None:
    watch, data = watch_in(tmp_path), make_batches(arrays)
    if not options:
        type(data).on_epoch_begin = lambda _: None
    trained(make_model, data, [watch, switching(watch, {0: {"workers": 3}})], **options)

    run = open_run(watch.run_path)
    assert [reason.startswith(why) for _, reason in failures(run)] == [True]
    assert run.manifest.fixed["workers"].startswith(why)
    assert "workers" not in run.manifest.switchable


def test_an_error_of_the_change_leaves_the_training_as_it_is(
    arrays: Any, make_model: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from keras.src.trainers.data_adapters import py_dataset_adapter

    def refuse(*_: object, **__: object) -> None:
        raise OSError("no more processes")

    watch, data = watch_in(tmp_path), make_batches(arrays)
    bare = trained(make_model, make_batches(arrays), [])
    monkeypatch.setattr(py_dataset_adapter, "OrderedEnqueuer", refuse)
    watched = trained(make_model, data, [watch, switching(watch, {0: {"workers": 3}})])

    assert watched == bare
    assert failures(open_run(watch.run_path)) == {("workers", "OSError: no more processes")}


def test_other_data_has_no_such_knobs(arrays: Any, make_model: Make, tmp_path: Path) -> None:
    watch = watch_in(tmp_path)
    trained(make_model, make_batches(arrays, workers=2), [watch])
    assert open_run(watch.run_path).manifest.knobs["workers"] == "2"
    x, y = arrays
    model = make_model()
    model.fit(x, y, verbose=0, callbacks=[watch])
    knobs = open_run(watch.run_path).manifest.knobs
    assert knobs["workers"] == "default"
    assert "queue_size" not in knobs


def test_settings_that_cannot_be_read_leave_the_fit_watched(
    arrays: Any,
    make_model: Make,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    from tfwatch.watch.fit import py_dataset

    def refuse(*_: object) -> str:
        raise AttributeError("another Keras")

    monkeypatch.setattr(py_dataset.PyDatasetSettings, "_find_obstacle", refuse)
    watch = watch_in(tmp_path)
    trained(make_model, make_batches(arrays), [watch])

    assert "the workers of this PyDataset cannot be switched" in capfd.readouterr().err
    assert len(open_run(watch.run_path).steps)
