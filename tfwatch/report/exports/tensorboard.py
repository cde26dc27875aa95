"""A run as scalars for TensorBoard, written by the tensorboard package: TensorFlow takes seconds to
import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tfwatch.core.events import EpochEnded
from tfwatch.report.exports.tables import SENSORS, valid_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import IO

    from tfwatch.core.rows import Rows
    from tfwatch.report.exports.tables import Recording

#: TensorBoard shows at most so many points of a scalar.
_POINTS = 1000
_PARTS = {"wait": "data wait", "compute": "compute", "host": "host", "copy": "copy to the GPU"}


def write_scalars(recording: Recording, steps: int, create: Callable[[str], IO[bytes]]) -> None:
    """Write the scalars of a run. steps: the number of its steps. create: opens the file of this
    name.

    Raises:
        ImportError: tensorboard is not installed.
    """
    scalars = _Scalars(recording.manifest.origin_wall_ns, create)
    try:
        _write_steps(recording, scalars, max(1, steps // _POINTS))
        for event in recording.events:
            if isinstance(event, EpochEnded):
                metrics = {f"epoch/{name}": value for name, value in event.metrics.items()}
                scalars.add(event.at_ns, event.step, metrics)
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
        name = f"events.out.tfevents.{origin_wall_ns // 10**9}.tfwatch"
        self._file: Any = RecordWriter(create(name))
        self._write(self._event(wall_time=origin_wall_ns / 1e9, file_version="brain.Event:2"))

    def add(self, at_ns: float, step: int, values: dict[str, float]) -> None:
        """Write the scalars of one step."""
        known = {valid_text(tag): value for tag, value in values.items() if np.isfinite(value)}
        scalars = [self._summary.Value(tag=tag, simple_value=one) for tag, one in known.items()]
        if scalars:
            at_s = (self._origin_ns + at_ns) / 1e9
            summary = self._summary(value=scalars)
            self._write(self._event(wall_time=at_s, step=step, summary=summary))

    def _write(self, event: Any) -> None:
        self._file.write(event.SerializeToString())

    def close(self) -> None:
        """Complete the file."""
        self._file.close()


def _write_steps(recording: Recording, scalars: _Scalars, each: int) -> None:
    """Write the means of `each` steps in a row, with the loss and the machine at that time."""
    figures = {table: _Newest(recording, table) for table in ("progress", "samples")}
    for rows in recording.rows("steps"):
        for first in range(0, len(rows), each):
            part = rows[first : first + each]
            at_ns, step = float(part["start_ns"][-1]), int(part["step"][-1])
            values = _means(part)
            if (progress := figures["progress"].until(at_ns)) is not None:
                values["batch/loss"] = float(progress["loss"])
                if recording.manifest.metric:
                    values[f"batch/{recording.manifest.metric}"] = float(progress["metric"])
            if (sample := figures["samples"].until(at_ns)) is not None:
                for column, (name, factor) in SENSORS.items():
                    values[f"machine/{name}"] = float(sample[column]) * factor
            scalars.add(at_ns, step, values)


def _means(rows: Rows) -> dict[str, float]:
    means = {part: float(np.mean(rows[f"{part}_ms"], dtype=np.float64)) for part in _PARTS}
    total = means["wait"] + means["compute"] + means["host"]
    named = {f"step time, ms/{_PARTS[part]}": mean for part, mean in means.items()}
    share = means["wait"] / total * 100 if total > 0 else np.nan
    return {"step time, ms/total": total, **named, "data wait, %": share}


class _Newest:
    """The rows of a table in the order of time, each given out once."""

    def __init__(self, recording: Recording, table: str) -> None:
        self._rows: Iterator[Any] = (row for rows in recording.rows(table) for row in rows)
        self._next: Any = next(self._rows, None)

    def until(self, at_ns: float) -> Any:
        """Return the newest row up to a moment; None without a new one."""
        newest = None
        while self._next is not None and float(self._next["at_ns"]) <= at_ns:
            newest, self._next = self._next, next(self._rows, None)
        return newest
