"""Keras' own loading code over files in its cache, without downloads."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tfwatch.workloads.data import arrays
from tfwatch.workloads.models import transfer
from tfwatch.workloads.workload import Settings

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.tensorflow


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return Keras' home; its files are synthetic, so their hashes are not checked."""
    from keras.src.utils import file_utils

    def fail(*_: Any) -> None:
        raise AssertionError("downloads")

    monkeypatch.setattr(file_utils.config, "keras_home", lambda: str(tmp_path))
    monkeypatch.setattr(file_utils, "validate_file", lambda *_, **__: True)
    monkeypatch.setattr(file_utils, "urlretrieve", fail)
    return tmp_path


def test_mnist(cache: Path) -> None:
    (cache / "datasets").mkdir()
    images, labels = np.full((6, 28, 28), 9, np.uint8), np.arange(6, dtype=np.uint8)
    np.savez(
        cache / "datasets" / "mnist.npz",
        x_train=images,
        y_train=labels,
        x_test=images[:2],
        y_test=labels[:2],
    )
    loaded = arrays.mnist(lambda _: None)
    assert loaded.note == ""
    np.testing.assert_array_equal(loaded.images, images)
    assert (loaded.labels.tolist(), loaded.held_labels.tolist()) == ([0, 1, 2, 3, 4, 5], [0, 1])


def test_cifar10(cache: Path) -> None:
    folder = cache / "datasets" / "cifar-10-batches-py-target" / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    folder.parent.with_name("cifar-10-batches-py-target_archive").touch()
    batch = pickle.dumps({b"data": np.full((10_000, 3072), 7, np.uint8), b"labels": [1, 2] * 5_000})
    for name in (
        "data_batch_1",
        "data_batch_2",
        "data_batch_3",
        "data_batch_4",
        "data_batch_5",
        "test_batch",
    ):
        (folder / name).write_bytes(batch)
    loaded = arrays.cifar10(lambda _: None)
    assert loaded.note == ""
    assert (loaded.images.shape, loaded.held_images.shape) == (
        (50_000, 32, 32, 3),
        (10_000, 32, 32, 3),
    )
    assert loaded.labels[:4].tolist() == [1, 2, 1, 2]
    assert int(loaded.images.max()) == 7


def test_weights_of_a_known_network(cache: Path) -> None:
    import h5py
    import keras
    from keras.src.legacy.saving import legacy_h5_format

    (cache / "models").mkdir()
    keras.utils.set_random_seed(5)
    known = keras.applications.MobileNetV2(
        input_shape=(transfer.SIZE, transfer.SIZE, 3), include_top=False, weights=None
    )
    path = cache / "models" / "mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_224_no_top.h5"
    with h5py.File(path, "w") as file:
        legacy_h5_format.save_weights_to_hdf5_group(file, known)
    base, note = transfer.make_base(Settings(), lambda _: None)
    assert note == ""
    assert not base.trainable
    for one, other in zip(known.get_weights(), base.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_weights_that_cannot_be_loaded_are_random_with_a_note(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import keras

    _, note = transfer.make_base(Settings(seed=1), lambda _: None)
    assert "cannot be loaded (downloads): the base starts with random weights" in note
    monkeypatch.setattr(
        keras.applications,
        "MobileNetV2",
        lambda **options: keras.Sequential(name=str(options["weights"])),
    )
    base, note = transfer.make_base(Settings(weights="none"), lambda _: None)
    assert (base.name, note) == ("None", "")
