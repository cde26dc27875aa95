"""The GPUs: those of a distribution strategy, the busiest and the idlest, and the time that other
programs take.

A GPU that waits for another one does so inside a collective operation, and its counter reads busy
then: where they differ, the idlest one has less work, or finished first and waits outside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tfwatch.core import units
from tfwatch.core.events import GpusFound

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from tfwatch.core.rows import Rows

#: The window of current figures, seconds, and the most rows in it: one a second of each GPU.
_NOW_S = 5.0
_MOST_ROWS = 512
_COLUMNS = ("busy", "process_busy", "power_w", "temperature_c", "freq_mhz", "memory_bytes")


@dataclass(frozen=True, slots=True)
class GpuLane:
    """One GPU over some seconds; None is n/a."""

    #: TensorFlow's name, e.g. `GPU:0`.
    device: str
    #: The model; empty where the sensor does not find the GPU.
    name: str = ""
    #: Its memory.
    total_bytes: float | None = None
    #: 0 to 1, of all programs and of the training.
    busy: float | None = None
    ours: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    freq_mhz: float | None = None
    memory_bytes: float | None = None


def find_gpus(events: Sequence[object]) -> GpusFound | None:
    """Return the newest event that names the GPUs of a strategy."""
    return next((event for event in reversed(events) if isinstance(event, GpusFound)), None)


def gpu_lanes(
    rows: Rows, gpus: GpusFound | None, of: Callable[[Any], Any] = np.mean
) -> tuple[GpuLane, ...]:
    """Return each GPU over rows of `core.rows.GPU`; none without a strategy over several."""
    if gpus is None or len(gpus.names) < 2:
        return ()
    return tuple(
        GpuLane(
            device, name, gpus.memory_bytes.get(device), *_figures(rows[rows["gpu"] == index], of)
        )
        for index, (device, name) in enumerate(gpus.names.items())
    )


def recent_rows(rows: Rows, now_s: float) -> Rows:
    """Return the rows of the last seconds."""
    tail = rows[-_MOST_ROWS:]
    newest: Rows = tail[tail["at_ns"] >= max(now_s - _NOW_S, 0.0) * 1e9]
    return newest


def extremes(lanes: Sequence[GpuLane]) -> tuple[GpuLane, GpuLane] | None:
    """Return the busiest and the idlest GPU; None where fewer than two have figures."""
    known = [(lane.busy, lane) for lane in lanes if lane.busy is not None]
    if len(known) < 2:
        return None
    # Of equal ones the last is the idlest, so that they are two.
    return max(known, key=_busy)[1], min(reversed(known), key=_busy)[1]


def _busy(known: tuple[float, GpuLane]) -> float:
    return known[0]


def extremes_text(lanes: Sequence[GpuLane]) -> str:
    """Return `busiest GPU:1 93 %, idlest GPU:0 41 %`; empty without figures."""
    busiest = extremes(lanes)
    if busiest is None:
        return ""
    named = zip(("busiest", "idlest"), busiest, strict=True)
    return ", ".join(f"{word} {lane.device} {units.percent(lane.busy)}" for word, lane in named)


def _figures(rows: Rows, of: Callable[[Any], Any]) -> list[float | None]:
    return [figure(rows[column], of) for column in _COLUMNS]


def figure(values: Any, of: Callable[[Any], Any]) -> float | None:
    """Return one figure of the values that are known; None without one."""
    # Of a column in the rows each look costs as much as the copy.
    values = np.ascontiguousarray(values)
    known = values[np.isfinite(values)].astype(np.float64)
    return float(of(known)) if len(known) else None


#: The two counters average over windows of their own. One program alone on an H100 with steady work
#: read differences of up to 1.4 points over 5 s, and on an idle H200 of 4 points.
COUNTERS_DIFFER = 0.05
#: Work in bursts of a second read up to 15 points over 5 s there, and single samples up to 76: two
#: standard errors.
_ERRORS = 2.0


def others_share(busy: NDArray[np.floating], ours: NDArray[np.floating]) -> float | None:
    """Return the mean share that other programs use, 0 to 1, of samples of both counters.

    None where no sample has both, and where the counters differ by no more than they do with one
    program alone.
    """
    apart = (busy - ours)[np.isfinite(busy) & np.isfinite(ours)].astype(np.float64)
    if not len(apart):
        return None
    error = float(apart.std()) / len(apart) ** 0.5
    share = float(apart.mean())
    return min(share, 1.0) if share > COUNTERS_DIFFER + _ERRORS * error else None
