"""A user's `tf.data` data set as a tree: its stages, and the reasons why a map cannot run in
parallel.

TensorFlow has no public way to read a data set. The private names stand here and in
`pipeline_rebuild`; where a TensorFlow lacks one, the reader raises `CannotRebuildError` and the
pipeline stays the user's.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from itertools import dropwhile, takewhile
from typing import TYPE_CHECKING, Any

from tfwatch.core.errors import reason
from tfwatch.tfdata.stage_names import (
    PYTHON,
    RANDOM,
    function_of,
    inputs_of,
    kind_of,
    kinds_of_operations,
    label_of,
    nodes_of,
    spine_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

MAPS = ("Map", "ParallelMap")
BATCHES = ("Batch", "ParallelBatch", "PaddedBatch")
#: Stages that choose and order elements without a look at them: a map gives the same elements below
#: and above them.
ORDERS = ("Shuffle", "Take", "Skip", "Shard", "Repeat")
INTERLEAVES = ("Interleave", "ParallelInterleave")
#: Stages that change no element and no order.
NEUTRAL = ("Prefetch", "Options")
ONLY_INTERLEAVES = "the pipeline has no map: set num_parallel_calls of its interleave in the script"
REPEATS_SHUFFLE = "it repeats a shuffle, whose next order cannot be known"
#: Stages over which a second iterator gives the same elements again, a million a second.
_REPLAYABLE = (
    *(*BATCHES, *ORDERS, *NEUTRAL),
    *("TensorSlice", "Tensor", "Range", "Zip", "Concatenate", "Unbatch"),
)

#: Stateful operations that only read, and calls of functions, which are read too.
_READING = {
    *("Assert", "LookupTableFind", "LookupTableFindV2", "LookupTableSizeV2", "ReadFile"),
    *("ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape"),
}
#: Those of them that read what does not change while a training runs.
_UNCHANGING = {"Assert", "ReadFile"}
#: Stages without a function that give the same elements in each iterator; a shuffle if it does not
#: reshuffle.
_SAME = (
    *(*_REPLAYABLE, "AssertCardinality", "Cache", "FixedLengthRecord"),
    *("TFRecord", "TextLine"),
)
#: Stages that are known to give the same elements in each iterator of their data set that has not
#: begun, a shuffle with the seeds of another one. What is not named here may draw again for each
#: iterator.
_SAME_AGAIN = (
    *(*_SAME, *MAPS, *INTERLEAVES, "Csv", "DenseToRagged", "DirectedInterleave", "Filter"),
    *("FlatMap", "GroupByWindow", "Restructured", "Scan", "TakeWhile", "Unique", "Window"),
)
#: Stages of the data sets that an interleave makes: they have no order or state beside that of
#: their elements.
_NESTED = {*_SAME, *MAPS, "Filter", "FlatMap", "Interleave"} - {
    *("Cache", "Options", "ParallelBatch", "Shuffle")
}
#: The end of the name of a kind of data set.
_DATASET = re.compile(r"Dataset(V\d+)?$")
_WRITES = re.compile(r"Assign|LookupTable(Insert|Import|Remove)|Scatter|Initialize")


class CannotRebuildError(Exception):
    """A pipeline cannot be rebuilt with other settings; the message is a reason for the user."""


class RandomDrawsError(CannotRebuildError):
    """A pipeline can be rebuilt where its maps may draw other random numbers."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A pipeline, split at the gate.

    chain: the stages from the lowest map that can be rebuilt to the top; without one, the
    prefetches at the top.
    base: the data set below them.
    shuffles: those of `base` and `chain`, the last one of the pipeline first.
    why_not_now: the reason why another iterator cannot continue in the middle of an epoch, or not
    at once; else empty.
    left_out: for each map that stays as it is, the reason.
    """

    chain: tuple[Any, ...]
    base: Any
    shuffles: tuple[Any, ...]
    why_not_now: str
    left_out: tuple[str, ...] = ()

    @property
    def top(self) -> Any:
        """The whole pipeline."""
        return self.chain[-1] if self.chain else self.base


def read_tree(dataset: Any, *, random_draws: bool = False) -> Tree:
    """Split a pipeline below the lowest map that can be rebuilt. random_draws: maps may draw other
    random numbers.

    Raises:
        RandomDrawsError: it has no such map unless they may.
        CannotRebuildError: it has no such map.
    """
    tree = split_tree(dataset, random_draws=random_draws)
    if not any(kind_of(node) in MAPS for node in tree.chain):
        has_interleave = any(kind_of(node) in INTERLEAVES for node in nodes_of(dataset))
        why_none = ONLY_INTERLEAVES if has_interleave else "the pipeline has no map"
        why = tree.left_out[-1] if tree.left_out else why_none
        raise _refusal(dataset, why, is_last=random_draws)
    for node in nodes_of(dataset):
        if kind_of(node) == "Repeat" and any(map(reshuffles, nodes_of(node))):
            raise CannotRebuildError(REPEATS_SHUFFLE)
    if unknown := _not_same_again(tree.base):
        label = label_of(unknown)
        raise CannotRebuildError(f"{label} is not known to give another iterator the same elements")
    return tree


def _refusal(dataset: Any, why: str, *, is_last: bool) -> CannotRebuildError:
    """Return the error of a pipeline without a map to rebuild. is_last: random draws would not
    help."""
    if not is_last:
        with suppress(CannotRebuildError):
            read_tree(dataset, random_draws=True)
            return RandomDrawsError(why)
    return CannotRebuildError(why)


def split_tree(dataset: Any, *, with_maps: bool = True, random_draws: bool = False) -> Tree:
    """Return the tree of a pipeline, also of one that has no map to rebuild. with_maps: it rebuilds
    those it can. random_draws: also those that then draw other random numbers."""
    chain, left_out = _chain_of(dataset, random_draws) if with_maps else ([], [])
    if not chain:
        top = takewhile(lambda node: kind_of(node) in NEUTRAL, spine_of(dataset))
        chain = [*top][::-1]
    base = inputs_of(chain[0])[0] if chain else dataset
    shuffles = tuple(node for node in nodes_of(dataset) if kind_of(node) == "Shuffle")
    slow = next((node for node in nodes_of(base) if kind_of(node) not in _REPLAYABLE), None)
    why_slow = f"{label_of(slow)} would have to begin again" if slow is not None else ""
    why_not_now = why_in_any_order(dataset) or why_slow
    return Tree(tuple(chain), base, shuffles, why_not_now, tuple(left_out))


def _chain_of(dataset: Any, random_draws: bool) -> tuple[list[Any], list[str]]:
    """Return the stages from the lowest map that can be rebuilt to the top, and the reasons of the
    maps below."""
    chain: list[Any] = []
    left_out: list[str] = []
    lowest = 0
    for node in spine_of(dataset):
        kind = kind_of(node)
        if kind not in (*MAPS, *BATCHES, *ORDERS, *NEUTRAL):
            if any(kind_of(below) in MAPS for below in nodes_of(node)):
                decides = f"{label_of(node)}, which decides by each element what follows"
                left_out.append(f"they come before {decides}")
            break
        if kind in MAPS and (why := why_not_parallel(node, random_draws=random_draws)):
            left_out.append(why)
            break
        chain.append(node)
        lowest = len(chain) if kind in MAPS else lowest
    return _without_order(chain[:lowest][::-1], left_out), left_out


def _without_order(chain: list[Any], left_out: list[str]) -> list[Any]:
    """Return the stages above the last one that needs the maps below it; add the reason where it
    has any."""
    first = 0
    for n, node in enumerate(chain):
        if why := _why_below(node, chain[:n], chain[n + 1 :]):
            left_out += [why] if any(kind_of(below) in MAPS for below in chain[first:n]) else []
            first = n + 1
    return [*dropwhile(lambda node: kind_of(node) not in MAPS, chain[first:])]


def _why_below(node: Any, before: list[Any], after: list[Any]) -> str:
    """Return the reason why a stage that orders elements gives another order without the maps
    before it."""
    kind, after_small = kind_of(node), [*dropwhile(_has_no_small_batch, before)]
    is_apart = kind in BATCHES and any(kind_of(one) in ORDERS for one in after_small)
    if after_small and (is_apart or kind in ("Shuffle", "Repeat")):
        return (
            f"a smaller last batch would come among the others: {label_of(node)} stands after"
            f" {label_of(after_small[0])}"
        )
    # Of two shuffles, the lower one takes its seeds with its first element.
    again = has_unknown_order(node) and any(kind_of(later) == "Shuffle" for later in after)
    return f"{label_of(node)} is followed by another shuffle" if again else ""


def _has_no_small_batch(node: Any) -> bool:
    return kind_of(node) not in BATCHES or is_true(node._drop_remainder)


def is_true(flag: Any) -> bool:
    """Return the value of a constant."""
    import tensorflow as tf

    return bool(tf.get_static_value(flag))


def reshuffles(node: Any) -> bool:
    """Return whether a stage gives another order in each iterator."""
    return kind_of(node) == "Shuffle" and bool(getattr(node, "_reshuffle_each_iteration", True))


def has_unknown_order(node: Any) -> bool:
    """Return whether only its iterators know the order of a shuffle: it reshuffles, or TensorFlow
    drew its seeds."""
    import tensorflow as tf

    if kind_of(node) != "Shuffle" or reshuffles(node):
        return kind_of(node) == "Shuffle"
    return not any(tf.get_static_value(seed) for seed in (node._seed, node._seed2))


def _not_same_again(base: Any) -> Any | None:
    """Return a stage that may give another iterator other elements; None if all are known to give
    the same."""
    import tensorflow as tf

    zipped = [part for node in nodes_of(base) if kind_of(node) == "Zip" for part in inputs_of(node)]
    number = tf.TensorSpec([], tf.int64)
    # The numbers of `enumerate`, whose data set TensorFlow hides.
    counters = [
        id(one) for one in zipped if kind_of(one) == "Variant" and one.element_spec == number
    ]
    unknown = (one for one in nodes_of(base) if not _gives_same_again(one))
    return next((one for one in unknown if id(one) not in counters), None)


def _gives_same_again(node: Any) -> bool:
    if kind_of(node) == "Random":
        return not getattr(node, "_rerandomize", True)
    if kind_of(node) == "ParallelInterleave":
        # The experimental `parallel_interleave` has the same name, and an order of its own.
        return "_num_parallel_calls" in vars(node)
    return kind_of(node) in _SAME_AGAIN


def why_in_any_order(dataset: Any) -> str:
    """Return the reason why a pipeline gives its elements in any order; empty if it does not."""
    if any(getattr(node, "_deterministic", "default") == "false" for node in nodes_of(dataset)):
        return "its elements come in any order (deterministic=False)"
    if dataset.options().deterministic is False:
        return "its elements come in any order (options.deterministic)"
    return ""


def writes_cache_file(dataset: Any) -> bool:
    """Return whether a `.cache(file)` of a data set is not complete: TensorFlow refuses a second
    iterator while one that has not been deleted writes the file."""
    import tensorflow as tf

    caches = [node for node in nodes_of(dataset) if kind_of(node) == "Cache"]
    files = [tf.get_static_value(getattr(node, "_filename", "")) for node in caches]
    return any(file and not tf.io.gfile.exists(file + b".index") for file in files)


# -- functions ------------------------------------------------------------------------------------


def why_not_parallel(node: Any, *, random_draws: bool = False) -> str:
    """Return the reason why a map has to run as its author wrote it; empty if parallel calls give
    the same. random_draws: or the same but for its random draws."""
    if not random_draws:
        return _worst_effect(node, _effect)
    return _worst_effect(node, lambda kind: "" if RANDOM.search(kind) else _effect(kind))


def why_not_same(node: Any) -> str:
    """Return the reason why a stage may give other elements in another epoch; empty if it gives the
    same."""
    if {"_map_func", "_predicate"} & vars(node).keys():
        return _worst_effect(node, _lasting_effect)
    if kind_of(node) in _SAME:
        return ""
    return f"{label_of(node)} may give other elements in another epoch"


def _worst_effect(node: Any, effect: Callable[[str], str]) -> str:
    makes_data = kind_of(node) in (*INTERLEAVES, "FlatMap")
    try:
        function = function_of(node).function
        types = set(_stateful_operations(function.graph))
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
        return f"{label_of(node)} cannot be read with this TensorFlow ({reason(error)})"
    if makes_data:
        types = {kind for kind in types if _DATASET.sub("", kind) not in _NESTED}
        if any(captured.dtype.name == "variant" for captured in function.captured_inputs):
            return f"{label_of(node)} uses a data set that is made outside it"
    effects = {effect(kind) for kind in types} - {""}
    return f"{label_of(node)} {sorted(effects)[0]}" if effects else ""


def _effect(operation: str) -> str:
    """Return the effect of a stateful operation for which a map stays as it is; empty if it only
    reads."""
    if operation in _READING:
        return ""
    if operation in PYTHON:
        return "calls Python, which runs one call at a time"
    if RANDOM.search(operation):
        return "draws random numbers, in the order of its calls"
    if "Shuffle" in operation or "SeedGenerator" in operation:
        return "shuffles, in the order of its calls"
    if _WRITES.search(operation):
        return "changes a variable or a table"
    return f"has a side effect ({operation})"


def parallel_maps(dataset: Any) -> list[Any]:
    """Return the maps that may run in parallel if random draws may differ, in the order of the
    pipeline."""
    maps = [node for node in nodes_of(dataset) if kind_of(node) in MAPS]
    return [node for node in maps[::-1] if not why_not_parallel(node, random_draws=True)]


def why_other_draws(maps: Sequence[Any]) -> str:
    """Return the reason why parallel calls of one of these maps draw other random numbers; empty if
    none draws any."""
    return next(filter(None, map(why_not_parallel, maps)), "")


def _lasting_effect(operation: str) -> str:
    """Return the effect of a stateful operation for which a result of this epoch may not serve the
    next one."""
    if operation in PYTHON:
        return "calls Python, which may give something else each time"
    if RANDOM.search(operation):
        return "draws random numbers: a cache would give those of one epoch in all others"
    if "Table" in operation and operation in _READING:
        return "reads a table, which may change"
    if operation in _READING - _UNCHANGING:
        return "reads a variable, which may change"
    return _effect(operation).partition(",")[0]


def _stateful_operations(graph: Any) -> Iterator[str]:
    """Yield the stateful operations of a function, and of the functions that it calls: a call is as
    stateful as what it calls."""
    for operation, kind in kinds_of_operations(graph):
        definition = operation.op_def
        is_call = any(one.type in ("func", "list(func)") for one in definition.attr)
        is_stateful = definition.is_stateful and not is_call
        if kind in PYTHON or is_stateful or "Dataset" in kind:
            yield kind
