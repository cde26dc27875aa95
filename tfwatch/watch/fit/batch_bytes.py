"""The bytes of a batch in memory."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def count_bytes(batch: Any) -> int | None:
    """Return the bytes that a batch takes in memory; None if it holds strings or anything but tensors."""
    leaves = tf.nest.flatten(batch, expand_composites=True)
    sizes = [_count_tensor_bytes(leaf) for leaf in leaves]
    known = [size for size in sizes if size is not None]
    return sum(known) if known and len(known) == len(sizes) else None


def _count_tensor_bytes(tensor: Any) -> int | None:
    count_elements = getattr(getattr(tensor, "shape", None), "num_elements", None)
    kind = getattr(tensor, "dtype", None)
    count, size = count_elements() if count_elements else None, getattr(kind, "size", 0)
    return count * size if count is not None and size and getattr(kind, "name", "") != "string" else None
