"""The memory of the training process over a run: at its begin, at its end and at its peak. A median hides a leak."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core import units

if TYPE_CHECKING:
    from tfwatch.core.rows import Rows

#: A process that grew by less, in bytes or as a share, is described by one figure.
_GREW_BYTES, _GREW = 0.2 * 2**30, 0.1


@dataclass(frozen=True, slots=True)
class MemoryCourse:
    """Bytes of the training process in the first and the last sample, and the largest."""

    begin_bytes: float
    end_bytes: float
    peak_bytes: float

    @property
    def grew(self) -> bool:
        """True where the peak lies well above the begin."""
        return self.peak_bytes - self.begin_bytes >= max(_GREW_BYTES, _GREW * self.begin_bytes)

    @property
    def text(self) -> str:
        """The figures, e.g. `8.0 GB at the start, 28.0 at the end, peak 28.5`."""
        begin, end, peak = (size / 2**30 for size in (self.begin_bytes, self.end_bytes, self.peak_bytes))
        if not self.grew:
            return units.gigabytes(self.peak_bytes)
        return f"{begin:.1f} GB at the start, {end:.1f} at the end, peak {peak:.1f}"


def memory_course(samples: Rows) -> MemoryCourse | None:
    """Return the course over these rows of `core.rows.SAMPLE`; None where no row has the process' memory."""
    known = samples["process_bytes"][np.isfinite(samples["process_bytes"])]
    return MemoryCourse(float(known[0]), float(known[-1]), float(known.max())) if len(known) else None
