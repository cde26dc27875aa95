"""The copy of batches to a device: its rate, and the time that pinned memory saves."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tfwatch.judge.stages import Stage

#: Bytes a second. Of batches in ordinary memory 4.8 to 6.6e9 were copied on an H100 and an H200, of
#: those in pinned memory 24 to 45e9.
_ORDINARY, _PINNED = 12e9, 25e9
#: The bytes of a batch from which on these rates hold.
_LEAST_BYTES = 2 * 2**20


def bandwidth(copied_bytes: Mapping[str, int], copy_ms: float) -> float | None:
    """Return the bytes that are copied per second; None where unknown."""
    total = sum(copied_bytes.values())
    return total / copy_ms * 1e3 if total and copy_ms > 0 else None


def saved_if_pinned_ms(
    copied_bytes: Mapping[str, int], stages: Iterable[Stage], copy_ms: float
) -> float:
    """Return the time of a copy that pinned memory saves; 0 where batches are in it, are small, or
    their size is unknown."""
    rate = bandwidth(copied_bytes, copy_ms)
    is_small = sum(copied_bytes.values()) < _LEAST_BYTES
    is_pinned = any(stage.is_map_and_batch for stage in stages)
    if rate is None or rate >= _ORDINARY or is_small or is_pinned:
        return 0.0
    return copy_ms * (1 - rate / _PINNED)
