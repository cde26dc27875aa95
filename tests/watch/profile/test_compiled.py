"""A kernel that XLA compiled belongs to the operation that takes most of it."""

from pathlib import Path
from typing import Any

import pytest
from tensorflow.compiler.xla.service import hlo_pb2
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from tests.watch.profile.gpu_planes import GpuProfile
from tfwatch.watch.profile.compiled import operations_of_kernels
from tfwatch.watch.profile.recorded import CALL, read_apart

pytestmark = pytest.mark.tensorflow

METRIC, LOSS = "Greater_1", "compile_loss/mse/Square"


class Module:
    """A module with a main computation, as XLA writes it."""

    def __init__(self) -> None:
        self.proto = hlo_pb2.HloProto()
        self._main = self._computation()
        self._count = 0

    def _computation(self) -> Any:
        made = self.proto.hlo_module.computations.add()
        made.id = len(self.proto.hlo_module.computations)
        return made

    def add(self, where: Any, opcode: str, name: str, size: int, *operands: int) -> Any:
        """Add an instruction that writes so many numbers."""
        self._count += 1
        one = where.instructions.add(name=f"{opcode}.{self._count}", opcode=opcode, id=self._count)
        one.metadata.op_name = name
        one.shape.dimensions.append(size)
        one.operand_ids.extend(operands)
        return one

    def fusion(self, name: str, *inside: tuple[str, int]) -> Any:
        """Add a kernel of several operations with their names and sizes."""
        computation = self._computation()
        for operation, size in inside:
            self.add(computation, "multiply", operation, size)
        made = self.add(self._main, "fusion", name, 1)
        made.called_computation_ids.append(computation.id)
        return made

    def plain(self, opcode: str, name: str, *operands: int) -> Any:
        """Add a kernel of one operation."""
        return self.add(self._main, opcode, name, 1, *operands)

    def names(self) -> dict[str, str]:
        """Return the operations by the kernels."""
        return names_of(step=self)


def names_of(*ran: str, **modules: Module) -> dict[str, str]:
    """Return the operations by the kernels of several modules, of which some ran."""
    compiled, host = xplane_pb2.XPlane(), xplane_pb2.XPlane()
    for number, (name, module) in enumerate(modules.items()):
        of_module = compiled.event_metadata[number]
        of_module.name = f"{name}({number})"
        of_module.stats.add(bytes_value=module.proto.SerializeToString())
    for number, name in enumerate(ran):
        host.stat_metadata[number].name = name
    return operations_of_kernels([compiled], [host])


def test_a_kernel_of_several_operations_is_that_of_its_result() -> None:
    made = Module()
    kernel = made.fusion(LOSS, ("net/dense/Sigmoid", 100), (LOSS, 100), ("", 900))
    assert made.names()[kernel.name] == LOSS


def test_it_is_that_of_another_one_that_works_on_many_more_numbers() -> None:
    made = Module()
    kernel = made.fusion(LOSS, (LOSS, 100), (METRIC, 400_000))
    assert made.names()[kernel.name] == METRIC


def test_an_operation_of_xlas_own_is_that_of_what_it_reads() -> None:
    made = Module()
    compared = made.fusion(METRIC, (METRIC, 100))
    window = made.plain("reduce-window", "", compared.id)
    last = made.plain("reduce", "", window.id)
    assert made.names()[last.name] == METRIC


def test_kernels_are_those_of_the_modules_that_ran() -> None:
    before, now, beside = Module(), Module(), Module()
    for module, name in ((before, "the model before"), (now, LOSS), (beside, METRIC)):
        module.plain("dot", name)
    modules = {"before": before, "now": now, "beside": beside}

    assert names_of("now", **modules) == {"dot.1": LOSS}
    assert names_of("now", "beside", **modules) == {"dot.1": ""}, "it is not known which one"


def test_the_process_that_reads_a_profile_knows_the_modules(tmp_path: Path) -> None:
    """It does not start TensorFlow, of which the description of a module is a part."""
    module, made = Module(), GpuProfile()
    kernel = module.plain("dot", LOSS)
    compiled = made.space.planes.add(name="/host:metadata").event_metadata[1]
    compiled.name = "step(1)"
    compiled.stats.add(bytes_value=module.proto.SerializeToString())
    made.compiled_kernel(kernel.name, 10, 30).write(tmp_path)

    (found,) = read_apart(tmp_path).operations
    assert (found.path, found.ps) == (f"{CALL}/{LOSS}", 30_000_000)
