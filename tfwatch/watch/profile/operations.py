"""Read what TensorFlow's profiler recorded: the time of each operation, by layer and role."""

from __future__ import annotations

import gc
import math
import re
import sys
from collections import Counter, defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from tfwatch.core.events import LOOP, MOST_OPERATIONS, OperationTime, StepProfiled
from tfwatch.watch.profile.compiled import operations_of_kernels
from tfwatch.watch.profile.gaps import Busy, begin_ps, call_begins, gaps_of, within
from tfwatch.watch.profile.origins import CALL, COPY, Origins

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tfwatch.watch.profile.gaps import Gap
    from tfwatch.watch.profile.origins import Origin

#: The event of the training's thread after the last profiled step.
END = "tfwatch: the profile ends"
#: An event of an operation: its path in the graph and its kernel.
_OPERATION = re.compile(r"(?P<path>[^:\s]+):(?P<op>[A-Za-z_]\w*)")
#: The statistic of a kernel that XLA compiled, e.g. `MatMul.48`, and the plane and the statistic
#: that hold the modules of such kernels.
_XLA = "hlo_op"
_XLA_NUMBER = re.compile(r"\.\d+$")
_XLA_PLANE = "/host:metadata"
#: What runs in these is the input pipeline.
_OF_DATA = ("Iterator::", "MakeIterator", "PrefetchProduce", "ParallelMapProduce", "Instantiated")
#: The executor starts operations in these, and runs there those that are too small for an event.
_EXECUTOR = ("ExecutorState::Process", "ExecutorDoneCallback")
_HOST, _DEVICE = "/host:CPU", "/device:GPU"
#: A line of a GPU's plane that has its kernels; others have what the profiler adds. The path of an
#: operation that a `tf.function` runs.
_STREAM, _CALLED = "Stream #", "PartitionedCall"
#: Launching an operation takes a thread 5 to 20 us. One without a kernel that takes it longer, as a
#: `py_function` does, computes there.
_LONGEST_LAUNCH_PS = 100_000_000
#: While a profile is read, Python's lock goes to a thread that waits for it after so long, seconds,
#: in place of 5 ms: the training needs it some times in each step.
_YIELD_S = 1e-4


@dataclass(frozen=True)
class Recording:
    """A profile as TensorFlow wrote it.

    folder: of its file. by: as of `StepProfiled`. model, graph: of the step, for the names of
    operations; None where they are gone.
    """

    folder: Path
    step: int
    steps: int
    step_ms: float
    cost_ms: float
    by: str
    model: Any
    graph: Any


class _Time(NamedTuple):
    """An event's own time. ps: picoseconds, without the events in it."""

    path: str
    op: str
    ps: int


@dataclass
class _Part:
    """The operations of one origin. ops: their picoseconds by kernel."""

    ps: int = 0
    ops: Counter[str] = field(default_factory=Counter)
    place: str = ""

    def row(self, origin: Origin, steps: int) -> OperationTime:
        """Return its row of a profile, in milliseconds a step."""
        ((longest, _),) = self.ops.most_common(1)
        return OperationTime(
            origin.role,
            origin.name,
            origin.kind,
            longest,
            _ms(self.ps, steps),
            self.place,
            origin.in_loop,
            origin.variable,
        )


@dataclass
class _Times:
    operations: list[_Time] = field(default_factory=list)
    small_ps: int = 0
    gaps_ps: int | None = None
    float32_ps: int | None = None


@contextmanager
def beside_a_training() -> Iterator[None]:
    """Let other threads have Python's lock soon, and collect no garbage: that takes the whole
    process 0.2 to 0.3 s with TensorFlow's objects, and what reading makes is freed without."""
    usual_s, collects = sys.getswitchinterval(), gc.isenabled()
    sys.setswitchinterval(min(_YIELD_S, usual_s))
    gc.disable()
    try:
        yield
    finally:
        sys.setswitchinterval(usual_s)
        if collects:
            gc.enable()


@beside_a_training()
def read_profile(done: Recording, now_ns: int, *, accelerated: bool = False) -> StepProfiled:
    """Return the profile of a recording, as an event of this moment.

    accelerated: a GPU computes the steps. Without its kernels there is no profile: the host's
    operations only launch them.

    Raises:
        Exception: TensorFlow's file is missing, or not as expected.
    """
    space = _read_space(done)
    host, devices = _planes(space, _HOST), _planes(space, _DEVICE)
    named = operations_of_kernels(_planes(space, _XLA_PLANE), [*host, *devices])
    compiled = {kernel: f"{CALL}/{name}" for kernel, name in named.items()}
    begins, until = call_begins(host), _end_of(host)
    times = _device_times(devices, host, compiled, begins, until)
    on_gpu = bool(times.operations)
    if accelerated and not on_gpu:
        times_ms = done.step_ms, done.cost_ms
        why = "TensorFlow's profiler sees no kernels of this GPU"
        return StepProfiled(now_ns, done.step, done.steps, *times_ms, missing=why, by=done.by)
    if not on_gpu:
        times = _host_times(host, compiled, until)
    origins = Origins(done.model, done.graph, {one.path for one in times.operations})
    if not on_gpu:  # other functions run on the CPU's threads too; all kernels are the GPU's time
        times.operations = [one for one in times.operations if origins.has(one.path)]
    rows, others_ms = _rows(times.operations, origins, done.steps)
    return StepProfiled(
        now_ns,
        done.step,
        done.steps,
        done.step_ms,
        done.cost_ms,
        on_gpu,
        rows,
        others_ms,
        _ms(times.small_ps, done.steps),
        "" if rows else "TensorFlow's profiler recorded no operations of the step",
        done.by,
        None if times.gaps_ps is None else _ms(times.gaps_ps, done.steps),
        None if times.float32_ps is None else _ms(times.float32_ps, done.steps),
    )


def _read_space(done: Recording) -> Any:
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace()
    for file in done.folder.rglob("*.xplane.pb"):
        space.ParseFromString(file.read_bytes())
        return space
    raise FileNotFoundError("TensorFlow's profiler has written no file")


def _planes(space: Any, name: str) -> list[Any]:
    return [plane for plane in space.planes if plane.name.startswith(name)]


def _end_of(host: Iterable[Any]) -> float:
    """Return the end of the profiled steps, picoseconds: TensorFlow records on until it stops."""
    for plane in host:
        marks = {key for key, one in plane.event_metadata.items() if one.name == END}
        for line in plane.lines if marks else ():
            for event in line.events:
                if event.metadata_id in marks:
                    return begin_ps(line, event)
    return math.inf


# -- events ----------------------------------------------------------------------------------------


def _device_times(
    planes: Sequence[Any],
    host: Sequence[Any],
    compiled: Mapping[str, str],
    begins: Sequence[int],
    until: float,
) -> _Times:
    """Return the kernels of GPUs: each bears the path of its operation, but for copies and what
    fills memory; and what the host computes while a GPU idles. begins: of the calls of the step.
    until: none that begins from here on."""
    times = _Times(gaps_ps=0 if begins else None)
    for plane in planes:
        known, busy = _statistics(plane), []
        for line in (one for one in plane.lines if one.name.startswith(_STREAM)):
            for event in line.events:
                if (begin := begin_ps(line, event)) >= until:
                    continue
                path = compiled.get(_statistic(plane, event, known.get(_XLA)), "")
                path = path or _statistic(plane, event, known.get("tf_op"))
                name = plane.event_metadata[event.metadata_id].name
                times.operations.append(_Time(path or f"{CALL}/{name}", name, event.duration_ps))
                called = path if _CALLED in path else ""
                busy.append(Busy(begin, begin + event.duration_ps, called))
        if times.gaps_ps is not None:
            _add_gaps(times, gaps_of(busy, begins), host)
    if all(map(_has_tensor_cores, planes)):
        times.float32_ps = _idle_tensor_cores_ps(times.operations)
    return times


def _add_gaps(times: _Times, gaps: Sequence[Gap], host: Sequence[Any]) -> None:
    """Add the gaps of a GPU. Those in which the host computes are the time of its operations, and
    those between the kernels of a loop that of the loop."""
    copies = {op for op in {one.op for one in times.operations} if COPY.search(op)}
    paths = {one.path for one in times.operations if one.op not in copies}
    left: Counter[str] = Counter()
    for gap in gaps:
        left[gap.loop] += gap.end - gap.begin
    until = 0
    for begin, end, path, op in sorted(_long_operations(host)):
        if path not in paths and end > until:
            for part in within(max(begin, until), end, gaps):
                times.operations.append(_Time(path, op, part.end - part.begin))
                left[part.loop] -= part.end - part.begin
            until = end
    times.gaps_ps = (times.gaps_ps or 0) + left.pop("", 0)
    times.operations += [_Time(loop, LOOP, ps) for loop, ps in left.items()]


def _long_operations(host: Iterable[Any]) -> Iterator[tuple[int, int, str, str]]:
    """Yield begin, end, path and kernel of the step's operations that take a thread longer than a
    launch."""
    for plane in host:
        names = {key: metadata.name for key, metadata in plane.event_metadata.items()}
        of_data = {key for key, name in names.items() if name.startswith(_OF_DATA)}
        for line in plane.lines:
            data_until = 0
            spans = (
                (begin := begin_ps(line, event), begin + event.duration_ps, event.metadata_id)
                for event in line.events
                if event.metadata_id in of_data or event.duration_ps >= _LONGEST_LAUNCH_PS
            )
            for begin, end, key in sorted(spans):
                if key in of_data:
                    data_until = max(data_until, end)
                elif begin >= data_until:
                    match = _OPERATION.fullmatch(names[key])
                    if match and _CALLED in match["path"]:
                        yield begin, end, match["path"], match["op"]


def _statistics(plane: Any) -> dict[str, int]:
    """Return the numbers of the statistics of a plane by their names."""
    return {metadata.name: metadata.id for metadata in plane.stat_metadata.values()}


def _statistic(plane: Any, event: Any, wanted: int | None) -> str:
    if wanted is None:  # most planes have thousands of events, and none by XLA
        return ""
    stats = chain(event.stats, plane.event_metadata[event.metadata_id].stats)
    found = next((stat for stat in stats if stat.metadata_id == wanted), None)
    if found is None:
        return ""
    referred = plane.stat_metadata[found.ref_value].name if found.ref_value else ""
    return (found.str_value or referred).rpartition(":")[0] or found.str_value or referred


def _host_times(planes: Iterable[Any], compiled: Mapping[str, str], until: float) -> _Times:
    """Return the operations that a CPU's threads began until then, each without the events in
    it."""
    times = _Times()
    for plane in planes:
        names = {key: metadata.name for key, metadata in plane.event_metadata.items()}
        of_xla = _statistics(plane).get(_XLA)
        for line in plane.lines:
            events = line.events if of_xla is not None else ()
            kernels = {one.metadata_id for one in events if _statistic(plane, one, of_xla) != ""}
            own: Counter[int] = Counter()
            for key, ps in _own_times(names, line, until):
                own[key] += ps
            for key, ps in own.items():  # a step has thousands of events, and hundreds of names
                if key in kernels:
                    op = _XLA_NUMBER.sub("", names[key])
                    times.operations.append(_Time(compiled.get(names[key], ""), op, ps))
                elif match := _OPERATION.fullmatch(names[key]):
                    times.operations.append(_Time(match["path"], match["op"], ps))
                elif names[key].startswith(_EXECUTOR):
                    times.small_ps += ps
    return times


def _own_times(names: Mapping[int, str], line: Any, until: float) -> Iterator[tuple[int, int]]:
    """Yield the number of each event of a thread and its own picoseconds, without the input
    pipeline."""
    of_data = {key for key, name in names.items() if name.startswith(_OF_DATA)}
    until -= line.timestamp_ns * 1000
    events = sorted(
        (begin, -one.duration_ps, one.metadata_id)
        for one in line.events
        if (begin := one.offset_ps) < until
    )
    around: list[_Open] = []
    for begin, minus, key in events:
        while around and around[-1].end <= begin:
            yield from _closed(around)
        is_of_data = key in of_data
        if around:
            around[-1].inside -= minus
            is_of_data = is_of_data or around[-1].is_of_data
        around.append(_Open(key, begin - minus, -minus, is_of_data))
    while around:
        yield from _closed(around)


@dataclass(slots=True)
class _Open:
    """An event around others, picoseconds. inside: of the events in it."""

    key: int
    end: int
    duration: int
    is_of_data: bool
    inside: int = 0


def _closed(around: list[_Open]) -> Iterator[tuple[int, int]]:
    event = around.pop()
    if not event.is_of_data:
        yield event.key, max(event.duration - event.inside, 0)


# -- tensor cores ----------------------------------------------------------------------------------

#: Products and convolutions in single precision by cuBLAS, cuDNN and CUTLASS; and what stands in
#: the name of a kernel that uses tensor cores or another precision, as in
#: `cutlass_80_tensorop_s1688gemm_128x128_nn`.
_FLOAT32 = re.compile(r"sgemm|scudnn|simt_s")
_OTHER = re.compile(r"tensorop|tf32|bf16|half|fp16|s1688|s16816|s884|h884|h1688|h16816|hmma")
#: The first compute capability with tensor cores, that of a V100.
_LEAST = 7


def _has_tensor_cores(plane: Any) -> bool:
    """Return whether the compute capability in a GPU's plane has tensor cores; False where it is
    not known."""
    names = {key: one.name for key, one in plane.stat_metadata.items()}
    major = (one for one in plane.stats if names.get(one.metadata_id) == "compute_cap_major")
    return any(max(one.uint64_value, one.int64_value) >= _LEAST for one in major)


def _idle_tensor_cores_ps(kernels: Iterable[_Time]) -> int:
    """Return the time of kernels that compute products in float32 without tensor cores.

    None count where others use TensorFloat-32: there TensorFlow tries both, and keeps float32 where
    it is faster.
    """
    by_name: Counter[str] = Counter()
    for _, name, ps in kernels:
        by_name[name] += ps
    if any("tf32" in name for name in by_name):
        return 0
    plain = (name for name in by_name if _FLOAT32.search(name) and not _OTHER.search(name))
    return sum(by_name[name] for name in plain)


# -- rows ------------------------------------------------------------------------------------------


def _rows(
    times: list[_Time], origins: Origins, steps: int
) -> tuple[tuple[OperationTime, ...], float]:
    """Return the longest parts, and the time of the others, milliseconds a step."""
    parts: dict[Origin, _Part] = defaultdict(_Part)
    by_path: Counter[tuple[str, str]] = Counter()
    for time in times:
        by_path[time.path, time.op] += time.ps
    # Where looking up is limited, the longest count.
    for (path, op), ps in by_path.most_common():
        origin = origins.of(path, op)
        part = parts[origin]
        part.ps += ps
        part.ops[op] += ps
        part.place = part.place or origin.place
    ranked = sorted(parts.items(), key=lambda one: -one[1].ps)
    rows = (part.row(origin, steps) for origin, part in ranked[:MOST_OPERATIONS])
    return tuple(rows), _ms(sum(part.ps for _, part in ranked[MOST_OPERATIONS:]), steps)


def _ms(ps: int, steps: int) -> float:
    return ps / 1e9 / max(steps, 1)
