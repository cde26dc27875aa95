"""A run as Chrome trace events, which ui.perfetto.dev and chrome://tracing open.

https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU has the format.
Times are whole
microseconds: the ends of parts are rounded, so parts lie within their step, steps never overlap,
and sums are exact to a microsecond. A step stands before its parts, because a viewer nests events
of the same time in their order.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tfwatch.core.events import EpochEnded, EpochStarted, Paused, StagesFound, ValidationEnded
from tfwatch.core.rows import Flag
from tfwatch.report.exports.tables import SENSORS, fields_of, filled, valid_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import IO

    from tfwatch.core.events import Event
    from tfwatch.core.rows import Rows
    from tfwatch.report.exports.tables import Recording

_PROCESS = 1
#: The rows of the viewer, from the top.
_STEPS, _EPOCHS, _VALIDATION, _EVENTS = 1, 2, 3, 4
_NAMES = {_STEPS: "training steps", _EPOCHS: "epochs", _VALIDATION: "validation", _EVENTS: "events"}
_PARTS = ("data wait", "copy", "compute", "host")
_STEP = (
    f'{{"ph":"X","pid":{_PROCESS},"tid":{_STEPS},"ts":%d,"dur":%d,"name":"step",'
    '"args":{"step":%d,"epoch":%d}},\n'
)
Ints: TypeAlias = NDArray[np.int64]


def write_trace(recording: Recording, file: IO[bytes]) -> None:
    """Write the trace of a run to a file, a chunk at a time."""
    file.write(b'{"displayTimeUnit":"ms","traceEvents":[\n')
    for text in _texts(recording):
        file.write(text.encode("utf-8", "replace"))
    about = {"workload": recording.manifest.workload, "device": recording.manifest.device}
    name = {"name": f"tfwatch {valid_text(recording.manifest.run)}"}
    file.write(_event(_meta("process_name", 0, name)).encode())
    file.write(f'\n],"otherData":{json.dumps(_cleaned(about))}}}\n'.encode())


def _texts(recording: Recording) -> Iterator[str]:
    """Yield the events as JSON, each followed by a comma."""
    for tid, name in _NAMES.items():
        yield _line(_meta("thread_name", tid, {"name": name}))
        yield _line(_meta("thread_sort_index", tid, {"sort_index": tid}))
    yield from _steps(recording.rows("steps"))
    yield from map(_line, _of_events(recording.events))
    for rows in recording.rows("samples"):
        for column, (name, factor) in SENSORS.items():
            yield _counter(name, rows["at_ns"], rows[column].astype(float) * factor)
    for rows in recording.rows("progress"):
        yield _counter("loss", rows["at_ns"], rows["loss"].astype(float))
        if recording.manifest.metric:
            yield _counter(recording.manifest.metric, rows["at_ns"], rows["metric"].astype(float))
    yield from _stages(recording)


# -- steps -----------------------------------------------------------------------------------------


def _steps(chunks: Iterable[Rows]) -> Iterator[str]:
    """Yield the steps with their parts. A chunk waits for the next one, before which its last step
    ends."""
    before: Rows | None = None
    for rows in chunks:
        if before is not None:
            yield _chunk(before, int(rows["start_ns"][0]))
        before = rows
    if before is not None:
        yield _chunk(before, None)


def _chunk(rows: Rows, next_ns: int | None) -> str:
    edges = _edges_us(rows, next_ns)
    steps = filled(_STEP, edges[0], edges[-1] - edges[0], rows["step"], rows["epoch"])
    parts = (_part(name, edges[at], edges[at + 1]) for at, name in enumerate(_PARTS))
    flagged = rows["flags"] != 0
    causes = (
        _line(_instant(Flag(int(flags)).cause or "flagged", int(at_us), {"step": int(step)}))
        for at_us, flags, step in zip(
            edges[0][flagged], rows["flags"][flagged], rows["step"][flagged], strict=True
        )
    )
    return steps + "".join(parts) + "".join(causes)


def _edges_us(rows: Rows, next_ns: int | None) -> list[Ints]:
    """Return the start of each step and the end of each of its parts, at most the start of the next
    step."""
    starts = rows["start_ns"].astype(np.int64)
    copy = np.nan_to_num(rows["copy_ms"].astype(float))
    took_ms = (
        rows["wait_ms"].astype(float),
        copy,
        rows["compute_ms"] - copy,
        rows["host_ms"].astype(float),
    )
    last_ns = starts[-1] + round(float(sum(part[-1] for part in took_ms)) * 1e6)
    nexts = np.append(starts[1:], last_ns if next_ns is None else next_ns)
    sums_ns = np.cumsum([np.zeros(len(rows)), *took_ms], axis=0) * 1e6
    ends = (
        np.minimum(starts + part.round().astype(np.int64), np.maximum(nexts, starts))
        for part in sums_ns
    )
    return [(end + 500) // 1000 for end in ends]


def _part(name: str, begins: Ints, ends: Ints) -> str:
    long = ends > begins
    if not long.any():
        return ""
    template = f'{{"ph":"X","pid":{_PROCESS},"tid":{_STEPS},"ts":%d,"dur":%d,"name":"{name}"}},\n'
    return filled(template, begins[long], (ends - begins)[long])


# -- events ----------------------------------------------------------------------------------------


def _of_events(events: Iterable[Event]) -> Iterator[dict[str, Any]]:
    events = list(events)
    yield from _epochs(events)
    for number, event in enumerate(events):
        at_us = event.at_ns // 1000
        if isinstance(event, Paused):
            yield from _pause(event, number)
        elif isinstance(event, ValidationEnded):
            took_us = min(int(event.took_ms * 1e3), at_us)
            yield _slice(
                f"validation of epoch {event.epoch + 1}", _VALIDATION, at_us - took_us, took_us, {}
            )
        elif not isinstance(event, EpochStarted | EpochEnded):
            yield _instant(type(event).__name__, at_us, fields_of(event))


def _epochs(events: Iterable[Event]) -> Iterator[dict[str, Any]]:
    """Yield each epoch from its start to its end; one that was broken off ends with the next."""
    begun: EpochStarted | None = None
    for event in events:
        if begun and isinstance(event, EpochStarted | EpochEnded):
            metrics = fields_of(event)["metrics"] if isinstance(event, EpochEnded) else {}
            begin_us = begun.at_ns // 1000
            took_us = max(event.at_ns // 1000 - begin_us, 0)
            yield _slice(
                f"epoch {begun.epoch + 1}", _EPOCHS, begin_us, took_us, {"metrics": metrics}
            )
            begun = None
        if isinstance(event, EpochStarted):
            begun = event


def _pause(event: Paused, number: int) -> Iterator[dict[str, Any]]:
    """Yield the begin and the end of a pause: pauses of several causes overlap, which slices of a
    row must not."""
    end_us = event.at_ns // 1000
    common = {"pid": _PROCESS, "tid": _EVENTS, "cat": "pause", "id": number, "name": event.cause}
    yield {
        "ph": "b",
        **common,
        "ts": max(end_us - int(event.took_ms * 1e3), 0),
        "args": {"detail": event.detail},
    }
    yield {"ph": "e", **common, "ts": end_us}


# -- counters --------------------------------------------------------------------------------------


def _stages(recording: Recording) -> Iterator[str]:
    found = (event for event in recording.events if isinstance(event, StagesFound))
    names = {event.pipeline: event.names for event in found}
    for rows in recording.rows("stages"):
        keys = np.unique(np.stack([rows["pipeline"], rows["stage"]], axis=1), axis=0)
        for pipeline, stage in keys.tolist():
            own = rows[(rows["pipeline"] == pipeline) & (rows["stage"] == stage)]
            # Its number makes the name unique.
            known = names.get(pipeline, [])[stage : stage + 1]
            name = ", ".join([f"stage {stage + 1}", *known])
            yield _counter(f"{name}: ms/batch", own["at_ns"], own["busy_ms"].astype(float))
            yield _counter(f"{name}: buffered", own["at_ns"], own["buffered"].astype(float))


def _counter(name: str, at_ns: NDArray[np.uint64], values: NDArray[np.float64]) -> str:
    """Return a counter's known values; a missing one is absent."""
    known = np.isfinite(values)
    if not known.any():
        return ""
    quoted = json.dumps(valid_text(name)).replace("%", "%%")
    template = f'{{"ph":"C","pid":{_PROCESS},"ts":%d,"name":{quoted},"args":{{"value":%.9g}}}},\n'
    return filled(template, at_ns[known] // 1000, values[known])


# -- single events ---------------------------------------------------------------------------------


def _slice(name: str, tid: int, at_us: int, took_us: int, args: dict[str, Any]) -> dict[str, Any]:
    own = {"ph": "X", "ts": at_us, "dur": took_us}
    return {**own, "pid": _PROCESS, "tid": tid, "name": name, "args": args}


def _instant(name: str, at_us: int, args: dict[str, Any]) -> dict[str, Any]:
    own = {"ph": "i", "s": "t", "ts": at_us}
    return {**own, "pid": _PROCESS, "tid": _EVENTS, "name": name, "args": args}


def _meta(name: str, tid: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "pid": _PROCESS, "tid": tid, "name": name, "args": args}


def _line(event: dict[str, Any]) -> str:
    return f"{_event(event)},\n"


def _event(event: dict[str, Any]) -> str:
    return json.dumps(_cleaned(event), separators=(",", ":"))


def _cleaned(value: Any) -> Any:
    """Return the value with every text in it made harmless."""
    if isinstance(value, dict):
        return {valid_text(str(name)): _cleaned(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(one) for one in value]
    return valid_text(value) if isinstance(value, str) else value
