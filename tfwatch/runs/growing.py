"""Rows that are only ever added to: all of them, or the newest."""

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
        return self._view(self._count)

    def followed_by(self, rows: Rows) -> Rows:
        """All of them and `rows`, which are not added: read-only, and good until the next call."""
        count = self._count + len(rows)
        self._make_room(count)
        self._kept[self._count : count] = rows
        return self._view(count)

    def extend(self, rows: np.ndarray[Any, np.dtype[np.void]]) -> None:
        """Add rows."""
        count = self._count + len(rows)
        self._make_room(count)
        self._kept[self._count : count] = rows
        self._count = count

    def _view(self, count: int) -> Rows:
        view = self._kept[:count]
        view.flags.writeable = False
        return view

    def _make_room(self, count: int) -> None:
        if count > len(self._kept):
            bigger = np.empty(max(count, 2 * len(self._kept)), dtype=self._kept.dtype)
            bigger[: self._count] = self._kept[: self._count]
            self._kept = bigger


class Newest:
    """The last `count` rows of those that came, in an array that holds twice as many, so that few are moved."""

    def __init__(self, layout: np.dtype[np.void], count: int) -> None:
        self._kept: Rows = np.empty(2 * count, dtype=layout)
        self._most = count
        self._end = 0

    @property
    def rows(self) -> Rows:
        """The newest, read-only; later additions leave the view as it is."""
        view = self._kept[max(self._end - self._most, 0) : self._end]
        view.flags.writeable = False
        return view

    def extend(self, rows: np.ndarray[Any, np.dtype[np.void]]) -> None:
        """Add rows."""
        rows = rows[-self._most :]
        if self._end + len(rows) > len(self._kept):
            before, self._kept = self.rows, np.empty_like(self._kept)  # views of the old array stay as they are
            before = before[max(len(before) + len(rows) - self._most, 0) :]
            self._kept[: len(before)], self._end = before, len(before)
        self._kept[self._end : self._end + len(rows)] = rows
        self._end += len(rows)
