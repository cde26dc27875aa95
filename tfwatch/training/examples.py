"""How many examples a batch holds."""

from __future__ import annotations

from typing import Any


def images_in(batch: Any) -> int:
    """How many examples a batch holds: the first dimension of its first tensor; 0 where it has none."""
    while isinstance(batch, (tuple, list, dict)) and batch:
        batch = next(iter(batch.values() if isinstance(batch, dict) else batch))
    shape = getattr(batch, "shape", None)
    return int(shape[0] or 0) if shape is not None and len(shape) else 0
