"""The stage of a script's pipeline after which a `.cache()` in its code gives the same elements in each epoch."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

import tensorflow as tf

from tfwatch.tfdata.rebuilding.pipeline_cache import spine_of
from tfwatch.tfdata.rebuilding.pipeline_tree import (
    MAPS,
    kind_of,
    reshuffles,
    why_in_any_order,
    why_not_same,
)
from tfwatch.tfdata.stages.stage_names import nodes_of


def last_lasting_map(dataset: Any) -> Any | None:
    """Return the last map below which, itself included, every epoch has the same elements in the same order.

    None where there is no such map, where the script caches already, and where elements come in any order or without
    end. The elements may be of any type, shape and number.
    """
    if why_in_any_order(dataset) or any(kind_of(node) == "Cache" for node in nodes_of(dataset)):
        return None
    lasting = [node for node in spine_of(dataset) if kind_of(node) in MAPS and _is_lasting(node)]
    return (
        lasting[0] if lasting and lasting[0].cardinality() != tf.data.INFINITE_CARDINALITY else None
    )


def stage_to_cache(dataset: Any, kept: Any) -> Any | None:
    """Return the stage whose call `.cache()` follows for the results of the map `kept`; None where it would not last.

    TensorFlow drops a cache that an epoch does not read to its end, so it comes after the last `take`.
    """
    above = list(takewhile(lambda node: node is not kept, spine_of(dataset)))
    last = next((node for node in above if kind_of(node) == "Take"), kept)
    return last if _is_lasting(last) else None


def _is_lasting(stage: Any) -> bool:
    return not any(reshuffles(node) or why_not_same(node) for node in nodes_of(stage))
