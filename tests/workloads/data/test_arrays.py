"""Arrays are loaded by Keras, or synthetic where loading fails, without TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfwatch.workloads.data import arrays


def test_loaded_arrays_are_unchanged() -> None:
    images, labels = np.zeros((3, 4, 4), np.uint8), np.array([[1], [2], [3]])
    loaded = arrays._load(
        "X", lambda: ((images, labels), (images, labels)), (4, 4), (3, 3), lambda _: None
    )
    assert loaded.images is images
    assert loaded.labels.tolist() == [1, 2, 3]
    assert loaded.note == ""


def test_arrays_that_cannot_be_loaded_are_synthetic_with_a_note() -> None:
    def fail() -> Any:
        raise Exception(
            "URL fetch failure on https://example.com/x.npz: None -- timed out\nsecond line"
        )

    reported: list[str] = []
    made = arrays._load("MNIST", fail, (28, 28), (50, 10), reported.append)
    assert made.images.shape == (50, 28, 28)
    assert made.images.dtype == np.uint8
    assert made.held_labels.shape == (10,)
    assert "MNIST cannot be loaded (URL fetch failure" in made.note
    assert made.note.endswith("synthetic images of the same shapes replace it")
    assert "second line" not in made.note
    assert reported[-1].startswith("MNIST cannot be loaded: ")


def test_synthetic_arrays_are_always_the_same() -> None:
    one, other = (arrays.generated((5, 5, 3), (20, 5), "why") for _ in range(2))
    np.testing.assert_array_equal(one.images, other.images)
    np.testing.assert_array_equal(one.labels, other.labels)
