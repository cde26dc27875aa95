"""A run as Chrome trace events, which ui.perfetto.dev and chrome://tracing open.

https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU has the format.
Times are whole microseconds. A step stands before its parts, because a viewer nests events of the
same time in their order.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any, TypeAlias

import msgspec
import numpy as np

from tfwatch.core.events import EpochEnded, EpochStarted, Paused, ValidationEnded
from tfwatch.core.rows import Flag

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tfwatch.core.events import Event
    from tfwatch.core.rows import Rows
    from tfwatch.runs.snapshot import Snapshot

TraceEvent: TypeAlias = "dict[str, Any]"
#: Rows of a chunk: 2.4 MB of steps.
_CHUNK = 65_536
#: The rows of the viewer, from the top.
_STEPS, _EPOCHS, _VALIDATION, _EVENTS = 1, 2, 3, 4
_NAMES = {_STEPS: "training steps", _EPOCHS: "epochs", _VALIDATION: "validation", _EVENTS: "events"}
_PARTS = ("data wait", "copy", "compute", "host")
#: Counters of the machine, by the column of `core.rows.SAMPLE`.
_SENSORS = {
    "gpu_busy": "GPU busy, 0 to 1",
    "gpu_power_w": "GPU power, W",
    "gpu_memory_bytes": "GPU memory, bytes",
    "cpu_cores": "CPU cores in use",
    "process_cores": "CPU cores of the training",
    "process_bytes": "memory of the process, bytes",
}


def write_trace(run: Snapshot, file: IO[bytes]) -> None:
    """Write the trace of a run to a file, an event at a time."""
    separator = b'{"displayTimeUnit":"ms","traceEvents":[\n'
    for event in _trace_events(run):
        file.write(separator + msgspec.json.encode(event))
        separator = b",\n"
    file.write(b"\n]}\n")


def _trace_events(run: Snapshot) -> Iterator[TraceEvent]:
    yield _event("M", "process_name", args={"name": f"tfwatch {run.manifest.run}"})
    for tid, name in _NAMES.items():
        yield _event("M", "thread_name", tid=tid, args={"name": name})
    steps = run.plausible_steps
    for first in range(0, len(steps), _CHUNK):
        chunk = steps[first : first + _CHUNK + 1]
        yield from _steps(chunk[:_CHUNK], chunk["start_ns"][1:])
    yield from _epochs(run.events)
    for number, event in enumerate(run.events):
        yield from _of_event(event, number)
    for column, name in _SENSORS.items():
        yield from _counter(name, run.samples, column)
    yield from _counter("loss", run.progress, "loss")
    yield from _stages(run)


def _event(phase: str, name: str, **fields: Any) -> TraceEvent:
    return {"ph": phase, "pid": 1, "name": name, **fields}


def _slice(name: str, tid: int, begin_us: int, end_us: int, **args: object) -> TraceEvent:
    begin_us = max(begin_us, 0)
    took_us = max(end_us - begin_us, 0)
    return _event("X", name, tid=tid, ts=begin_us, dur=took_us, args=args)


def _instant(name: str, at_us: int, args: object) -> TraceEvent:
    return _event("i", name, tid=_EVENTS, ts=at_us, s="t", args=args)


# -- steps -----------------------------------------------------------------------------------------


def _steps(rows: Rows, next_ns: Rows) -> Iterator[TraceEvent]:
    """Yield each step with its parts, which end before the next step. next_ns: the starts of the
    next steps; the last step of a run has none."""
    steps, epochs, flags = (rows[name].tolist() for name in ("step", "epoch", "flags"))
    for step, epoch, flag, edges in zip(
        steps, epochs, flags, _edges_us(rows, next_ns), strict=True
    ):
        yield _slice("step", _STEPS, edges[0], edges[-1], step=step, epoch=epoch)
        for name, begin, end in zip(_PARTS, edges[:-1], edges[1:], strict=True):
            if end > begin:
                yield _slice(name, _STEPS, begin, end)
        if flag:
            yield _instant(Flag(flag).cause or "flagged", edges[0], {"step": step})


def _edges_us(rows: Rows, next_ns: Rows) -> list[list[int]]:
    """Return the start of each step and the end of each of its parts."""
    starts = rows["start_ns"].astype(np.float64)
    copy = np.nan_to_num(rows["copy_ms"].astype(np.float64))
    parts_ms = np.stack([rows["wait_ms"], copy, rows["compute_ms"] - copy, rows["host_ms"]])
    ends = starts + np.cumsum(parts_ms, axis=0, dtype=np.float64) * 1e6
    latest = np.append(next_ns, np.inf)[: len(rows)]
    edges = np.maximum.accumulate(np.vstack([starts, np.minimum(ends, latest)]), axis=0)
    whole: list[list[int]] = (edges // 1000).astype(np.int64).T.tolist()
    return whole


# -- events ----------------------------------------------------------------------------------------


def _epochs(events: Iterable[Event]) -> Iterator[TraceEvent]:
    """Yield each epoch from its start to its end; one that was broken off ends with the next."""
    begun: EpochStarted | None = None
    for event in events:
        if begun and isinstance(event, EpochStarted | EpochEnded):
            metrics = event.metrics if isinstance(event, EpochEnded) else {}
            begin_us, end_us = begun.at_ns // 1000, event.at_ns // 1000
            yield _slice(f"epoch {begun.epoch + 1}", _EPOCHS, begin_us, end_us, metrics=metrics)
            begun = None
        if isinstance(event, EpochStarted):
            begun = event


def _of_event(event: Event, number: int) -> Iterator[TraceEvent]:
    at_us = event.at_ns // 1000
    if isinstance(event, Paused):
        yield from _pause(event, at_us, number)
    elif isinstance(event, ValidationEnded):
        name, begin_us = (
            f"validation of epoch {event.epoch + 1}",
            at_us - round(event.took_ms * 1e3),
        )
        yield _slice(name, _VALIDATION, begin_us, at_us)
    elif not isinstance(event, EpochStarted | EpochEnded):
        yield _instant(type(event).__name__, at_us, event)


def _pause(event: Paused, at_us: int, number: int) -> Iterator[TraceEvent]:
    """Yield the begin and the end of a pause: pauses of several causes overlap, which slices of a
    row must not."""
    common = {"tid": _EVENTS, "cat": "pause", "id": number, "args": {"detail": event.detail}}
    yield _event("b", event.cause, ts=max(at_us - round(event.took_ms * 1e3), 0), **common)
    yield _event("e", event.cause, ts=at_us, **common)


# -- counters --------------------------------------------------------------------------------------


def _counter(name: str, rows: Rows, column: str) -> Iterator[TraceEvent]:
    """Yield a counter's known values; a missing one is absent."""
    for row in rows[np.isfinite(rows[column])]:
        value = float(row[column])
        yield _event("C", name, ts=int(row["at_ns"]) // 1000, args={"value": value})


def _stages(run: Snapshot) -> Iterator[TraceEvent]:
    rows = run.stages
    for pipeline, found in run.stages_found.items():
        for stage, name in enumerate(found.names):
            own = rows[(rows["pipeline"] == pipeline) & (rows["stage"] == stage)]
            # Its number makes the name unique.
            yield from _counter(f"stage {stage + 1}, {name}: ms/batch", own, "busy_ms")
            yield from _counter(f"stage {stage + 1}, {name}: buffered", own, "buffered")
