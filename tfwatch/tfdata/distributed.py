"""The data set below a distribution strategy's iterator."""

from __future__ import annotations

from typing import Any

from tfwatch.tfdata.stages.stage_names import inputs_of

#: Stages that TensorFlow puts between a data set and the split of its batches.
_BELOW_SPLIT = ("_RestructuredDataset", "_MapDataset", "_OptionsDataset")


def dataset_of(iterator: Any) -> Any:
    """Return the data set of an iterator, also of a strategy's; None where it is unknown."""
    dataset = getattr(iterator, "_dataset", None)
    return find_distributed_dataset(iterator) if dataset is None else dataset


def find_distributed_dataset(iterator: Any) -> Any:
    """Return the data set that a strategy spreads over its replicas, as its author made it.

    `experimental_distribute_dataset` adds stages that split each batch; `distribute_datasets_from_function` adds none.
    None where it is unknown: the attributes are TensorFlow's own.
    """
    parts = getattr(iterator, "_iterators", None) or [None]
    top = getattr(parts[0], "_dataset", None)
    node = top
    while node is not None and type(node).__name__ != "_RebatchDataset":
        node = next(iter(inputs_of(node)), None)
    if node is not None:
        return _below_split(node)
    return (
        next(iter(inputs_of(top)), top) if type(top).__name__ == "_AutoShardDataset" else top
    )  # a single replica


def _below_split(node: Any) -> Any:
    """Return the author's last stage below a `_RebatchDataset`."""
    for name in _BELOW_SPLIT[:2]:
        node = next(iter(inputs_of(node)), node)
        if type(node).__name__ != name:
            return node
    return next(iter(inputs_of(node)), node)
