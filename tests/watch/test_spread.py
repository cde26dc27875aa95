"""Training under MirroredStrategy, in another process: logical devices are set before TensorFlow starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.whole import events_of
from tfwatch.core.events import PipelineSwitched, SensorMissing, StagesFound, SwitchFailed
from tfwatch.core.refusals import PER_REPLICA, NotTimed
from tfwatch.core.rows import PROGRESS
from tfwatch.runs.format import PROGRESSES
from tfwatch.runs.opened import Run, open_run
from tfwatch.runs.streams import FolderSource

pytestmark = pytest.mark.tensorflow

STEPS, EXAMPLES = 24, 180


def test_distributed_batches_are_split_and_not_switched(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.watch.spread", str(tmp_path)]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"}
    done = subprocess.run(
        command,
        cwd=Path(__file__).parents[2],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])
    assert results["again"] == results["stock"]
    assert results["watched"] == results["exact"] == results["stock"]
    # Keras 3.15 itself fails with several steps per execution under this strategy: the test compares with single steps,
    # without their validation.
    assert [results["fused"][n] for n in (0, 2, 3)] == [results["stock"][n] for n in (0, 2, 3)]
    watched, exact, fused, tracked = (open_run(path) for path in results["runs"])
    assert (watched.manifest.split, len(watched.steps)) == ("in-graph timestamps", STEPS)
    assert (exact.manifest.split, len(exact.steps)) == ("exact", STEPS)
    assert (fused.manifest.split, len(fused.steps)) == ("in-graph timestamps, steps_per_execution=3", STEPS)
    refused = [event.reason for event in events_of(watched, SwitchFailed)]
    assert refused == ["batches are spread over several devices"]
    assert {run.manifest.copy_not_timed for run in (watched, exact, fused)} == {NotTimed.CPU.value}
    assert not events_of(watched, PipelineSwitched)
    assert [run.manifest.replicas for run in (watched, exact, fused, tracked)] == [["CPU:0", "CPU:1"]] * 4
    assert [_examples(run) for run in (watched, exact, fused, tracked)] == [*[EXAMPLES] * 3, EXAMPLES / 2]
    assert _describes_the_data_set(watched)
    _check_unknown_length(results["unknown"], [open_run(path) for path in results["unknown_runs"]])


def _check_unknown_length(results: list[list[Any]], runs: list[Run]) -> None:
    """Compare with stock, which runs a step without a batch at each epoch's end: the optimizer counts it."""
    stock, watched, refused = results
    assert stock[2] == STEPS + 2
    assert watched == refused == stock
    splits = ["in-graph timestamps", "exact, as the clock cannot be read in the graph: no clock here"]
    assert [run.manifest.split for run in runs] == splits
    assert [len(run.steps) for run in runs] == [STEPS] * 2
    assert [run.ended and run.ended.cause for run in runs] == ["finished"] * 2


def _examples(run: Run) -> int:
    """Return the examples of all replicas, in each batch's whole."""
    assert run.path
    rows = np.frombuffer(FolderSource(run.path).read(PROGRESSES, 0, 10**6), PROGRESS)
    return int(rows["images"][-1])


def _describes_the_data_set(run: Run) -> bool:
    (found,) = events_of(run, StagesFound)
    missing = [event.reason for event in events_of(run, SensorMissing) if event.sensor == "pipeline"]
    assert missing == [
        "the iterator of a strategy has no model: only the stages of the code are known, without figures"
    ]
    assert run.manifest.switchable == []
    assert run.manifest.fixed["prefetch"] == f"{PER_REPLICA} 1"
    return bool(found.names == ["from_tensor_slices", "shuffle(30)", "map(double)", "batch(8)"])
