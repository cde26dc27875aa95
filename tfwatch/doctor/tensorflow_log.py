"""What TensorFlow's own log lines say of an installation. Text in, figures out; nothing raises on any text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

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
