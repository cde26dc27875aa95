"""Rows that are only ever added to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tfwatch.core.rows import Rows


class Growing:
    """An array that doubles when it is full, so that adding a row costs the same however many there are."""

    def __init__(self, layout: np.dtype[np.void]) -> None:
        self._kept: Rows = np.empty(64, dtype=layout)
        self._count = 0

    @property
    def rows(self) -> Rows:
        """All of them, read-only; later additions leave the view as it is."""
        view = self._kept[: self._count]
        view.flags.writeable = False
        return view

    def extend(self, rows: np.ndarray[Any, np.dtype[np.void]]) -> None:
        """Add rows."""
        count = self._count + len(rows)
        if count > len(self._kept):
            bigger = np.empty(max(count, 2 * len(self._kept)), dtype=self._kept.dtype)
            bigger[: self._count] = self._kept[: self._count]
            self._kept = bigger
        self._kept[self._count : count] = rows
        self._count = count
