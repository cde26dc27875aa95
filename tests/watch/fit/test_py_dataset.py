"""A script's `PyDataset` under `Watch`: its workers change with an epoch, and the training's result
stays the same."""

import multiprocessing
import random
import threading
import types
from typing import Any

import keras
import pytest
from keras.src.trainers.data_adapters import py_dataset_adapter as adapter

from tests.watch.watched import Make
from tests.whole import events_of
from tfwatch.core.events import PipelineSwitched, RandomDrawsAllowed, SwitchFailed
from tfwatch.runs.run import open_run

pytestmark = pytest.mark.tensorflow
LENGTH = 4
CHANGES = {0: {"workers": 3}, 1: {"multiprocessing": True}, 2: {"workers": "off"}}


def train(arrays: Any, make_model: Make, callbacks: list[Any], **options: Any) -> tuple[Any, ...]:
    """Return the weights and losses of a training with a seed, which shuffles the batches; and the
    threads that read its `PyDataset`, for its first batch and in each epoch."""
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
    watch: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Enqueuer(adapter.OrderedEnqueuer):
        def __init__(self, *given: Any, workers: int, **named: Any) -> None:
            if workers == 99:
                raise OSError("no more workers")
            super().__init__(*given, workers=workers, **named)

    monkeypatch.setattr(adapter, "OrderedEnqueuer", Enqueuer)
    monkeypatch.setattr(multiprocessing, "get_start_method", lambda **_: start_method)
    ask = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: watch.set(**switches.get(epoch, {}))
    )
    bare, _ = train(arrays, make_model, [], **options)
    watched, threads = train(arrays, make_model, [watch, ask], **options)

    assert watched == bare
    run = open_run(watch.run_path)
    line = train.__code__.co_firstlineno + 9
    assert run.manifest.batch_class == "Batches"
    assert run.manifest.batch_place == f"test_py_dataset.py:{line}"
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


def flipped(array: Any) -> Any:
    """Return an array, turned over at random."""
    import numpy as np

    return array[::-1] if np.random.default_rng(1).random() < 0.5 else array


class Noise:
    """Adds to arrays what it draws."""

    def __init__(self) -> None:
        import numpy as np

        self.generator = np.random.default_rng(1)

    def __call__(self, array: Any) -> Any:
        return array + self.drawn(array)

    def drawn(self, array: Any) -> Any:
        return self.generator.standard_normal(array.shape)


class Proxy:
    """Stands for an object that is not there yet."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"asked for {name}")


class LazyModule(types.ModuleType):
    """Imports on demand what it is asked for."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"imports {name}")


proxy, lazy = Proxy(), LazyModule("lazy")


def of_no_module() -> Any:
    """Return a function whose module is not known."""
    made: dict[str, Any] = {}
    exec("def same(array): return array", made)
    return made["same"]


def with_unset_closure() -> Any:
    """Return a function of a variable that is not set yet."""

    def same(array: Any) -> Any:
        return array if len(array) else later

    if LENGTH == 0:
        later = 0
    return same


@pytest.mark.parametrize(
    ("change", "drawn"),
    [
        (lambda array: array, ""),
        (flipped, "random"),
        (lambda array: flipped(array), "random"),
        (Noise(), "standard_normal"),
        (lambda array: array if len(array) else (proxy, lazy), ""),
        (of_no_module(), ""),
        (with_unset_closure(), ""),
    ],
)
def test_one_that_draws_random_numbers_has_workers_once_the_user_accepts_others(
    change: Any, drawn: str, arrays: Any, make_model: Make, watch: Any
) -> None:
    class Batches(keras.utils.PyDataset):
        def __init__(self) -> None:
            super().__init__()
            self.change, self.order = change, list(range(LENGTH))

        def __len__(self) -> int:
            return LENGTH

        def __getitem__(self, index: int) -> Any:
            at = self.order[index] * 16
            x, y = (array[at : at + 16] for array in arrays)
            return self.change(x), y

        def on_epoch_end(self) -> None:
            random.shuffle(self.order)  # between two epochs nobody else draws

    asked = {0: {"workers": 2}, 1: {"workers": 3, "random_draws": True}}
    ask = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: watch.set(**asked.get(epoch, {}))
    )
    make_model().fit(Batches(), epochs=3, verbose=0, callbacks=[watch, ask])

    run = open_run(watch.run_path)
    reasons = [event.reason for event in events_of(run, SwitchFailed)]
    accepted = [event.reason for event in events_of(run, RandomDrawsAllowed)]
    why = [f"the PyDataset's __getitem__ draws random numbers ({drawn})"] if drawn else []
    assert reasons == accepted == why
    made = [one.new for one in events_of(run, PipelineSwitched)]
    assert made == (["3"] if drawn else ["2", "3"])
