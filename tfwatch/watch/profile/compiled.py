"""The operations behind the kernels that XLA compiled, by the modules in a profile."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from tfwatch.core.errors import fails_open

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: A kernel of several operations is that of its result, but where another one works on so many
#: times as many numbers: the loss of 8 000 rows and a metric of 4 000 thresholds are one kernel.
_LARGER = 4


def operations_of_kernels(planes: Iterable[Any], ran: Iterable[Any]) -> dict[str, str]:
    """Return the path of an operation in the graph by the name of each kernel; empty where two
    modules have different ones. planes: those that have the modules, of the process so far. ran:
    the planes with the events."""
    paths: dict[str, str] = {}
    names = {one.name for plane in ran for one in plane.stat_metadata.values()}
    with fails_open(lambda _: None):
        from tensorflow.compiler.xla.service import hlo_pb2

        for plane in planes:
            modules = list(plane.event_metadata.values())
            # Events refer to the module `step.5(6)` as `step.5`.
            ran_here = [one for one in modules if str(one.name).rpartition("(")[0] in names]
            for module in ran_here or modules:
                proto = hlo_pb2.HloProto.FromString(module.stats[0].bytes_value)
                for kernel, path in _paths_of_module(proto.hlo_module).items():
                    paths[kernel] = path if paths.get(kernel, path) == path else ""
    return paths


def _paths_of_module(module: Any) -> dict[str, str]:
    inside = {one.id: one for one in module.computations}
    found: dict[str, str] = {}
    for computation in module.computations:
        known = {one.id: one for one in computation.instructions}
        names: dict[int, str] = {}
        for one in computation.instructions:  # operands come before what uses them
            fused = [inside[key] for key in one.called_computation_ids if key in inside]
            name = _largest(one, fused) if one.opcode == "fusion" else one.metadata.op_name
            # XLA makes operations of its own, as to reduce in two passes: they have no name.
            operands = (names.get(key, "") for key in one.operand_ids if key in known)
            names[one.id] = name or next(filter(None, operands), "")
            found[one.name] = names[one.id]
    return found


def _largest(kernel: Any, computations: Iterable[Any]) -> str:
    """Return the operation that a kernel of several ones belongs to."""
    sizes: dict[str, int] = defaultdict(int)
    for computation in computations:
        known = {one.id: one for one in computation.instructions}
        for one in computation.instructions:
            name = one.metadata.op_name
            sizes[name] = max(sizes[name], _size(one, known))
    own = str(kernel.metadata.op_name)
    named = {name: size for name, size in sizes.items() if name}
    largest = max(named, key=lambda name: named[name], default=own)
    return largest if named.get(largest, 0) > _LARGER * sizes[own] else own


def _size(instruction: Any, known: Mapping[int, Any]) -> int:
    """Return the most numbers that an instruction reads or writes."""
    read = (known[key] for key in instruction.operand_ids if key in known)
    return int(max(math.prod(one.shape.dimensions) for one in (instruction, *read)))
