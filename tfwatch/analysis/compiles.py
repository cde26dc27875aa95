"""The steps that were traced or compiled: slow once, and not counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core.rows import Flag, step_ms

if TYPE_CHECKING:
    from tfwatch.core.rows import Rows


@dataclass(frozen=True, slots=True)
class Compiled:
    """A step that took `took_ms` because its graph was made; `again`: another input shape or type asked for it."""

    step: int
    start_ns: int
    took_ms: float
    again: bool


def find_compiles(rows: Rows) -> list[Compiled]:
    """Of rows of `core.rows.STEP`, in their order."""
    made = rows[(rows["flags"] & np.uint16(Flag.COMPILE | Flag.RETRACE)) != 0]
    took_ms = step_ms(made)
    return [
        Compiled(int(row["step"]), int(row["start_ns"]), float(took), bool(row["flags"] & np.uint16(Flag.RETRACE)))
        for row, took in zip(made, took_ms, strict=True)
    ]
