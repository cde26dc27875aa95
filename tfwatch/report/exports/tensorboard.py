"""A run as scalars for TensorBoard, written by the tensorboard package: TensorFlow takes seconds to
import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tfwatch.core.events import EpochEnded

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO

    from tfwatch.core.rows import Rows
    from tfwatch.report.exports.tables import Recording

#: TensorBoard shows at most so many points of a scalar.
_POINTS = 1000
_PARTS = ("wait", "compute", "host", "copy")
_NAMES = {"wait": "data wait", "copy": "copy to the GPU"}
#: Scalars by the column of `core.rows.SAMPLE`, with their names and the factor to their unit.
_MACHINE = {
    "gpu_busy": ("GPU busy, %", 100.0),
    "gpu_power_w": ("GPU power, W", 1.0),
    "gpu_memory_bytes": ("GPU memory, MB", 2.0**-20),
    "cpu_cores": ("CPU cores in use", 1.0),
    "process_bytes": ("memory of the process, MB", 2.0**-20),
}


def write_scalars(recording: Recording, steps: int, create: Callable[[str], IO[bytes]]) -> None:
    """Write the scalars of a run. steps: the number of its steps. create: opens the file of this
    name.

    Raises:
        ImportError: tensorboard is not installed.
    """
    scalars = _Scalars(recording.manifest.origin_wall_ns, create)
    try:
        _write_steps(recording, scalars, max(1, steps // _POINTS))
        _write_progress(recording, scalars)
        _write_epochs(recording, scalars)
    finally:
        scalars.close()


class _Scalars:
    """The event file. A scalar that is missing is left out."""

    def __init__(self, origin_wall_ns: int, create: Callable[[str], IO[bytes]]) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._event: Any = event_pb2.Event
        self._summary: Any = summary_pb2.Summary
        self._origin_ns = origin_wall_ns
        self._file: Any = RecordWriter(
            create(f"events.out.tfevents.{origin_wall_ns // 10**9}.tfwatch")
        )
        self._file.write(
            self._event(
                wall_time=origin_wall_ns / 1e9, file_version="brain.Event:2"
            ).SerializeToString()
        )

    def add(self, at_ns: float, step: int, values: dict[str, float]) -> None:
        """Write the scalars of one step."""
        known = {tag: value for tag, value in values.items() if np.isfinite(value)}
        if known:
            scalars = [
                self._summary.Value(tag=_clean(tag), simple_value=value)
                for tag, value in known.items()
            ]
            at_s = (self._origin_ns + at_ns) / 1e9
            event = self._event(wall_time=at_s, step=step, summary=self._summary(value=scalars))
            self._file.write(event.SerializeToString())

    def close(self) -> None:
        """Complete the file."""
        self._file.close()


def _write_steps(recording: Recording, scalars: _Scalars, each: int) -> None:
    """Write the means of `each` steps in a row; of the last ones there may be fewer."""
    for rows in recording.rows("steps"):
        for first in range(0, len(rows), each):
            _write_mean(rows[first : first + each], scalars)


def _write_mean(rows: Rows, scalars: _Scalars) -> None:
    means = {part: float(np.mean(rows[f"{part}_ms"], dtype=np.float64)) for part in _PARTS}
    total = means["wait"] + means["compute"] + means["host"]
    values = {f"step time, ms/{_NAMES.get(part, part)}": mean for part, mean in means.items()}
    starving = means["wait"] / total * 100 if total > 0 else float("nan")
    last = rows[-1]
    scalars.add(
        float(last["start_ns"]),
        int(last["step"]),
        {"step time, ms/total": total, **values, "starving, %": starving},
    )


def _each(recording: Recording, table: str) -> int:
    """Return the distance of the rows of a table that are written."""
    return max(1, sum(map(len, recording.rows(table))) // _POINTS)


def _write_progress(recording: Recording, scalars: _Scalars) -> None:
    """Write the loss of batches, and the machine at the step that trained then."""
    at_ns, steps = [np.zeros(1)], [np.zeros(1)]
    metric, each = recording.manifest.metric, _each(recording, "progress")
    for rows in recording.rows("progress"):
        at_ns.append(rows["at_ns"].astype(float))
        steps.append(rows["step"].astype(float))
        for row in rows[::each]:
            values = {"batch/loss": float(row["loss"])}
            if metric:
                values[f"batch/{metric}"] = float(row["metric"])
            scalars.add(float(row["at_ns"]), int(row["step"]), values)
    times, numbers = np.concatenate(at_ns), np.concatenate(steps)
    each = _each(recording, "samples")
    for rows in recording.rows("samples"):
        of = np.interp(rows["at_ns"].astype(float), times, numbers)
        for row, step in zip(rows[::each], of[::each], strict=True):
            machine = {
                f"machine/{name}": float(row[key]) * factor
                for key, (name, factor) in _MACHINE.items()
            }
            scalars.add(float(row["at_ns"]), int(step), machine)


def _write_epochs(recording: Recording, scalars: _Scalars) -> None:
    for event in recording.events:
        if isinstance(event, EpochEnded):
            scalars.add(
                event.at_ns,
                event.step,
                {f"epoch/{name}": value for name, value in event.metrics.items()},
            )


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
