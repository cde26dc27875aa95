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
from tfwatch.core.events import PipelineSwitched, SwitchFailed
from tfwatch.runs.run import open_run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.tensorflow
LENGTH = 4
CHANGES = {0: {"workers": 3}, 1: {"multiprocessing": True}, 2: {"workers": "off"}}


def train(arrays: Any, make_model: Make, callbacks: list[Any], **options: Any) -> tuple[Any, ...]:
    """Return the weights and losses of a training with a seed, which shuffles the batches; and the
    threads that read its `PyDataset`, for its first batch and in each epoch."""
    import keras

    threads: list[set[str]] = [set()]

    class Batches(keras.utils.PyDataset):
        def __len__(self) -> int:
            return LENGTH

        def __getitem__(self, index: int) -> Any:
            threads[-1].add(threading.current_thread().name)
            return tuple(array[index * 16 : (index + 1) * 16] for array in arrays)

        def on_epoch_end(self) -> None:
            threads.append(set())

    keras.utils.set_random_seed(3)
    model = make_model()
    history = model.fit(Batches(), epochs=4, verbose=0, callbacks=callbacks, **options)
    weights = [weight.tolist() for weight in model.get_weights()]
    return (weights, history.history, random.random()), threads


@pytest.mark.parametrize(
    ("start_method", "switches", "options", "failed"),
    [
        ("fork", CHANGES, {}, ""),
        ("forkserver", {0: {"multiprocessing": True}}, {}, "processes begin by forkserver"),
        ("fork", CHANGES, {"steps_per_epoch": 3}, "steps_per_epoch: an epoch does not begin"),
        ("fork", {0: {"workers": 99}}, {}, "OSError: no more workers"),
    ],
)
def test_its_workers_change_with_an_epoch_or_say_why_not_and_the_result_stays(
    start_method: str,
    switches: dict[int, Any],
    options: dict[str, int],
    failed: str,
    arrays: Any,
    make_model: Make,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import keras
    from keras.src.trainers.data_adapters import py_dataset_adapter as adapter

    class Enqueuer(adapter.OrderedEnqueuer):
        def __init__(self, *given: Any, workers: int, **named: Any) -> None:
            if workers == 99:
                raise OSError("no more workers")
            super().__init__(*given, workers=workers, **named)

    monkeypatch.setattr(adapter, "OrderedEnqueuer", Enqueuer)
    monkeypatch.setattr(multiprocessing, "get_start_method", lambda **_: start_method)
    watch = watch_in(tmp_path)
    ask = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: watch.set(**switches.get(epoch, {}))
    )
    bare, _ = train(arrays, make_model, [], **options)
    watched, threads = train(arrays, make_model, [watch, ask], **options)

    assert watched == bare
    run = open_run(watch.run_path)
    reasons = [event.reason for event in events_of(run, SwitchFailed)]
    assert {reason.startswith(failed) for reason in reasons} == ({True} if failed else set())
    made = [(one.knob, one.new, one.step - 1) for one in events_of(run, PipelineSwitched)]
    assert failed or made == [
        ("workers", "3", LENGTH),
        ("multiprocessing", "on", 2 * LENGTH),
        ("workers", "off", 3 * LENGTH),
    ]
    assert failed or "Thread-" in min(threads[2]), "threads of Keras' pool"
    assert failed or not threads[3], "processes have a copy of it"
    assert not multiprocessing.active_children()
