"""Whether what was ordered fits into memory, as far as that can be told before it is made."""

from __future__ import annotations

from tfwatch.core import units
from tfwatch.runs.container import free_bytes


def too_much(needed_bytes: int | None, what: str, free: int | None = None) -> str:
    """A sentence where `what` does not fit into the free bytes (now, unless given); empty where it does."""
    free = free_bytes() if free is None else free
    if needed_bytes is None or needed_bytes <= free:
        return ""
    words = f"{what} needs about {units.gigabytes(needed_bytes)} of memory and {units.gigabytes(free)} are free"
    return f"{words}: it may swap, or the system may end it"
