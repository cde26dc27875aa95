"""Lines over a number axis, drawn with the dots of braille; without colour or Unicode with a character for each line.

The textual-plot library (0.10) takes 17 ms to draw two lines of 500 points, and a whole frame has 6 ms: this takes one.
It also has no logarithmic axis and no plain characters, and needs NumPy 2.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.widgets.basics.glyphs import Glyphs

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: The bits of the dots of a braille character, four rows of two.
_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]], dtype=np.int64)
_BRAILLE = 0x2800


@dataclass(frozen=True, eq=False)
class PlotLine:
    """A line through points. mark: its character without braille. style: of its cells."""

    x: Floats
    y: Floats
    mark: str
    style: str


@dataclass(frozen=True, slots=True)
class Frame:
    """The bounds of a plot, and its cells. is_log: the vertical axis is logarithmic."""

    x: tuple[float, float]
    y: tuple[float, float]
    width: int
    height: int
    is_log: bool = False

    def scaled_y(self, y: Floats) -> Floats:
        """Return values as shares of the height, 0 to 1; NaN where a logarithm does not exist."""
        low, high = (self._axis(np.array(one)) for one in self.y)
        scaled: Floats = (self._axis(y) - low) / np.maximum(high - low, 1e-30)
        return scaled

    def scaled_x(self, x: Floats) -> Floats:
        """Return values as shares of the width, 0 to 1."""
        scaled: Floats = (x - self.x[0]) / max(self.x[1] - self.x[0], 1e-30)
        return scaled

    def _axis(self, y: Floats) -> Floats:
        if not self.is_log:
            return y
        axis: Floats = np.log10(np.where(y > 0, y, np.nan))
        return axis

    def cell_of(self, x: float, y: float) -> tuple[int, int] | None:
        """Return the column and row of a point; None outside."""
        across, up = float(self.scaled_x(np.array(x))), float(self.scaled_y(np.array(y)))
        if not (0 <= across <= 1 and 0 <= up <= 1):
            return None
        return min(int(across * self.width), self.width - 1), self.height - 1 - min(
            int(up * self.height), self.height - 1
        )


def draw_plot(
    lines: Sequence[PlotLine], frame: Frame, glyphs: Glyphs, points: Sequence[tuple[float, float, str]] = ()
) -> list[list[tuple[str, str]]]:
    """Draw lines, a later one over an earlier one, as rows of (text, style), the top row first.

    points: (x, y, style) of single marks above all lines.
    """
    fine = glyphs.fine
    across, down = (2, 4) if fine else (1, 1)
    bits = np.zeros((frame.height, frame.width), dtype=np.int64)
    owner = np.full((frame.height, frame.width), -1)
    for number, line in enumerate(lines):
        dots = _dots(line, frame, across, down)
        own = np.einsum("iajb,ab->ij", dots.reshape(frame.height, down, frame.width, across), _DOTS[:down, :across])
        bits |= own
        owner[own > 0] = number
    cells = [
        [_cell(lines, int(bits[y, x]), int(owner[y, x]), fine) for x in range(frame.width)] for y in range(frame.height)
    ]
    for x, y, style in points:
        cell = frame.cell_of(x, y)
        if cell:
            cells[cell[1]][cell[0]] = (glyphs.record, style)
    return [[("".join(text for text, _ in run), style) for style, run in _runs(row)] for row in cells]


def _runs(row: list[tuple[str, str]]) -> list[tuple[str, list[tuple[str, str]]]]:
    return [(style, list(run)) for style, run in groupby(row, key=itemgetter(1))]


def _cell(lines: Sequence[PlotLine], bits: int, owner: int, fine: bool) -> tuple[str, str]:
    if owner < 0:
        return " ", ""
    line = lines[owner]
    return (chr(_BRAILLE + bits) if fine else line.mark), line.style


def _dots(line: PlotLine, frame: Frame, across: int, down: int) -> NDArray[np.bool_]:
    """Return the dots of a line, `down` x `across` of them in a cell."""
    width, height = frame.width * across, frame.height * down
    dots = np.zeros((height, width), dtype=np.bool_)
    low, high = _spans(frame.scaled_x(line.x), frame.scaled_y(line.y), width)
    ran = np.isfinite(low)
    bottoms, tops = (np.clip(np.where(ran, one, 0.0) * height, 0, height - 1).astype(np.int64) for one in (low, high))
    _connect(bottoms, tops, ran)
    for column in np.flatnonzero(ran).tolist():
        dots[height - 1 - tops[column] : height - bottoms[column], column] = True
    return dots


def _spans(x: Floats, y: Floats, width: int) -> tuple[Floats, Floats]:
    """Return the lowest and the highest value of a line in each of `width` columns; NaN where it is not."""
    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    low, high = np.full(width, np.nan), np.full(width, np.nan)
    if not len(x):
        return low, high
    edges = (np.arange(width) + 0.5) / width
    inside = (edges >= x[0]) & (edges <= x[-1])
    low[inside] = high[inside] = np.interp(edges[inside], x, y)
    shown = (x >= 0) & (x <= 1)  # the run before may be longer than this one
    at = np.minimum((x[shown] * width).astype(np.int64), width - 1)
    np.fmin.at(low, at, y[shown])
    np.fmax.at(high, at, y[shown])
    return low, high


def _connect(bottoms: Ints, tops: Ints, ran: NDArray[np.bool_]) -> None:
    """Extend neighbouring columns towards each other where a steep line would have gaps."""
    both = ran[1:] & ran[:-1]
    rises, falls = both & (bottoms[1:] > tops[:-1] + 1), both & (tops[1:] < bottoms[:-1] - 1)
    up, down = (tops[:-1] + bottoms[1:]) // 2, (bottoms[:-1] + tops[1:]) // 2
    tops[:-1][rises], bottoms[1:][rises] = up[rises], up[rises] + 1
    bottoms[:-1][falls], tops[1:][falls] = down[falls] + 1, down[falls]
