"""The times of operations in the file of TensorFlow's profiler.

A process of its own reads it: Python takes 60 to 100 ms for the thousands of events of a few steps,
in which a training would wait for Python's lock again and again.
"""

from __future__ import annotations

import math
import os
import re
import sys
import types
from collections import Counter
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from tfwatch.core.errors import reason
from tfwatch.core.events import LOOP
from tfwatch.core.system_tool import run
from tfwatch.watch.profile.compiled import operations_of_kernels
from tfwatch.watch.profile.gaps import Busy, begin_ps, call_begins, gaps_of, within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tfwatch.watch.profile.gaps import Gap

#: Calls of functions with the loops around them.
CALL = "StatefulPartitionedCall"
#: What copies: paths and kernels.
COPY = re.compile(r"Mem[cC]py|_Send$|_Recv$|IteratorGetNext")
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
#: The longest of them takes less: beside a busy pipeline on two cores 2 of 2 500 took 5.6 ms, half
#: of the time of all, while their thread waited for a core.
_LONGEST_SMALL_PS = 100_000_000
#: A function is called in this: a map of the input pipeline in threads of these names.
_FUNCTION_RUN, _DATA_THREADS = "FunctionRun", "tf_data_"
HOST, DEVICE = "/host:CPU", "/device:GPU"
#: A line of a GPU's plane that has its kernels; others have what the profiler adds. The path of an
#: operation that a `tf.function` runs.
STREAM, _CALLED = "Stream #", "PartitionedCall"
#: Launching an operation takes a thread 5 to 20 us. One without a kernel that takes it longer, as a
#: `py_function` does, computes there.
_LONGEST_LAUNCH_PS = 100_000_000
#: The niceness of the process that reads, and its most seconds: it takes 0.2 to 0.5 on busy cores,
#: and 3.5 for ResNet50.
_NICE, LONGEST_S = 10, 8.0
#: Ctrl+c is for the training, which may go on. Python's own modules come first, then the packages
#: that are needed, and no folder of the user's: a script of the name of a module would train again.
_PROGRAM = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); sys.path += sys.argv[3:];"
    " from {0} import main; main(*sys.argv[1:3])"
)
_ISOLATED = ("-I", "-S", "-W", "ignore", "-c")


class Time(NamedTuple):
    """The own time of an operation. ps: picoseconds, without the events in it. on_host: the host
    computes it while a GPU waits."""

    path: str
    op: str
    ps: int
    on_host: bool = False


@dataclass
class Recorded:
    """The operations of all recorded steps, the longest first, in picoseconds.

    on_gpu: they are a GPU's kernels, and what the host computes while it idles; else operations of
    the CPU. small_ps: operations of the CPU that are too small to be recorded. gaps_ps: launch
    gaps; None where the calls of the step are not known. float32_ps: products in float32 that leave
    tensor cores idle; None on a GPU without these.
    """

    operations: list[Time] = field(default_factory=list)
    on_gpu: bool = False
    small_ps: int = 0
    gaps_ps: int | None = None
    float32_ps: int | None = None


def read_apart(folder: Path) -> Recorded:
    """Read the file in a folder, in a process of its own.

    Raises:
        RuntimeError: it cannot, for the reason in the message.
    """
    import tensorflow as tf

    # Another program that holds a Python would start itself, and train.
    name = os.path.basename(sys.executable or "").lower()
    if getattr(sys, "frozen", False) or not name.startswith(("python", "pypy")):
        raise RuntimeError(f"no Python is known that can read it: {name or 'none'}")
    tensorflow = os.path.dirname(tf.__file__)
    program = (sys.executable, *_ISOLATED, _PROGRAM.format(__name__))
    result = run((*program, str(folder), tensorflow, *_folders()), LONGEST_S, os.environ)
    if result.failure:
        raise RuntimeError(result.failure)
    return msgspec.json.decode(result.out, type=Recorded)


def _folders() -> dict[str, None]:
    """Return the folders of the packages that are needed, from where this process has them."""
    protobuf = str(sys.modules["google.protobuf"].__file__)  # TensorFlow has loaded it
    files = (Path(msgspec.__file__), Path(protobuf).parent, Path(__file__).parents[1])
    return dict.fromkeys(str(one.parents[1]) for one in files)


def main(folder: str, package: str) -> None:
    """Print what the file in a folder has. package: TensorFlow's folder, which is not started: that
    takes seconds of a core, and the descriptions of its files need none of it."""
    os.nice(_NICE)
    tensorflow = types.ModuleType("tensorflow")
    tensorflow.__path__ = [package]
    sys.modules["tensorflow"] = tensorflow
    try:
        found = msgspec.json.encode(read(Path(folder)))
    except Exception as error:  # noqa: BLE001  a file of another TensorFlow may raise anything
        sys.exit(reason(error))
    sys.stdout.buffer.write(found)


def read(folder: Path) -> Recorded:
    """Read the file in a folder.

    Raises:
        Exception: TensorFlow's file is missing, or not as expected.
    """
    space = read_space(folder)
    host, devices = planes_of(space, HOST), planes_of(space, DEVICE)
    named = operations_of_kernels(planes_of(space, _XLA_PLANE), [*host, *devices])
    compiled = {kernel: f"{CALL}/{name}" for kernel, name in named.items()}
    begins, until = call_begins(host), end_of(host)
    found = _on_device(devices, host, compiled, begins, until)
    if not found.operations:
        found = _on_host(host, compiled, until)
    by_path: Counter[tuple[str, str, bool]] = Counter()
    for one in found.operations:
        by_path[one.path, one.op, one.on_host] += one.ps
    longest = by_path.most_common()
    found.operations = [Time(path, op, ps, on_host) for (path, op, on_host), ps in longest]
    return found


def read_space(folder: Path) -> Any:
    """Return all planes of the file in a folder."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace()
    for file in folder.rglob("*.xplane.pb"):
        space.ParseFromString(file.read_bytes())
        return space
    raise FileNotFoundError("TensorFlow's profiler has written no file")


def planes_of(space: Any, name: str) -> list[Any]:
    """Return the planes whose names begin so."""
    return [plane for plane in space.planes if plane.name.startswith(name)]


def end_of(host: Iterable[Any]) -> float:
    """Return the end of the profiled steps, picoseconds: TensorFlow records on until it stops."""
    for plane in host:
        marks = {key for key, one in plane.event_metadata.items() if one.name == END}
        for line in plane.lines if marks else ():
            for event in line.events:
                if event.metadata_id in marks:
                    return begin_ps(line, event)
    return math.inf


# -- events ----------------------------------------------------------------------------------------


def _on_device(
    planes: Sequence[Any],
    host: Sequence[Any],
    compiled: Mapping[str, str],
    begins: Sequence[int],
    until: float,
) -> Recorded:
    """Return the kernels of GPUs: each bears the path of its operation, but for copies and what
    fills memory; and what the host computes while a GPU idles. begins: of the calls of the step.
    until: none that begins from here on."""
    times = Recorded(on_gpu=True, gaps_ps=0 if begins else None)
    for plane in planes:
        known, busy = _statistics(plane), []
        for line in (one for one in plane.lines if one.name.startswith(STREAM)):
            for event in line.events:
                if (begin := begin_ps(line, event)) >= until:
                    continue
                path = compiled.get(_statistic(plane, event, known.get(_XLA)), "")
                path = path or _statistic(plane, event, known.get("tf_op"))
                name = plane.event_metadata[event.metadata_id].name
                times.operations.append(Time(path or f"{CALL}/{name}", name, event.duration_ps))
                called = path if _CALLED in path else ""
                busy.append(Busy(begin, begin + event.duration_ps, called))
        if times.gaps_ps is not None:
            _add_gaps(times, gaps_of(busy, begins), host)
    if all(map(_has_tensor_cores, planes)):
        times.float32_ps = _idle_tensor_cores_ps(times.operations)
    return times


def _add_gaps(times: Recorded, gaps: Sequence[Gap], host: Sequence[Any]) -> None:
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
                times.operations.append(Time(path, op, part.end - part.begin, on_host=True))
                left[part.loop] -= part.end - part.begin
            until = end
    times.gaps_ps = (times.gaps_ps or 0) + left.pop("", 0)
    times.operations += [Time(loop, LOOP, ps) for loop, ps in left.items()]


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


def _on_host(planes: Iterable[Any], compiled: Mapping[str, str], until: float) -> Recorded:
    """Return the operations that a CPU's threads began until then, each without the events in
    it."""
    times = Recorded()
    for plane in planes:
        names = {key: metadata.name for key, metadata in plane.event_metadata.items()}
        of_xla, in_pipeline = _statistics(plane).get(_XLA), _in_pipeline(plane, names)
        for line in plane.lines:
            events = line.events if of_xla is not None else ()
            kernels = {one.metadata_id for one in events if _statistic(plane, one, of_xla) != ""}
            own: Counter[int] = Counter()
            for key, ps in _own_times(names, line, until, in_pipeline):
                is_small = names[key].startswith(_EXECUTOR)
                own[key] += min(ps, _LONGEST_SMALL_PS) if is_small else ps
            for key, ps in own.items():  # a step has thousands of events, and hundreds of names
                if key in kernels:
                    op = _XLA_NUMBER.sub("", names[key])
                    times.operations.append(Time(compiled.get(names[key], ""), op, ps))
                elif match := _OPERATION.fullmatch(names[key]):
                    times.operations.append(Time(match["path"], match["op"], ps))
                elif names[key].startswith(_EXECUTOR):
                    times.small_ps += ps
    return times


def _in_pipeline(plane: Any, names: Mapping[int, str]) -> Callable[[Any], bool]:
    """Return whether an event of the executor is of a map of the input pipeline, whose operations
    run in the threads of the step: each function that is called has an `id`, and the events of its
    executor bear it."""
    wanted = _statistics(plane).get("id")
    runs = {key for key, name in names.items() if name == _FUNCTION_RUN}
    executors = {key for key, name in names.items() if name.startswith(_EXECUTOR)}
    lines = (line for line in plane.lines if not line.name.startswith(_DATA_THREADS))
    events = (one for line in lines for one in line.events if one.metadata_id in runs)
    called = {_id_of(event, wanted) for event in events}
    if not called:
        return lambda _: False
    known = called | {0}
    return lambda one: one.metadata_id in executors and _id_of(one, wanted) not in known


def _id_of(event: Any, wanted: int | None) -> int:
    """Return the statistic of this number; 0 where an event has none."""
    found = (one for one in event.stats if one.metadata_id == wanted)
    return next((one.int64_value or one.uint64_value for one in found), 0)


def _own_times(
    names: Mapping[int, str], line: Any, until: float, in_pipeline: Callable[[Any], bool]
) -> Iterator[tuple[int, int]]:
    """Yield the number of each event of a thread and its own picoseconds, without the input
    pipeline. in_pipeline: as of the function of that name."""
    of_data = {key for key, name in names.items() if name.startswith(_OF_DATA)}
    until -= line.timestamp_ns * 1000
    events = sorted(
        (begin, -one.duration_ps, one.metadata_id, one.metadata_id in of_data or in_pipeline(one))
        for one in line.events
        if (begin := one.offset_ps) < until
    )
    around: list[_Open] = []
    for begin, minus, key, is_left_out in events:
        while around and around[-1].end <= begin:
            yield from _closed(around)
        if around:
            around[-1].inside -= minus
            is_left_out = is_left_out or around[-1].is_left_out
        around.append(_Open(key, begin - minus, -minus, is_left_out))
    while around:
        yield from _closed(around)


@dataclass(slots=True)
class _Open:
    """An event around others, picoseconds. inside: of the events in it."""

    key: int
    end: int
    duration: int
    is_left_out: bool
    inside: int = 0


def _closed(around: list[_Open]) -> Iterator[tuple[int, int]]:
    event = around.pop()
    if not event.is_left_out:
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


def _idle_tensor_cores_ps(kernels: Iterable[Time]) -> int:
    """Return the time of kernels that compute products in float32 without tensor cores.

    None count where others use TensorFloat-32: there TensorFlow tries both, and keeps float32 where
    it is faster.
    """
    by_name: Counter[str] = Counter()
    for one in kernels:
        by_name[one.op] += one.ps
    if any("tf32" in name for name in by_name):
        return 0
    plain = (name for name in by_name if _FLOAT32.search(name) and not _OTHER.search(name))
    return sum(by_name[name] for name in plain)
