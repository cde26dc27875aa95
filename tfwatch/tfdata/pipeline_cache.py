"""A cache in a user's pipeline: its place, live and in the script's own lines, and the pipeline
with it.

The cache keeps the results of the last map that gives the same in each epoch. Below the maps up to
that one, and below a shuffle, elements are numbered, and the number is the key: so a shuffle keeps
its order, and a cache that is not full serves what it has. Once it is full, numbers replace all
that is below.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from tfwatch.core.knobs import AUTO, DEFAULT
from tfwatch.tfdata import work_ahead
from tfwatch.tfdata.cache import ExampleStore
from tfwatch.tfdata.pipeline_rebuild import can_rebuild, has_fixed_shapes, hide, rebuild
from tfwatch.tfdata.pipeline_tree import (
    MAPS,
    NEUTRAL,
    ORDERS,
    REPEATS_SHUFFLE,
    CannotRebuildError,
    has_unknown_order,
    reshuffles,
    why_in_any_order,
    why_not_same,
)
from tfwatch.tfdata.stage_names import inputs_of, kind_of, label_of, nodes_of, spine_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.tfdata.cache import CachedExamples
    from tfwatch.tfdata.pipeline_rebuild import Seeds

#: The kinds of numpy types that the store shares with TensorFlow: truth values, integers, floats.
_PLAIN_KINDS = set("biuf")


@dataclass(frozen=True, slots=True)
class CachePlace:
    """The place of a cache.

    below: the stage whose elements are numbered, `count` of them. kept: the stages over it, up to
    the map whose results are kept. above: those over them, up to the top.
    """

    below: Any
    count: int
    kept: tuple[Any, ...]
    above: tuple[Any, ...]

    @property
    def specs(self) -> list[tf.TensorSpec]:
        """The parts of an element that is kept."""
        return list(tf.nest.flatten(self.kept[-1].element_spec))

    @property
    def shuffles(self) -> list[Any]:
        """The shuffles of which only an iterator knows the order."""
        return [node for node in (*self.kept, *self.above) if has_unknown_order(node)]

    def make_store(self) -> ExampleStore:
        """Return a store for the elements, closed at first."""
        return ExampleStore(self.count, self.specs)

    def build(self, cached: CachedExamples, seeds: Seeds, workers: str) -> tf.data.Dataset:
        """Return the pipeline with the cache, in the order that these seeds give; the maps whose
        results are kept run as one."""
        numbers = hide(tf.data.Dataset.range(self.count))
        data = numbers if cached.is_full else hide(tf.data.Dataset.zip((numbers, self.below)))
        for node in self.kept:
            data = data if kind_of(node) in MAPS else rebuild(node, data, seeds)
        # TensorFlow makes no map that reads an outside resource parallel by itself.
        count = work_ahead.count_of(AUTO if workers == DEFAULT else workers)
        data = data.map(self._get(cached) if cached.is_full else self._find(cached), count)
        data = data if cached.is_full else hide(data.map(self._keep(cached)))
        for node in self.above:
            data = rebuild(node, data, seeds)
        return data

    def _get(self, cached: CachedExamples) -> Callable[..., Any]:
        """Return a map of a number to its element in a full cache."""

        def get(number: tf.Tensor) -> Any:
            return self._pack(cached.get(number))

        return self._named(get)

    def _find(self, cached: CachedExamples) -> Callable[..., Any]:
        """Return a map of a number and an element below to the number and the parts of the element
        that is kept."""

        def find(number: tf.Tensor, element: Any) -> tuple[tf.Tensor, tuple[tf.Tensor, ...]]:
            parts = tf.cond(
                cached.has(number), lambda: cached.get(number), lambda: self._compute(element)
            )
            return number, parts

        return self._named(find)

    def _keep(self, cached: CachedExamples) -> Callable[..., Any]:
        """Return a map that writes the parts of an element into the cache and gives the element."""

        def keep(number: tf.Tensor, parts: tuple[tf.Tensor, ...]) -> Any:
            return self._pack(cached.keep(number, *parts))

        return _not_converted(keep)

    def _compute(self, element: Any) -> tuple[tf.Tensor, ...]:
        """Return what the traced functions of the maps make of an element below."""
        from tensorflow.python.data.util import structure

        flat = structure.to_tensor_list(self.below.element_spec, element)
        for node in self.kept:
            flat = node._map_func.function(*flat) if kind_of(node) in MAPS else flat
        return tuple(flat)

    def _pack(self, parts: tuple[tf.Tensor, ...]) -> Any:
        spec = self.kept[-1].element_spec
        shapes = [one.shape for one in self.specs]
        return tf.nest.pack_sequence_as(spec, [*map(tf.ensure_shape, parts, shapes)])

    def _named(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Name a function as the map whose results are kept, so that tables show it as that."""
        own = getattr(self.kept[-1]._map_func, "_func", None)
        function.__name__ = getattr(own, "__name__", "<lambda>")
        return _not_converted(function)


def _not_converted(function: Callable[..., Any]) -> Callable[..., Any]:
    plain: Callable[..., Any] = tf.autograph.experimental.do_not_convert(function)
    return plain


def find_place(dataset: Any) -> CachePlace:
    """Return the place where a cache saves the most: after the last map that gives the same in each
    epoch.

    Raises:
        CannotRebuildError: it has none, or the size of the cache is unknown.
    """
    if why := why_in_any_order(dataset):
        raise CannotRebuildError(why)
    refused: list[str] = []
    for at, node in enumerate(spine := spine_of(dataset)):
        if kind_of(node) == "Cache":
            raise CannotRebuildError(f"{label_of(node)} keeps elements already")
        if kind_of(node) not in MAPS:
            continue
        if why := why_not_same(node):
            refused.append(why)
            continue
        try:
            return _place(spine, at)
        except CannotRebuildError as error:
            refused.insert(0, str(error))
    raise CannotRebuildError(refused[0] if refused else "the pipeline has no map")


def _place(spine: list[Any], at: int) -> CachePlace:
    """Return the place over a map that gives the same in each epoch.

    Raises:
        CannotRebuildError: its elements differ from epoch to epoch, or its results cannot be kept.
    """
    lowest = _lowest(spine, at)
    below = inputs_of(spine[lowest])[0]
    place = CachePlace(
        below,
        int(below.cardinality()),
        tuple(spine[at : lowest + 1][::-1]),
        tuple(spine[:at][::-1]),
    )
    _check_same(below)
    _check_above(place)
    _check_size(place)
    return place


def _lowest(spine: list[Any], at: int) -> int:
    """Return the lowest stage down to which all only order elements or are maps that give the
    same."""
    lowest = at
    for n, node in enumerate(spine[at:], at):
        is_map = kind_of(node) in MAPS
        if why_not_same(node) if is_map else kind_of(node) not in (*ORDERS, *NEUTRAL):
            break
        lowest = n if is_map or has_unknown_order(node) else lowest
    return lowest


def _check_same(below: Any) -> None:
    """Refuse a data set whose elements may differ from epoch to epoch."""
    for node in nodes_of(below):
        if reshuffles(node):
            raise CannotRebuildError(
                f"{label_of(node)} gives {label_of(below)} other elements in each epoch"
            )
        if why := why_not_same(node):
            raise CannotRebuildError(why)


def _check_above(place: CachePlace) -> None:
    """Refuse stages over the cache that cannot be built again."""
    for node in place.above:
        if not can_rebuild(node):
            raise CannotRebuildError(f"{label_of(node)} cannot be built again")
    stages = [*place.kept, *place.above]
    if place.shuffles and sum(kind_of(node) == "Shuffle" for node in stages) > 1:
        raise CannotRebuildError(f"{label_of(place.shuffles[0])} is followed by another shuffle")
    if place.shuffles and any(
        kind_of(node) == "Repeat" for node in stages[stages.index(place.shuffles[0]) :]
    ):
        raise CannotRebuildError(REPEATS_SHUFFLE)


def _check_size(place: CachePlace) -> None:
    """Refuse elements of an unknown size, or of an unknown number."""
    after = f"the elements after {label_of(place.kept[-1])}"
    if not has_fixed_shapes(place.kept[-1].element_spec):
        raise CannotRebuildError(f"{after} have no fixed shape")
    kinds = {np.dtype(spec.dtype.as_numpy_dtype).kind for spec in place.specs}
    if not kinds <= _PLAIN_KINDS:
        raise CannotRebuildError(f"{after} are not plain numbers")
    if place.count < 0:
        below = label_of(place.below)
        raise CannotRebuildError(
            f"the number of elements after {below} is unknown: assert_cardinality gives it"
        )


# -- in the script's own lines ---------------------------------------------------------------------


def last_lasting_map(dataset: Any) -> Any | None:
    """Return the last map below which, itself included, every epoch has the same elements in the
    same order.

    None where there is no such map, where the script caches already, and where elements come in any
    order or without end. The elements may be of any type, shape and number.
    """
    if why_in_any_order(dataset) or any(kind_of(node) == "Cache" for node in nodes_of(dataset)):
        return None
    lasting = [node for node in spine_of(dataset) if kind_of(node) in MAPS and _is_lasting(node)]
    return (
        lasting[0] if lasting and lasting[0].cardinality() != tf.data.INFINITE_CARDINALITY else None
    )


def stage_to_cache(dataset: Any, kept: Any) -> Any | None:
    """Return the stage whose call `.cache()` follows for the results of the map `kept`; None where
    it would not last.

    TensorFlow drops a cache that an epoch does not read to its end, so it comes after the last
    `take`.
    """
    above = list(takewhile(lambda node: node is not kept, spine_of(dataset)))
    last = next((node for node in above if kind_of(node) == "Take"), kept)
    return last if _is_lasting(last) else None


def _is_lasting(stage: Any) -> bool:
    return not any(reshuffles(node) or why_not_same(node) for node in nodes_of(stage))
