"""What holds a real `fit` up has a name."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Any

import pytest

from tfwatch.analysis.causes import Pauses
from tfwatch.analysis.spikes import find_spikes
from tfwatch.core.events import Paused
from tfwatch.runs.opened import Run, open_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.tensorflow

SLOW_MS = 60.0


def of_sensors() -> list[Any]:
    """The sensors' own among those whom the collector calls."""
    return [callback for callback in gc.callbacks if callback.__module__.startswith("tfwatch.sensors")]


@pytest.fixture
def run(tmp_path: Path, make_model: Callable[[], Any], arrays: Any) -> Run:
    """Ten epochs of 21 steps: the callback is slow in step 150, and again at the end of the third epoch.

    No step of the first epoch is near: a GPU's are slow until it has tried its ways to compute each shape.
    """
    import keras

    from tfwatch import Watch

    class CustomCheckpoint(keras.callbacks.Callback):
        steps = 0

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.steps += 1
            if self.steps == 150:
                time.sleep(SLOW_MS / 1e3)

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            if epoch == 2:
                time.sleep(2 * SLOW_MS / 1e3)

    before = of_sensors()
    watch = Watch(runs_dir=tmp_path)
    make_model().fit(*arrays, batch_size=16, epochs=10, verbose=0, callbacks=[watch, CustomCheckpoint()])
    assert of_sensors() == before
    assert watch.run_path is not None
    return open_run(watch.run_path)


def test_a_slow_callback_is_named_by_its_class(run: Run) -> None:
    named = [spike for spike in find_spikes(run.steps, Pauses(run.events)) if spike.step == 150]

    assert [(spike.cause, spike.detail, spike.part) for spike in named] == [("checkpoint", "CustomCheckpoint", "host")]
    assert named[0].extra_ms >= SLOW_MS - 5

    paused = [event for event in run.events if isinstance(event, Paused) and event.cause == "checkpoint"]
    assert any(event.took_ms >= 2 * SLOW_MS for event in paused)
