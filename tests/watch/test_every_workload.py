"""Every workload learns at its smallest, through all of `tfwatch train --json`."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.whole import generate_arrays, write_images
from tfwatch import cli
from tfwatch.watch.step_log import StepLog
from tfwatch.workloads import registry
from tfwatch.workloads.models import conv, large_images, transfer

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("own_cache")]

STEPS = 50
#: The images' width and height for MobileNetV2, in place of 224: the smallest that it has weights for.
SIZE = 96


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


@pytest.fixture
def known_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Keras' cache with weights for MobileNetV2 that distinguish images, as ImageNet's do.

    They are random, and the normalisation's means and variances those of the images: without them all that random
    weights give of an image is 1e-12.
    """
    import h5py
    import keras
    import tensorflow as tf
    from keras.src.legacy.saving import legacy_h5_format
    from keras.src.utils import file_utils

    keras.utils.set_random_seed(1)
    base = keras.applications.MobileNetV2(input_shape=(SIZE, SIZE, 3), include_top=False, weights=None)
    images = [tf.io.decode_jpeg(path.read_bytes()) for path in sorted(folder.glob("*/*.jpg"))]
    for layer in base.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = 0.0
    base(tf.stack([tf.image.resize(image, (SIZE, SIZE)) for image in images[::4]]) / 127.5 - 1.0, training=True)
    (tmp_path / "models").mkdir()
    name = f"mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_{SIZE}_no_top.h5"
    with h5py.File(tmp_path / "models" / name, "w") as file:
        legacy_h5_format.save_weights_to_hdf5_group(file, base)
    monkeypatch.setattr(file_utils.config, "keras_home", lambda: str(tmp_path))
    monkeypatch.setattr(file_utils, "validate_file", lambda *_, **__: True)


@pytest.mark.parametrize("name", registry.WORKLOADS)
def test_its_loss_falls_in_fifty_steps(
    name: str,
    folder: Path,
    losses: list[float],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    generate_arrays(monkeypatch, 400)
    monkeypatch.setattr(transfer, "SIZE", SIZE)
    monkeypatch.setattr(conv, "_SIDE", 64)
    monkeypatch.setattr(large_images, "_SHAPE", (64, 64, 3))
    if name == "transfer":
        request.getfixturevalue("known_network")
        capfd.readouterr()
    entry = registry.WORKLOADS[name]
    own = {"size": "16", "image_size": "32", "data": str(folder), "weights": "imagenet"}
    options = [word for key in entry.takes for word in (f"--{key.replace('_', '-')}", own[key])]
    form = ["--fast-pipeline"] if entry.fast else []
    length = ["--batch-size", "4", "--steps", str(STEPS), "--seed", "1", "--prefetch", "1"]
    code = cli.main(["train", name, *length, *form, *options, "--json", "--runs-dir", str(tmp_path / "runs")])
    report = json.loads(capfd.readouterr().out)
    assert (code, report["workload"], report["steps"], len(losses)) == (0, name, STEPS, STEPS)
    assert report["settings"]["batch_size"] == 4
    assert math.isfinite(report["final_loss"])
    assert np.mean(losses[-10:]) < np.mean(losses[:10])
