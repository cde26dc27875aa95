"""The cause of a pause in a real `fit` is named."""

from pathlib import Path
from typing import Any

import keras
import pytest

from tests.runs.folders import read_back
from tests.runs.processes import wait_until
from tests.watch.watched import Make
from tfwatch import Watch
from tfwatch.core.events import Paused
from tfwatch.runs.run import open_run
from tfwatch.runs.writer import RunWriter
from tfwatch.sensors.pauses import LEAST_MS

pytestmark = pytest.mark.tensorflow


def test_a_slow_callback_is_named_by_its_class(
    tmp_path: Path, make_model: Make, arrays: Any
) -> None:
    """It is slow in step 5 until the pause is seen and long enough; step 6 ends once it is
    reported."""

    def writer() -> RunWriter:
        assert watch._recorder
        return watch._recorder.writer

    def is_seen() -> bool:
        since_ns = writer().status[1]
        long_enough = writer().now_ns() - since_ns > 2 * LEAST_MS * 1e6
        return long_enough and writer().current_code == (since_ns, "CustomCheckpoint")

    def is_reported() -> bool:
        writer().flush()
        return any(
            isinstance(event, Paused) and event.cause == "checkpoint"
            for event in read_back(writer()).events
        )

    class CustomCheckpoint(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if batch in (4, 5):
                wait_until(is_seen if batch == 4 else is_reported)

    watch = Watch(runs_dir=tmp_path)
    make_model().fit(*arrays, batch_size=16, verbose=0, callbacks=[watch, CustomCheckpoint()])
    run = open_run(watch.run_path or "")
    end_ns = int(run.steps["start_ns"][5])
    extra_ms = float(run.steps["host_ms"][4])
    assert extra_ms > 2 * LEAST_MS
    # On busy cores the report of step 6 is a pause too.
    pause, *_ = (one for one in run.events.of(Paused) if one.cause == "checkpoint")
    assert pause.detail == "CustomCheckpoint"
    assert end_ns - extra_ms * 1e6 <= pause.at_ns
