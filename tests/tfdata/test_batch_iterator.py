"""The shapes that a traced step knows of its batch."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.tensorflow


def test_plain_tensors_get_static_shapes_in_the_graph_and_other_parts_are_unchanged() -> None:
    import tensorflow as tf

    from tfwatch.tfdata.live_switch import BatchSpec

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
