"""The data set below a distribution strategy's iterator."""

from __future__ import annotations

from typing import Any

from tfwatch.core.refusals import FETCH_TO_DEVICE, PER_REPLICA
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
    return top if node is None else _below_split(node)


def _below_split(node: Any) -> Any:
    """Return the author's last stage below a `_RebatchDataset`."""
    for name in _BELOW_SPLIT[:2]:
        node = next(iter(inputs_of(node)), node)
        if type(node).__name__ != name:
            return node
    return next(iter(inputs_of(node)), node)


def buffer_size_per_replica(iterator: Any) -> int:
    """Return the batches that TensorFlow prepares ahead for each replica: its default is 1."""
    return int(getattr(_options_of(iterator), PER_REPLICA, 1))


def fetches_to_device(iterator: Any) -> bool:
    """Return whether TensorFlow copies each replica's part to its device ahead of the step: its default."""
    return bool(getattr(_options_of(iterator), FETCH_TO_DEVICE, True))


def _options_of(iterator: Any) -> Any:
    return getattr(iterator, "_options", None)
