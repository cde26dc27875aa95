"""The number of examples in a batch, and its size."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.tensorflow


def test_the_size_of_a_batch_is_that_of_its_tensors_and_unknown_for_strings() -> None:
    import tensorflow as tf

    from tfwatch.watch.fit.fetch import count_bytes

    images, labels = tf.zeros((32, 8, 8, 3)), tf.zeros((32,), tf.int64)
    assert (
        count_bytes((images, labels))
        == count_bytes({"x": [images], "y": labels})
        == 32 * (8 * 8 * 3 * 4 + 8)
    )
    assert count_bytes(tf.ragged.constant([[1, 2], [3]])) == 3 * 4 + 3 * 8
    assert count_bytes((images, tf.constant(["a", "b"]))) is None
    assert count_bytes(np.zeros(3)) is None
    assert count_bytes(()) is None
