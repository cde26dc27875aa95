"""Fixed-size rows of a run folder as numpy structured types.

Times named `*_ns` are nanoseconds since the run's clock origin (`Manifest.origin_ns`).
"""

from __future__ import annotations

import math
from enum import IntEnum, IntFlag
from typing import TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from tfwatch.core.bounds import LARGEST_FIGURE, LATEST_NS, LONGEST_MS

Rows = NDArray[np.void]

#: One training step, 36 bytes. `wait_ms + compute_ms + host_ms` is the step time, from one fetch of
#: a batch to the next. `compute_ms` contains `copy_ms`, the copy of the batch to the device's
#: memory, and `dispatch_ms`, from there until the step's call returned. `copy_ms` is NaN where the
#: copy is not timed: it then is inside the call, and a part of `dispatch_ms`. Of steps that run
#: several in one call (`steps_per_execution`), the last one has the call's host part and the others
#: 0; where the call stays one, the first has as `dispatch_ms` what launching it took, and the
#: others 0. Of steps that run op by op on the CPU (`Manifest.op_by_op`) it is what Python took
#: between the operations, which compute before they return.
STEP = np.dtype(
    [
        ("start_ns", "<u8"),
        ("step", "<u4"),
        ("epoch", "<u2"),
        ("flags", "<u2"),
        ("wait_ms", "<f4"),
        ("dispatch_ms", "<f4"),
        ("compute_ms", "<f4"),
        ("host_ms", "<f4"),
        ("copy_ms", "<f4"),
    ]
)

#: One machine sample. `cpu_cores` and `process_cores`: cores in use. Missing is NaN. `gpu_busy`,
#: `gpu_process_busy`: 0 to 1, of all programs and of the one that trains. `thermal_level`: 0
#: nominal to 4 critical. `memory_level`: 0 normal, 1 warning, 2 critical.
SAMPLE = np.dtype(
    [
        ("at_ns", "<u8"),
        ("cpu_cores", "<f4"),
        ("process_cores", "<f4"),
        ("process_bytes", "<f8"),
        ("memory_used_bytes", "<f8"),
        ("memory_available_bytes", "<f8"),
        ("swap_used_bytes", "<f8"),
        ("gpu_busy", "<f4"),
        ("gpu_process_busy", "<f4"),
        ("gpu_freq_mhz", "<f4"),
        ("gpu_power_w", "<f4"),
        ("gpu_memory_bytes", "<f8"),
        ("thermal_level", "<f4"),
        ("memory_level", "<f4"),
        ("swap_bytes_s", "<f4"),
    ]
)

#: The training's progress. `images`: examples of any kind, 0 where the number in a batch is
#: unknown. A missing loss is NaN; for one that is NaN itself, or infinite, see `LossDiverged`.
PROGRESS = np.dtype(
    [
        ("at_ns", "<u8"),
        ("images", "<u8"),
        ("step", "<u4"),
        ("epoch", "<u4"),
        ("epoch_step", "<u4"),
        ("loss", "<f4"),
    ]
)

#: One stage of the input pipeline over the interval since the reading before, by tf.data's model; a
#: reading is a row a stage, all with one `at_ns`. `pipeline`: the number of its `StagesFound`;
#: `stage`: its index there. `busy_ms`: what one batch of the training costs in this stage alone,
#: summed over its workers; NaN where no batch passed. `elements`: how many it produced.
#: `parallelism`: its workers; `buffered` of `buffer_size` elements, `buffered_bytes`: NaN where the
#: stage has none. `wait_cores`: CPU cores that the process used while the training waited for a
#: batch, the same in all rows of a reading; NaN where it did not.
STAGE = np.dtype(
    [
        ("at_ns", "<u8"),
        ("pipeline", "<u2"),
        ("stage", "<u2"),
        ("elements", "<u4"),
        ("busy_ms", "<f4"),
        ("parallelism", "<f4"),
        ("buffered", "<f4"),
        ("buffer_size", "<f4"),
        ("buffered_bytes", "<f4"),
        ("wait_cores", "<f4"),
    ]
)

#: One GPU of a strategy over several, once a second. `gpu`: its index in `events.GpusFound.names`.
#: `busy`, 0 to 1, and `memory_bytes` in use: of all programs.
GPU = np.dtype(
    [
        ("at_ns", "<u8"),
        ("gpu", "<u2"),
        ("pad", "<u2"),
        ("busy", "<f4"),
        ("memory_bytes", "<f4"),
    ]
)

#: Sums over the steps of one epoch that follow one another; never on disk. `first_ns`, `last_ns`:
#: starts of its first and last step; `end_ns`: of the last step. `calls`: how many of the steps
#: have a host part. `traced` steps were traced or compiled, `traced_ms` is their compute, which
#: `compute_ms` contains. Both are without `copy_ms`, the sum of the `copies` copies that are timed.
EPOCH = np.dtype(
    [
        ("epoch", "<u4"),
        ("steps", "<u4"),
        ("traced", "<u4"),
        ("calls", "<u4"),
        ("copies", "<u4"),
        ("first_ns", "<u8"),
        ("last_ns", "<u8"),
        ("end_ns", "<u8"),
        ("wait_ms", "<f8"),
        ("compute_ms", "<f8"),
        ("host_ms", "<f8"),
        ("copy_ms", "<f8"),
        ("traced_ms", "<f8"),
        ("first_wait_ms", "<f8"),
        ("last_host_ms", "<f8"),
    ]
)

#: The current phase; the one row of pulse.bin, overwritten. `now_ns` and `since_ns` count from the
#: clock origin, `wall_ns` from 1970; `unrecorded` is why the disk takes no rows, empty where it
#: does: on a full disk only this file, which is overwritten, can say so. `seq` and `seq_end` differ
#: in a torn row.
PULSE = np.dtype(
    [
        ("seq", "<u4"),
        ("phase", "<u4"),
        ("now_ns", "<u8"),
        ("wall_ns", "<u8"),
        ("since_ns", "<u8"),
        ("step", "<u4"),
        ("epoch", "<u4"),
        ("detail", "S96"),
        ("unrecorded", "S48"),
        ("seq_end", "<u4"),
    ]
)


_Float = TypeVar("_Float", np.float32, np.float64)


@overload
def step_ms(rows: Rows | np.void) -> NDArray[np.float32]: ...
@overload
def step_ms(rows: Rows | np.void, precision: type[_Float]) -> NDArray[_Float]: ...
def step_ms(
    rows: Rows | np.void, precision: type[np.floating] = np.float32
) -> NDArray[np.floating]:
    """Return the step time of rows of `STEP`, or of one: data wait, compute and host, milliseconds.

    precision: of the sum; sums over many steps need more than the rows' own.
    """
    total: NDArray[np.floating] = (
        rows["wait_ms"].astype(precision, copy=False) + rows["compute_ms"] + rows["host_ms"]
    )
    return total


class Flag(IntFlag):
    """Reasons why a step does not count as steady."""

    COMPILE = 1
    RETRACE = 2
    EPOCH_START = 4
    SWITCH = 8
    VALIDATION = 16
    SHUFFLE_FILL = 32
    PROFILED = 64

    @property
    def cause(self) -> str:
        """The first cause as text, e.g. `pipeline switch`."""
        return next((word for flag, word in _CAUSES.items() if flag in self), "")


_CAUSES = {
    Flag.COMPILE: "compile",
    Flag.RETRACE: "retrace",
    Flag.SWITCH: "pipeline switch",
    Flag.SHUFFLE_FILL: "shuffle fill",
    Flag.EPOCH_START: "epoch start",
    Flag.VALIDATION: "validation",
    Flag.PROFILED: "profile of the step",
}


class Phase(IntEnum):
    """The phases of the training thread."""

    STARTING = 0
    COMPILE = 1
    WAIT = 2
    COMPUTE = 3
    HOST = 4
    VALIDATION = 5
    EPOCH_END = 6
    ENDED = 7

    @property
    def is_before_step(self) -> bool:
        """True where the step of a status, or of a pulse, is the next one."""
        return self in (Phase.WAIT, Phase.COMPUTE, Phase.COMPILE)


def chosen(rows: Rows, mask: NDArray[np.bool_]) -> Rows:
    """Return a copy of the rows of a mask, in a tenth of the time that `rows[mask]` takes for ten
    million."""
    rows_chosen: Rows = rows.take(np.flatnonzero(mask))
    return rows_chosen


def clean_rows(rows: Rows, latest_ns: int = LATEST_NS) -> Rows:
    """Return the plausible rows of a table with `at_ns`, with NaN for each implausible figure.

    latest_ns: the end of the run. A damaged file can hold any bytes. Signalling NaNs, at which
    arithmetic warns, become plain ones. The figures of `PROGRESS` are the model's own and have no
    limit.
    """
    rows = chosen(rows, rows["at_ns"] < latest_ns)
    largest = math.inf if "loss" in (rows.dtype.names or ()) else LARGEST_FIGURE
    with np.errstate(invalid="ignore"):
        for name in rows.dtype.names or ():
            if rows.dtype[name].kind == "f":
                rows[name][~(np.abs(rows[name]) <= largest)] = np.nan
    rows.flags.writeable = False
    return rows


def plausible_rows(rows: Rows, latest_ns: int = LATEST_NS) -> Rows:
    """Return the plausible rows of `STEP`: the same rows where all are, as a copy of ten million
    takes 360 MB."""
    good = plausible(rows, latest_ns)
    return rows if good.all() else chosen(rows, good)


def plausible(rows: Rows, latest_ns: int = LATEST_NS) -> NDArray[np.bool_]:
    """Return a mask of the plausible rows of `STEP`: a damaged file, or a dropped stretch, holds
    others too.

    latest_ns: the end of the run; no part of a step lasts longer than the run.
    """
    good = (rows["step"] > 0) & (rows["start_ns"] < latest_ns)
    longest_ms = min(latest_ns / 1e6, LONGEST_MS)
    for name in ("wait_ms", "dispatch_ms", "compute_ms", "host_ms"):
        good &= (rows[name] >= 0) & (rows[name] <= longest_ms)
    copies = rows["copy_ms"]
    good &= np.isnan(copies) | ((copies >= 0) & (copies <= rows["compute_ms"]))
    return good
