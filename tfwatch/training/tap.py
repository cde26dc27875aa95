"""Fetches batches from a tf.data iterator at the least cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

if TYPE_CHECKING:
    from collections.abc import Callable


class Tap:
    """The batches of one iterator.

    A batch of plain tensors comes as the flat list of them: 20 us of Python instead of the 120 us of the
    iterator's own `next`, which packs them. `Shape.pack` makes a batch of it, inside the traced step.

    Attributes:
        next: gives the next batch; raises StopIteration at the end.
        shape: what the batches look like.
        iterator: the iterator; it lives as long as its resource is used.
    """

    def __init__(self, iterator: Any) -> None:
        self.iterator = iterator
        self.shape = Shape(iterator.element_spec, plain=isinstance(iterator, tf.data.Iterator))
        self.next: Callable[[], Any] = iterator.__next__
        resource = getattr(iterator, "_iterator_resource", None)
        # Asynchronous eager execution would hand out a batch that is still on its way.
        if self.shape.flat and resource is not None and tf.config.experimental.get_synchronous_execution():
            self.next = _flat_next(resource, self.shape.flat)
        else:
            self.shape = Shape(iterator.element_spec, plain=False)


class Shape:
    """What a batch looks like.

    Attributes:
        spec: its nested structure. flat: the plain tensors in it, in order, where there is nothing else; else None.
    """

    def __init__(self, spec: Any, *, plain: bool) -> None:
        self.spec = spec
        leaves = tf.nest.flatten(spec)
        self.flat = leaves if plain and leaves and all(type(leaf) is tf.TensorSpec for leaf in leaves) else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shape) and (self.spec, self.flat) == (other.spec, other.flat)

    __hash__ = None  # type: ignore[assignment]

    def pack(self, batch: Any) -> Any:
        """A batch in its structure, from what a `Tap` gave."""
        return batch if self.flat is None else tf.nest.pack_sequence_as(self.spec, batch)

    def ensure(self, batch: Any) -> Any:
        """A batch in a graph, with the shapes of its plain tensors said there.

        Grappler knows them of what an iterator gives, as in Keras' own function, and not of an argument: it would
        rewrite the graph otherwise, and the last bits of what is trained would differ.
        """
        return tf.nest.map_structure(_ensured, self.spec, batch)


def _ensured(spec: Any, part: Any) -> Any:
    if type(spec) is not tf.TensorSpec or spec.shape.rank is None:
        return part
    with part.graph.colocate_with(part):  # where the batch lies: no copy to a GPU and back
        return tf.ensure_shape(part, spec.shape)


def _flat_next(resource: tf.Tensor, flat: list[tf.TensorSpec]) -> Callable[[], list[tf.Tensor]]:
    types, shapes = [leaf.dtype for leaf in flat], [leaf.shape for leaf in flat]
    get_next = tf.raw_ops.IteratorGetNext

    def take() -> list[tf.Tensor]:
        try:
            return get_next(iterator=resource, output_types=types, output_shapes=shapes)  # type: ignore[no-any-return]
        except tf.errors.OutOfRangeError:
            raise StopIteration from None

    return take
