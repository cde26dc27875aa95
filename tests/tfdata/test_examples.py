"""How many examples a batch holds, and how large it is."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.tensorflow


def test_a_batch_is_as_large_as_its_tensors_and_one_of_strings_is_not_weighed() -> None:
    import tensorflow as tf

    from tfwatch.tfdata.batches import bytes_of

    images, labels = tf.zeros((32, 8, 8, 3)), tf.zeros((32,), tf.int64)
    assert bytes_of((images, labels)) == bytes_of({"x": [images], "y": labels}) == 32 * (8 * 8 * 3 * 4 + 8)
    assert bytes_of(tf.ragged.constant([[1, 2], [3]])) == 3 * 4 + 3 * 8
    assert bytes_of((images, tf.constant(["a", "b"]))) is None
    assert bytes_of(np.zeros(3)) is None
    assert bytes_of(()) is None


def test_a_batch_without_a_tensor_tells_no_number_of_examples() -> None:
    import tensorflow as tf

    from tfwatch.tfdata.batches import images_in
    from tfwatch.watch.fused_steps import _examples_in

    batches = ({"x": [tf.zeros((32, 8))]}, tf.zeros((0, 8)), tf.zeros(()), ())
    assert [images_in(batch) for batch in batches] == [32, 0, None, None]
    assert [int(_examples_in(batch)) for batch in batches] == [32, 0, -1, -1]
