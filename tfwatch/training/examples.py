"""How many examples a batch holds, and how large it is."""

from __future__ import annotations

from typing import Any


def images_in(batch: Any) -> int | None:
    """How many examples a batch holds: the first dimension of its first tensor; None where it tells none."""
    try:
        while isinstance(batch, (tuple, list, dict)) and batch:
            batch = next(iter(batch.values() if isinstance(batch, dict) else batch))
        shape = getattr(batch, "shape", None)
        return int(shape[0]) if shape is not None and len(shape) else None
    except Exception:  # noqa: BLE001  the batch is the user's, of any kind, and its parts may raise anything
        return None


def bytes_of(batch: Any) -> int | None:
    """What a batch takes in memory; None where it holds strings, or anything but tensors."""
    import tensorflow as tf

    leaves = tf.nest.flatten(batch, expand_composites=True)
    sizes = [_bytes_of(leaf) for leaf in leaves]
    known = [size for size in sizes if size is not None]
    return sum(known) if known and len(known) == len(sizes) else None


def _bytes_of(tensor: Any) -> int | None:
    count_elements = getattr(getattr(tensor, "shape", None), "num_elements", None)
    kind = getattr(tensor, "dtype", None)
    count, size = count_elements() if count_elements else None, getattr(kind, "size", 0)
    return count * size if count is not None and size and getattr(kind, "name", "") != "string" else None
