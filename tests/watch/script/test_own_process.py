"""One process for all that needs its own: MirroredStrategy, a probe before TensorFlow starts, and a
process' end."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.watch.tracked import ROOT
from tests.whole import events_of
from tfwatch.core.events import PipelineSwitched, SensorMissing, StagesFound, SwitchFailed
from tfwatch.core.knobs import NotTimed, Refusal
from tfwatch.core.rows import PROGRESS
from tfwatch.runs.folder import RunFolder
from tfwatch.runs.format import PROGRESSES
from tfwatch.runs.library import list_runs
from tfwatch.runs.run import open_run
from tfwatch.runs.snapshot import Snapshot

pytestmark = pytest.mark.tensorflow

STEPS, EXAMPLES = 24, 180


@dataclass(frozen=True)
class Ended:
    """The process after its end. seen: what it printed."""

    folder: Path
    seen: dict[str, Any]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    folder = tmp_path_factory.mktemp("own_process")
    done = subprocess.run(
        [sys.executable, "-m", "tests.watch.own_process", str(folder)],
        cwd=ROOT,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Ended(folder, json.loads(done.stdout.splitlines()[-1]))


def test_devices_are_not_initialized_by_a_probe(ended: Ended) -> None:
    assert ended.seen["can_probe"] == [False, True]


def test_a_completion_is_on_the_runs_clock(ended: Ended) -> None:
    """In the tests' own processes, under op determinism, another clock is read."""
    assert ended.seen["completions"] == [True] * 100


def test_a_process_that_ends_completes_the_run(ended: Ended) -> None:
    runs = [open_run(run) for run in reversed(list_runs(ended.folder / "short"))]
    assert [len(run.fits) for run in runs] == [1, 2]
    assert [run.ended and run.ended.cause for run in runs] == ["finished", "finished"]


def test_a_step_that_is_built_for_another_device_beside_the_training_trains_the_same(
    ended: Ended,
) -> None:
    """From ordinary memory and from pinned: by step 9 it is built, as the script waits for it."""
    for is_equal, switches, built in ended.seen["copied"]:
        assert is_equal
        assert [[device[-5:] for device in batch] for batch in built] == [["CPU:1", "CPU:1"]]
        assert [new for new, _ in switches] == ["2", "off"]
        assert switches[0][1] <= 10


def test_distributed_batches_are_split_and_switched(ended: Ended) -> None:
    results = ended.seen
    assert results["watched"] == results["stock"]
    # Keras 3.15 itself fails with several steps per execution under this strategy: the test
    # compares with single steps, without their validation.
    assert [results["fused"][n] for n in (0, 2, 3)] == [results["stock"][n] for n in (0, 2, 3)]
    watched, fused, tracked = (open_run(path) for path in results["runs"])
    assert (watched.manifest.split, len(watched.steps)) == ("in-graph timestamps", STEPS)
    assert (fused.manifest.split, len(fused.steps)) == (
        "in-graph timestamps, steps_per_execution=3",
        STEPS,
    )
    assert not events_of(watched, PipelineSwitched)
    assert [(event.knob, event.new) for event in events_of(watched, SwitchFailed)] == [
        ("prefetch", "4")
    ]
    assert {run.manifest.copy_not_timed for run in (watched, fused)} == {NotTimed.CPU.value}
    assert [run.manifest.replicas for run in (watched, fused, tracked)] == [["CPU:0", "CPU:1"]] * 3
    assert [_examples(run) for run in (watched, fused, tracked)] == [
        *[EXAMPLES] * 2,
        EXAMPLES / 2,
    ]
    assert _describes_the_data_set(watched)
    _check_unknown_length(results["unknown"], [open_run(path) for path in results["unknown_runs"]])


def _check_unknown_length(results: list[list[Any]], runs: list[Snapshot]) -> None:
    """Compare with stock, which runs a step without a batch at each epoch's end: the optimizer
    counts it."""
    stock, watched, refused = results
    assert stock[2] == STEPS + 2
    assert watched == refused == stock
    splits = [
        "in-graph timestamps",
        "exact, as the clock cannot be read in the graph: no clock here",
    ]
    assert [run.manifest.split for run in runs] == splits
    assert [len(run.steps) for run in runs] == [STEPS] * 2
    assert [run.ended and run.ended.cause for run in runs] == ["finished"] * 2


def _examples(run: Snapshot) -> int:
    """Return the examples of all replicas, in each batch's whole."""
    assert run.folder
    rows = np.frombuffer(RunFolder(run.folder).read(PROGRESSES, 0, 10**6), PROGRESS)
    return int(rows["images"][-1])


def _describes_the_data_set(run: Snapshot) -> bool:
    (found,) = events_of(run, StagesFound)
    (missing,) = [one for one in events_of(run, SensorMissing) if one.sensor == "pipeline"]
    assert missing.reason.startswith("the iterator of a strategy has no model")
    assert run.manifest.switchable == []
    knobs = ("prefetch", "workers", "cache", "device_prefetch")
    assert {run.manifest.fixed[knob] for knob in knobs} == {Refusal.SPREAD.words}
    return "batch(8)" in found.names
