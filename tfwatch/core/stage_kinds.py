"""Kinds of tf.data stages, and those that a worker of the tf.data service can run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: TensorFlow's variants of one stage of the code: they compute the same.
_VARIANT = re.compile(
    r"^(?:Parallel|Legacy|Private|Finite|Forever|Memory|File|Experimental)+(?=[A-Z])|(?:Impl)?V?\d*$"
)
_FUSED = {"MapAndBatch": ("Map", "Batch"), "ShuffleAndRepeat": ("Shuffle", "Repeat")}
_ALIKE = {"FromTensor": "Tensor", "InterleaveMany": "Interleave", "ExperimentalScan": "Scan"}
_BATCHES = ("Batch", "PaddedBatch")
#: Stages that may follow the last batch: they stay with the training.
_STAYS = (*_BATCHES, "Prefetch", "Options", "Repeat")
#: Stages of which each worker would run its own, over its part of the elements.
_WHOLE = {
    "Take": "each worker would take as many",
    "Skip": "each worker would skip as many",
    "Shard": "each worker would take its own share of its share",
    "Cache": "each worker would keep another part in each epoch",
    "Repeat": "epochs would run into one another",
}
_MOVES = (
    *("Map", *_BATCHES, "Shuffle", "Filter", "FlatMap", "Interleave", "TFRecord", "TextLine"),
    *("Unbatch", "Restructured", "Prefetch", "Options", "TensorSlice", "Tensor", "Range", "Zip"),
)


def code_kinds(kind: str) -> tuple[str, ...]:
    """Return the kinds of the stages that a node of tf.data's model stands for: one, or two if they
    were fused."""
    name = _VARIANT.sub("", kind) or kind
    return _FUSED.get(name, (_ALIKE.get(name, name),))


def count_moving(kinds: Sequence[Sequence[str]]) -> int:
    """Return how many stages are below the last batch, which stays with the training; 0 without
    such a batch.

    kinds: those of each stage as `code_kinds` returns them, the source first. A map that is fused
    with the batch moves.
    """
    moving = 0
    for n in range(len(kinds) - 1, -1, -1):
        if any(kind in _BATCHES for kind in kinds[n]):
            moving = n + (len(kinds[n]) > 1)
        if any(kind not in _STAYS for kind in kinds[n]):
            break
    return moving


def why_not_moving(kind: str) -> str:
    """Return why a stage of this kind of the code cannot run in a worker, after its label; empty
    where it can."""
    if kind in _WHOLE:
        return f"cannot move: {_WHOLE[kind]}"
    return "" if kind in _MOVES else "is not known to give the same elements in a worker"
