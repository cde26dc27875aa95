"""Every workload learns at its smallest, through all of `tfwatch train --json`."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.whole import generate_arrays, hold_out_few, write_images
from tfwatch import cli
from tfwatch.watch.step_log import StepLog
from tfwatch.workloads import registry
from tfwatch.workloads.models import conv, large_images, transfer

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("own_cache", "one_block")]

STEPS = 50


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two classes of 30 images."""
    return write_images(tmp_path_factory.mktemp("data"), 30, "disk", "stripes")


@pytest.fixture
def losses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The loss of each step, as it is reported: under `fit` the epoch's mean so far."""
    losses: list[float] = []
    report_progress = StepLog._report_progress

    def listen(step_log: StepLog, steps: int, examples: int | None, logs: dict[str, Any]) -> None:
        losses.append(logs["loss"])
        report_progress(step_log, steps, examples, logs)

    monkeypatch.setattr(StepLog, "_report_progress", listen)
    return losses


def edges(input_shape: tuple[int, ...], include_top: bool, weights: str | None) -> Any:
    """Return a network in place of MobileNetV2, whose layers take 10 s of CPU: `test_keras_cache.py` loads that one.

    It shows by how much pixels differ from their neighbours, by which stripes differ from disks.
    """
    import keras

    assert (include_top, weights) == (False, "imagenet")
    differences = keras.layers.Conv2D(1, (1, 2), activation="relu")
    network = keras.Sequential(
        [keras.Input(input_shape), differences, keras.layers.MaxPooling2D(4)]
    )
    differences.set_weights([np.repeat([-1.0, 1.0], 3).reshape(1, 2, 3, 1), np.zeros(1)])
    return network


@pytest.mark.parametrize("name", registry.WORKLOADS)
def test_its_loss_falls_in_fifty_steps(
    name: str,
    folder: Path,
    losses: list[float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    import keras

    generate_arrays(monkeypatch, 400)
    hold_out_few(monkeypatch)
    monkeypatch.setattr(keras.applications, "MobileNetV2", edges)
    monkeypatch.setattr(transfer, "SIZE", 64)
    monkeypatch.setattr(conv, "_SIDE", 64)
    monkeypatch.setattr(large_images, "_SHAPE", (64, 64, 3))
    entry = registry.WORKLOADS[name]
    own = {"size": "16", "image_size": "32", "data": str(folder), "weights": "imagenet"}
    options = [word for key in entry.takes for word in (f"--{key.replace('_', '-')}", own[key])]
    form = ["--fast-pipeline"] if entry.fast else []
    length = ["--batch-size", "4", "--steps", str(STEPS), "--seed", "1", "--prefetch", "1"]
    code = cli.main(
        ["train", name, *length, *form, *options, "--json", "--runs-dir", str(tmp_path / "runs")]
    )
    report = json.loads(capfd.readouterr().out)
    assert (code, report["workload"], report["steps"], len(losses)) == (0, name, STEPS, STEPS)
    assert report["settings"]["batch_size"] == 4
    assert math.isfinite(report["final_loss"])
    assert np.mean(losses[-10:]) < np.mean(losses[:10])
