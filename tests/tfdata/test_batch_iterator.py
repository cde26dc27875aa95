"""The shapes that a traced step knows of its batch, and the size of a batch."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfwatch.tfdata.live_switch import BatchSpec
from tfwatch.watch.fit.fetch import count_bytes

pytestmark = pytest.mark.tensorflow


def test_plain_tensors_get_static_shapes_in_the_graph_and_other_parts_are_unchanged() -> None:
    spec = {
        "plain": tf.TensorSpec((None, 3)),
        "ragged": tf.RaggedTensorSpec((None, None)),
        "sparse": tf.SparseTensorSpec((None, 4)),
        "unknown": tf.TensorSpec(None),
    }
    shape = BatchSpec(spec, plain=True)
    seen: list[Any] = []

    def step(batch: Any) -> Any:
        seen.append((batch, shape.ensure_shapes(batch)))
        return 0

    graph = tf.function(step, input_signature=[spec], autograph=False).get_concrete_function().graph
    assert [op.type for op in graph.get_operations()].count("EnsureShape") == 1
    ((given, ensured),) = seen
    assert ensured["plain"].op.type == "EnsureShape"
    assert ensured["plain"].shape.as_list() == [None, 3]
    assert all(ensured[name] is given[name] for name in ("ragged", "sparse", "unknown"))


def test_the_size_of_a_batch_is_that_of_its_tensors_and_unknown_for_strings() -> None:
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
