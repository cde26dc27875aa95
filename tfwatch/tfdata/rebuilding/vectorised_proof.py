"""The proof that vectorised maps give a pipeline's batches bit for bit, on real examples of it.

Its examples are read a second time, in the order of the source: shuffles are left out, and so is a cache, which two
iterators cannot fill at once. Nothing of the pipeline that trains is touched.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from tfwatch.core import units
from tfwatch.tfdata import work_ahead
from tfwatch.tfdata.rebuilding.pipeline_rebuild import rebuild, with_inputs
from tfwatch.tfdata.rebuilding.pipeline_tree import (
    BATCHES,
    MAPS,
    CannotRebuildError,
    Tree,
    is_true,
    kind_of,
    label_of,
    why_not_read_twice,
)
from tfwatch.tfdata.rebuilding.vectorised_maps import (
    Group,
    VectorisedMaps,
    find_groups,
    inexact_operation,
    vectorise,
)
from tfwatch.tfdata.stages.stage_names import inputs_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

#: Full batches that are compared: no more once their examples take so many bytes, but at least two.
BATCHES_COMPARED, _MOST_BYTES, _LEAST = 8, 64 * 2**20, 2
#: Stages that only order elements: their examples are compared as they come.
_LEFT_OUT = ("Shuffle", "Cache", "Repeat")


class StoppedError(Exception):
    """The training ended before the proof."""


@dataclass(frozen=True, slots=True)
class Proof:
    """Maps that were equal. batches, examples: so many were compared; the last batch may be a smaller one."""

    maps: VectorisedMaps
    batches: int
    examples: int

    @property
    def words(self) -> str:
        """Return `equal in 9 batches (265 examples)`."""
        return (
            f"equal in {units.count(self.batches)} batches ({units.count(self.examples)} examples)"
        )


class ProvableMaps:
    """The maps of a pipeline that can be vectorised, and their proof once it is there.

    why_not: the reason why they are not vectorised, also one that the proof found; else empty.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.groups = find_groups(tree)
        self.why_not = ""
        self.proof: Proof | None = None
        _read_again(tree.base)

    def prove(self, is_stopped: Callable[[], bool]) -> None:
        """Prove that the maps are equal, or set the reason why they are not; a stop leaves both open."""
        try:
            self.proof = prove(self._tree, self.groups, is_stopped)
        except CannotRebuildError as error:
            self.why_not = str(error)
        except StoppedError:
            return


def prove(tree: Tree, groups: tuple[Group, ...], is_stopped: Callable[[], bool]) -> Proof:
    """Compare batches of the pipeline with those of its vectorised maps.

    Raises:
        CannotRebuildError: they differ, or they may differ in other batches. StoppedError: it has no time left.
    """
    stages = _stages(tree, groups)
    examples = _examples(tree, groups, is_stopped)
    plain = examples
    for node in stages:
        plain = rebuild(node, plain, {})
    fast, maps = _vectorised(stages, groups, examples)
    compared, differing, elements = _compare(plain, fast, is_stopped)
    if differing:
        raise CannotRebuildError(
            f"values differ in {units.count(differing)} of {units.count(elements)} elements"
        )
    for node in (node for group in groups for node in group.maps):
        if operation := inexact_operation(node):
            raise CannotRebuildError(
                f"{label_of(node)} was equal in {compared} batches, but {operation} may round otherwise in others"
            )
    return Proof(maps, compared, int(examples.cardinality()))


def _stages(tree: Tree, groups: tuple[Group, ...]) -> list[Any]:
    """Return the maps and batches up to the last group's batch."""
    last = next(n for n, node in enumerate(tree.chain) if node is groups[-1].batch)
    return [node for node in tree.chain[: last + 1] if kind_of(node) in (*MAPS, *BATCHES)]


def _vectorised(
    stages: list[Any], groups: tuple[Group, ...], examples: Any
) -> tuple[Any, VectorisedMaps]:
    """Return the pipeline with vectorised maps over these examples, and those maps."""
    data, found = examples, []
    for node in stages:
        group = next((one for one in groups if one.batch is node), None)
        if any(node is one for each in groups for one in each.maps):
            continue
        data, maps = rebuild(node, data, {}), []
        for plain in group.maps if group else ():
            data = vectorise(plain, data)
            maps.append(data)
        found += [tuple(maps)] if group else []
    return data, VectorisedMaps(groups, tuple(found))


# -- examples -------------------------------------------------------------------------------------


def _examples(
    tree: Tree, groups: tuple[Group, ...], is_stopped: Callable[[], bool]
) -> tf.data.Dataset:
    """Return examples below the first map: of full batches, and of a smaller last one where the pipeline has one.

    Raises:
        CannotRebuildError: there are none. StoppedError: the training ended.
    """
    size, blocks = _batch_size(tree, groups), list[list[tf.Tensor]]()
    source = _ordered(tree).batch(size).with_options(work_ahead.without_autotune())
    for block in _stoppable(source, is_stopped):
        blocks.append(tf.nest.flatten(block))
        bytes_read = sum(_count_bytes(part) for one in blocks for part in one)
        if len(blocks) >= BATCHES_COMPARED or (len(blocks) >= _LEAST and bytes_read >= _MOST_BYTES):
            break
    if not blocks:
        raise CannotRebuildError("it gives no examples to prove it on")
    if rest := _rest(groups, size, int(blocks[-1][0].shape[0])):
        blocks.append([part[:rest] for part in blocks[0]])
    parts = [tf.concat(each, 0) for each in zip(*blocks, strict=True)]
    return tf.data.Dataset.from_tensor_slices(
        tf.nest.pack_sequence_as(tree.base.element_spec, parts)
    )


def _ordered(tree: Tree) -> Any:
    """Return the examples below the first map, without those that the pipeline takes out before the first batch."""
    data = _read_again(tree.base)
    for node in tree.chain[
        : next(n for n, node in enumerate(tree.chain) if kind_of(node) in BATCHES)
    ]:
        data = rebuild(node, data, {}) if kind_of(node) in ("Take", "Skip", "Shard") else data
    return data


def _batch_size(tree: Tree, groups: tuple[Group, ...]) -> int:
    """Return the number of examples in a batch of the last group."""
    return math.prod(
        int(node._batch_size) for node in _stages(tree, groups) if kind_of(node) in BATCHES
    )


def _rest(groups: tuple[Group, ...], size: int, last: int) -> int:
    """Return the size of a smaller last batch to add; 0 where the pipeline has none, or the examples have one."""
    batch = groups[-1].batch
    if any(is_true(group.batch._drop_remainder) for group in groups) or last < size:
        return 0
    count = int(inputs_of(batch)[0].cardinality())
    return count % size if count > 0 and size == int(batch._batch_size) else size // 2


def _stoppable(data: tf.data.Dataset, is_stopped: Callable[[], bool]) -> Iterator[Any]:
    for element in data:
        if is_stopped():
            raise StoppedError
        yield element


def _count_bytes(part: tf.Tensor) -> int:
    if part.dtype == tf.string:
        return int(tf.reduce_sum(tf.strings.length(part)))
    return int(part.shape.num_elements() or 0) * int(part.dtype.size)


def _read_again(dataset: Any) -> Any:
    """Return a data set of the same elements that can be read beside it, in the order of the source.

    Raises:
        CannotRebuildError: a second reader would change what the training gets.
    """
    inputs = inputs_of(dataset)
    if kind_of(dataset) in _LEFT_OUT:
        return _read_again(inputs[0])
    if why := why_not_read_twice(dataset):
        raise CannotRebuildError(f"a proof would read its examples a second time: {why}")
    again = [_read_again(each) for each in inputs]
    if all(new is old for new, old in zip(again, inputs, strict=True)):
        return dataset
    return rebuild(dataset, again[0], {}) if len(again) == 1 else with_inputs(dataset, again)


# -- comparing ------------------------------------------------------------------------------------


def _compare(plain: Any, fast: Any, is_stopped: Callable[[], bool]) -> tuple[int, int, int]:
    """Return the number of batches, of the elements of tensors that differ in any bit, and of all elements.

    Raises:
        CannotRebuildError: batches have other shapes, or the pipeline raises. StoppedError: the training ended.
    """
    batches = differing = elements = 0
    for pair in _stoppable(tf.data.Dataset.zip((plain, fast)), is_stopped):
        batches += 1
        for one, other in zip(*map(tf.nest.flatten, pair), strict=True):
            differing += count_differing(one.numpy(), other.numpy())
            elements += int(tf.size(one))
    return batches, differing, elements


def count_differing(one: NDArray[Any], other: NDArray[Any]) -> int:
    """Return the number of elements of two arrays that differ in any bit."""
    if (one.shape, one.dtype) != (other.shape, other.dtype):
        return max(one.size, other.size)
    if one.dtype == object:
        return int((one != other).sum())
    differ: NDArray[np.bool_] = _bytes(one) != _bytes(other)
    return int(differ.any(axis=1).sum())


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    return (
        np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(array.size, array.itemsize)
    )
