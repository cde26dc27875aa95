"""A user's pipeline rebuilt with other settings: the skeleton below the gate, and the stages above
it.

The skeleton is the pipeline without the maps that can be rebuilt. One of its elements holds the
elements of one batch, so a gate over it closes between two batches. Above the gate they are taken
apart again, and maps and batches follow with other settings. A map and a stage that only orders
elements give the same in either order.

Functions are the traced ones of the user's stages: nothing is traced again, and tables and
variables are shared.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tfwatch.core.knobs import DEFAULT
from tfwatch.tfdata import work_ahead
from tfwatch.tfdata.pipeline_tree import (
    BATCHES,
    MAPS,
    ORDERS,
    CannotRebuildError,
    Tree,
    has_unknown_order,
    is_true,
)
from tfwatch.tfdata.stage_names import HIDDEN, function_of, inputs_of, kind_of, label_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tfwatch.core.knobs import Knobs

OTHER_SHAPE = "its batches would have another shape or type"
#: The two seeds of each shuffle, by the stage's `id`.
Seeds = dict[int, tuple[int, int]]


@dataclass(frozen=True)
class RebuiltPipeline:
    """A pipeline that can be built again with other settings."""

    tree: Tree
    options: tf.data.Options

    @staticmethod
    def of(tree: Tree) -> RebuiltPipeline:
        """Return the pipeline of a tree.

        Raises:
            CannotRebuildError: its elements cannot be put together at the gate.
        """
        spec, after = tree.base.element_spec, f"the elements after {label_of(tree.base)}"
        if any(kind_of(node) in BATCHES for node in tree.chain) and not has_fixed_shapes(spec):
            raise CannotRebuildError(f"{after} have no fixed shape")
        if has_ragged_rows(spec):
            raise CannotRebuildError(f"{after} are rows of a ragged tensor")
        return RebuiltPipeline(tree, tree.top.options())

    @property
    def prefetch(self) -> int | None:
        """The script's own prefetch at the end, as its `buffer_size`; None without one."""
        last = next(
            (node for node in reversed(self.tree.chain) if kind_of(node) != "Options"), None
        )
        return int(last._buffer_size) if last is not None and kind_of(last) == "Prefetch" else None

    @property
    def maps(self) -> list[Any]:
        """The maps whose parallel calls the knob `workers` sets, in the order of the pipeline."""
        return [node for node in self.tree.chain if kind_of(node) in MAPS]

    def source(self, seeds: Seeds, batches: int) -> tf.data.Dataset:
        """Return the elements of each batch after so many, in the order that these seeds give.

        Raises:
            CannotRebuildError: a stage over a shuffle is of an unknown kind.
        """
        data = with_seeds(self.tree.base, seeds)
        for are_batches, nodes in self._skeleton:
            if are_batches:
                data = _hide_over(_whole_batch(nodes, data), data)
            else:
                data = functools.reduce(lambda below, one: rebuild(one, below, seeds), nodes, data)
        skipped = _hide_over(data.skip(batches), data) if batches else data
        return skipped.with_options(self._options(None))

    def build(self, blocks: tf.data.Dataset, knobs: Knobs) -> tf.data.Dataset:
        """Return the pipeline under these knobs over the elements of `source`."""
        data = blocks
        for _ in range(sum(are_batches for are_batches, _ in self._skeleton)):
            data = _hide_over(data.unbatch(), data)
        for node in self._upper:
            if kind_of(node) in MAPS and knobs.workers != DEFAULT:
                data = _with_calls(node, data, work_ahead.count_of(knobs.workers))
            else:
                data = rebuild(node, data)
        size = self.prefetch if knobs.prefetch == DEFAULT else work_ahead.count_of(knobs.prefetch)
        built = (data if size is None else data.prefetch(size)).with_options(self._options(knobs))
        if built.element_spec != self.tree.top.element_spec:
            raise CannotRebuildError(OTHER_SHAPE)
        return built

    @property
    def _skeleton(self) -> list[tuple[bool, list[Any]]]:
        """The batches that follow one another, True, and the stages between them that order
        elements, False."""
        nodes = [node for node in self.tree.chain if kind_of(node) in (*BATCHES, *ORDERS)]
        groups = itertools.groupby(nodes, lambda node: kind_of(node) in BATCHES)
        return [(are_batches, [*group]) for are_batches, group in groups]

    @property
    def _upper(self) -> list[Any]:
        """The maps, batches and inner prefetches."""
        nodes = [node for node in self.tree.chain if kind_of(node) in (*MAPS, *BATCHES, "Prefetch")]
        while nodes and kind_of(nodes[-1]) == "Prefetch":
            nodes.pop()
        return nodes

    def _options(self, knobs: Knobs | None) -> tf.data.Options:
        """Return the script's options with those of the knobs, or without knobs those of the
        source."""
        ours = {"inject_prefetch": False}
        if knobs is not None:
            ours = work_ahead.options(knobs).experimental_optimization._options
        off = {name: value for name, value in ours.items() if value is False}
        chosen = tf.data.Options().merge(self.options)
        # Those of the script's data set refuse changes.
        optimization = tf.data.experimental.OptimizationOptions()
        for name, value in {**self.options.experimental_optimization._options, **off}.items():
            setattr(optimization, name, value)
        chosen.experimental_optimization = optimization
        chosen.deterministic = True
        chosen.experimental_warm_start = False
        return chosen


def _hide_over(data: Any, below: Any) -> Any:
    """Hide the stages over `below`."""
    node = data
    while node is not below:
        node = inputs_of(hide(node))[0]
    return data


def hide(stage: Any) -> Any:
    """Mark a stage as tfwatch's own, which no table shows."""
    setattr(stage, HIDDEN, True)
    return stage


def has_fixed_shapes(spec: Any) -> bool:
    """Return whether elements hold only plain tensors of a known shape."""
    leaves = tf.nest.flatten(spec)
    return all(type(one) is tf.TensorSpec and one.shape.is_fully_defined() for one in leaves)


def has_ragged_rows(spec: Any) -> bool:
    """Return whether elements hold rows of a ragged tensor: TensorFlow encodes them for its stages,
    and a gate gives them as plain tensors."""
    leaves = tf.nest.flatten(spec)
    return any(isinstance(leaf, tf.RaggedTensorSpec) and not leaf.ragged_rank for leaf in leaves)


def with_seeds(dataset: Any, seeds: Seeds) -> Any:
    """Return a data set whose stages that reshuffle use these seeds; itself if nothing changes.

    Raises:
        CannotRebuildError: a stage over one of these is of an unknown kind.
    """
    inputs = inputs_of(dataset)
    replaced = [with_seeds(each, seeds) for each in inputs]
    is_same = all(new is old for new, old in zip(replaced, inputs, strict=True))
    if is_same and id(dataset) not in seeds:
        return dataset
    if len(inputs) == 1:
        return rebuild(dataset, replaced[0], seeds)
    if kind_of(dataset) == "Zip":
        return tf.data.Dataset.zip(tf.nest.pack_sequence_as(dataset._datasets, replaced))
    if kind_of(dataset) == "Concatenate":
        return replaced[0].concatenate(replaced[1])
    raise CannotRebuildError(f"{label_of(dataset)} cannot be built again")


def can_rebuild(node: Any) -> bool:
    """Return whether a stage can be built over other data."""
    return kind_of(node) == "Shuffle" or kind_of(node) in _MAKERS


def rebuild(node: Any, data: Any, seeds: Seeds | None = None) -> Any:
    """Return a stage over other data. seeds: of a shuffle whose order is not known else.

    Raises:
        CannotRebuildError: it is of an unknown kind.
    """
    if kind_of(node) == "Shuffle":
        return _shuffle(node, data, (seeds or {}).get(id(node)))
    make = _MAKERS.get(kind_of(node))
    if make is None:
        raise CannotRebuildError(f"{label_of(node)} cannot be built again")
    return make(node, data)


def _whole_batch(nodes: list[Any], data: Any) -> Any:
    """Return the elements of a batch of batches, side by side: smaller ones have no common shape
    with the others."""
    size = math.prod(int(node._batch_size) for node in nodes)
    return data.batch(size, drop_remainder=all(is_true(node._drop_remainder) for node in nodes))


def _padded_batch(node: Any, data: Any) -> Any:
    return data.padded_batch(
        node._batch_size,
        node._padded_shapes,
        node._padding_values,
        drop_remainder=is_true(node._drop_remainder),
    )


def _parallel_batch(node: Any, data: Any) -> Any:
    flags = {"true": True, "false": False}
    return data.batch(
        node._batch_size,
        drop_remainder=is_true(node._drop_remainder),
        num_parallel_calls=node._num_parallel_calls,
        deterministic=flags.get(node._deterministic),
    )


def _like(
    node: Any,
    data: Any,
    operation: Callable[..., Any],
    kind: Any = None,
    changes: Mapping[str, Any] = MappingProxyType({}),
    **arguments: Any,
) -> Any:
    """Return a stage with the attributes and the traced function of `node` over other data.

    operation: makes its variant, from these arguments and those that every stage has. kind: another
    class. changes: of the attributes.
    """
    from tensorflow.python.data.ops import dataset_ops

    stage = object.__new__(kind or type(node))
    own = ("_self_", "_variant", "_graph", "_options")
    attributes = {name: value for name, value in vars(node).items() if not name.startswith(own)}
    vars(stage).update(attributes, **changes, _input_dataset=data)
    if wrapper := function_of(node):
        name = "predicate" if kind_of(node) == "Filter" else "f"
        captured = wrapper.function.captured_inputs
        arguments |= {name: wrapper.function, "other_arguments": captured}
    variant = operation(input_dataset=data._variant_tensor, **arguments, **stage._common_args)
    dataset_ops.UnaryDataset.__init__(stage, data, variant)
    return stage


def _with_calls(node: Any, data: Any, calls: Any) -> Any:
    """Return a map with so many parallel calls; None: a sequential one."""
    from tensorflow.python.data.ops import map_op

    same = {
        "use_inter_op_parallelism": node._use_inter_op_parallelism,
        "preserve_cardinality": node._preserve_cardinality,
    }
    if calls is None:
        same["force_synchronous"] = getattr(node, "_force_synchronous", False)
        return _like(node, data, tf.raw_ops.MapDataset, map_op._MapDataset, **same)
    same["use_unbounded_threadpool"] = getattr(node, "_use_unbounded_threadpool", False)
    count = tf.cast(calls, tf.int64)
    return _like(
        node,
        data,
        tf.raw_ops.ParallelMapDatasetV2,
        map_op._ParallelMapDataset,
        {"_num_parallel_calls": count, "_deterministic": "true"},
        num_parallel_calls=count,
        deterministic="true",
        **same,
    )


def _interleave(node: Any, data: Any) -> Any:
    same = {"cycle_length": node._cycle_length, "block_length": node._block_length}
    if kind_of(node) == "Interleave":
        return _like(node, data, tf.raw_ops.InterleaveDataset, **same)
    autotuned = tf.constant(tf.data.AUTOTUNE, tf.int64)
    return _like(
        node,
        data,
        tf.raw_ops.ParallelInterleaveDatasetV4,
        changes={"_deterministic": "true"},
        num_parallel_calls=node._num_parallel_calls,
        buffer_output_elements=getattr(node, "_buffer_output_elements", autotuned),
        prefetch_input_elements=getattr(node, "_prefetch_input_elements", autotuned),
        deterministic="true",
        **same,
    )


def _shuffle(node: Any, data: Any, seeds: tuple[int, int] | None) -> Any:
    """Return a shuffle; with seeds, one of this order in each iterator."""
    if has_unknown_order(node) and seeds is None:
        raise CannotRebuildError(f"the order of {label_of(node)} is unknown")
    seed, seed2 = seeds or (node._seed, node._seed2)
    return _like(
        node,
        data,
        tf.raw_ops.ShuffleDatasetV3,
        changes={"_reshuffle_each_iteration": False, "_seed": seed, "_seed2": seed2},
        buffer_size=node._buffer_size,
        seed=tf.cast(seed, tf.int64),
        seed2=tf.cast(seed2, tf.int64),
        seed_generator=tf.raw_ops.DummySeedGenerator(),
        reshuffle_each_iteration=False,
    )


_MAKERS: dict[str, Callable[[Any, Any], Any]] = {
    "Map": lambda node, data: _with_calls(node, data, None),
    "ParallelMap": lambda node, data: _with_calls(node, data, node._num_parallel_calls),
    "Batch": lambda node, data: data.batch(node._batch_size, is_true(node._drop_remainder)),
    "ParallelBatch": _parallel_batch,
    "PaddedBatch": _padded_batch,
    "Filter": lambda node, data: _like(node, data, tf.raw_ops.FilterDataset),
    "FlatMap": lambda node, data: _like(node, data, tf.raw_ops.FlatMapDataset),
    "Interleave": _interleave,
    "ParallelInterleave": _interleave,
    "TFRecord": lambda node, data: tf.data.TFRecordDataset(
        data, node._compression_type, node._buffer_size, node._num_parallel_reads
    ),
    "Unbatch": lambda _, data: data.unbatch(),
    "Take": lambda node, data: data.take(node._count),
    "Skip": lambda node, data: data.skip(node._count),
    "Repeat": lambda node, data: data.repeat(node._count),
    "Shard": lambda node, data: data.shard(node._num_shards, node._index),
    "Prefetch": lambda node, data: data.prefetch(int(node._buffer_size)),
    "Options": lambda node, data: data.with_options(node.options()),
}
