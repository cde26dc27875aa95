"""TensorFlow tried in a process of its own, with a time limit, and what its log lines say.

What TensorFlow's own log lines say of an installation. Text in, figures out; nothing raises on any text.

TensorFlow tried in a process of its own, with a time limit: whatever it does there hurts nothing here.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tfwatch.core.clock import SYSTEM, Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_MISSING_LIBRARY = re.compile(r"Could not load dynamic library '([^'\n]{1,200})'")
_INSTRUCTIONS = re.compile(r"enable the following instructions: ([A-Z0-9_ .]{1,200}), in other operations")
#: As the placer tells it, `mean/Mean: (Mean): /job:localhost/replica:0/task:0/device:GPU:0`, and the eager executor.
_PLACED = re.compile(
    r"(?:\((\w{1,100})\): |Executing op (\w{1,100}) in device )/job:[\w/:]{1,100}/device:([A-Za-z]{1,20}):\d"
)
#: Operations on shapes, counters and seeds: their numbers live in the CPU's memory by design.
_HOUSEKEEPING = re.compile(
    "Assert|BroadcastArgs|BroadcastGradientArgs|ConcatV2|Const|DynamicStitch|ExpandDims|FloorDiv|FloorMod|GatherV2|"
    "Greater|GreaterEqual|Identity|IdentityN|Less|LogicalAnd|NoOp|Pack|PartitionedCall|Placeholder|Prod|Range|Rank|"
    "Shape|ShapeN|Size|Squeeze|StatefulPartitionedCall|StatelessRandomGetKeyCounter|StridedSlice|VarHandleOp|"
    "VarIsInitializedOp"
)


@dataclass(frozen=True, slots=True)
class LogFacts:
    """What was read.

    onednn: whether its operations are on; None where the log does not say.
    instructions: those that this processor has and TensorFlow's own code does not use everywhere.
    missing_libraries: that TensorFlow looked for and could not load, in its order.
    on_cpu: types of operations of the training step that were placed on the CPU and on nothing else.
    placed: how many types of operations of the training step were told of at all.
    """

    onednn: bool | None = None
    instructions: tuple[str, ...] = ()
    missing_libraries: tuple[str, ...] = ()
    on_cpu: tuple[str, ...] = ()
    placed: int = 0


def read_log(text: str, step_begins: str, step_ends: str) -> LogFacts:
    """Read a log, in which two lines stand around the training step."""
    found = _INSTRUCTIONS.search(text)
    step = text.partition(f"{step_begins}\n")[2].partition(f"{step_ends}\n")[0]
    placements = _placements(step)
    return LogFacts(
        onednn=True if "oneDNN custom operations are on" in text else None,
        instructions=tuple(found[1].split()) if found else (),
        missing_libraries=tuple(dict.fromkeys(_MISSING_LIBRARY.findall(text))),
        on_cpu=tuple(sorted(kind for kind, devices in placements.items() if devices == {"CPU"})),
        placed=len(placements),
    )


def fell_back(log: LogFacts) -> tuple[str, ...]:
    """The operations that a GPU beside the CPU should have had."""
    return tuple(kind for kind in log.on_cpu if not _HOUSEKEEPING.fullmatch(kind))


def _placements(text: str) -> Mapping[str, set[str]]:
    """Each type of operation, and the kinds of device that it was placed on."""
    placed: dict[str, set[str]] = {}
    for in_graph, eager, device in _PLACED.findall(text):
        kind = in_graph or eager
        if not kind.startswith("_"):  # an argument or a result of a function, or a function
            placed.setdefault(kind, set()).add(device.upper())
    return placed


#: The first import after an installation reads 1 to 2 GB from a cold disk.
LIMIT_S = 120.0
_PIECE = 2**16
#: The log's end that is kept: its last words, and the placements of the training step (0.1 MB).
_LOG_BYTES = 4 * 2**20
_RESULT_BYTES = 2**20
#: Without the folder that `-c` looks in first: a `random.py` where the user stands is no part of the installation.
_PROGRAM = (
    "import sys; sys.path[:] = [p for p in sys.path if p] + sys.argv[1:2]; "
    "from tfwatch.checks.trial_program import main; main(float(sys.argv[2]))"
)
#: As `tfwatch.checks.trial_program`, which is not imported here.
STEP_BEGINS = "tfwatch: the training step begins"
STEP_ENDS = "tfwatch: the training step ends"
#: What TensorFlow tells only when asked: placements, and the libraries that it cannot load; and a GPU that another
#: program uses is not to be filled up.
_ASKED = {"TF_CPP_MIN_LOG_LEVEL": "0", "TF_CPP_VMODULE": "dso_loader=1", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of it.

    fate: `whole`, `died`, `hung` (ended after `limit_s`), `failed` (it could not be started) or `untried`.
    stage: in which it ended: import, devices, products, step or exit. code: its exit code, negative for a signal.
    results: what each stage that ended told. words: all that it wrote on stderr, its end where that is long.
    """

    fate: str
    stage: str = ""
    code: int | None = None
    limit_s: float = LIMIT_S
    results: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    words: str = ""
    log: LogFacts = field(default_factory=LogFacts)

    @property
    def devices(self) -> list[Mapping[str, str]]:
        """`name`, `kind` and, of a GPU, `model` of each device; none where it did not come so far."""
        return list(self.results.get("devices", {}).get("devices", []))

    @property
    def gpus(self) -> list[Mapping[str, str]]:
        """The devices that are no CPU."""
        return [device for device in self.devices if device.get("kind") == "GPU"]

    @property
    def products(self) -> list[Mapping[str, Any]]:
        """The matrix product of each device: `device`, `placed`, `took_ms` and `right`, or `error`."""
        return list(self.results.get("products", {}).get("products", []))

    @property
    def build(self) -> Mapping[str, str]:
        """What TensorFlow says that it was built for."""
        return dict(self.results.get("import", {}).get("build", {}))


UNTRIED = Trial("untried")


def try_tensorflow(told: Callable[[str], None], limit_s: float = LIMIT_S) -> Trial:
    """Try this Python's. `told` hears each stage as it begins."""
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", _PROGRAM, root, f"{limit_s * 0.95:.1f}"]
    return run_trial(command, told, limit_s)


def run_trial(
    command: Sequence[str], told: Callable[[str], None], limit_s: float = LIMIT_S, clock: Clock = SYSTEM
) -> Trial:
    """Run a program that talks as `tfwatch.checks.trial_program` does; kill it when its time is over."""
    due_ns = clock.now_ns() + round(limit_s * 1e9)
    try:
        # close_fds as in core/system_tool.py: it may be started beside a training.
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **_ASKED},
            close_fds=False,
        )
    except OSError as error:
        return Trial("failed", words=error.strerror or str(error), limit_s=limit_s)
    talk = _Talk(told)
    try:
        assert process.stdout
        assert process.stderr
        with process.stdout, process.stderr:
            code = talk.hear(process, due_ns, clock)
    finally:
        _end(process)
    return talk.conclude(code, limit_s)


class _Talk:
    """Takes in what the child says."""

    def __init__(self, told: Callable[[str], None]) -> None:
        self._told = told
        self._begun = "import"
        self._results: dict[str, Mapping[str, Any]] = {}
        self._said = bytearray()
        self._log = bytearray()

    def hear(self, process: subprocess.Popen[bytes], due_ns: int, clock: Clock) -> int | None:
        """Listen until it ends; its exit code, None where its time was over before."""
        assert process.stdout
        assert process.stderr
        with selectors.DefaultSelector() as waiting:
            waiting.register(process.stdout, selectors.EVENT_READ, self._result)
            waiting.register(process.stderr, selectors.EVENT_READ, self._line)
            while waiting.get_map():
                left_s = (due_ns - clock.now_ns()) / 1e9
                ready = waiting.select(left_s) if left_s > 0 else []
                if not ready:
                    return None
                for key, _ in ready:
                    self._take(key.fileobj, key.data, waiting)  # type: ignore[arg-type]
        try:
            return process.wait(max((due_ns - clock.now_ns()) / 1e9, 0.001))
        except subprocess.TimeoutExpired:
            return None

    def conclude(self, code: int | None, limit_s: float) -> Trial:
        """What came of it."""
        words = self._log.decode(errors="replace")
        is_whole = code == 0 and "all" in self._results
        return Trial(
            fate="whole" if is_whole else "hung" if code is None else "died",
            stage="" if is_whole else "exit" if "all" in self._results else self._begun,
            code=code,
            limit_s=limit_s,
            results=self._results,
            words=words,
            log=read_log(words, STEP_BEGINS, STEP_ENDS),
        )

    def _take(self, pipe: IO[bytes], into: Callable[[bytes], None], waiting: selectors.BaseSelector) -> None:
        piece = pipe.read1(_PIECE)  # type: ignore[attr-defined]
        if piece:
            into(piece)
        else:
            waiting.unregister(pipe)

    def _line(self, piece: bytes) -> None:
        self._log += piece
        if len(self._log) > 2 * _LOG_BYTES:
            del self._log[:-_LOG_BYTES]

    def _result(self, piece: bytes) -> None:
        self._said += piece
        *lines, self._said = self._said.split(b"\n")
        del self._said[_RESULT_BYTES:]
        for line in lines:
            with contextlib.suppress(ValueError, TypeError):
                self._keep(dict(json.loads(line)))

    def _keep(self, values: dict[str, Any]) -> None:
        if "begin" in values:
            self._begun = str(values["begin"])
            self._told(self._begun)
        elif "end" in values:
            self._results[str(values.pop("end"))] = values


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill it; one that cannot be killed, for it waits in a driver, is left behind."""
    with contextlib.suppress(OSError):
        process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1.0)
