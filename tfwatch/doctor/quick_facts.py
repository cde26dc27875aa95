"""What is known of this machine at once, without trying anything: its GPU, and the machine in one line.

The machine in one line.

What can be told of this machine at once, without trying anything.

Whether what was ordered fits into memory, as far as that can be told before it is made.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import psutil

from tfwatch.core import units
from tfwatch.doctor.facts import Facts, Machine, Nvidia
from tfwatch.doctor.packages import Installed
from tfwatch.doctor.probes import interpreter, nvidia
from tfwatch.runs.machine_info import free_bytes
from tfwatch.sensors.protocol import Unavailable


def machine_line(facts: Facts) -> str:
    """`Apple M2 Pro, 16 GB, TensorFlow 2.19.1 + metal 1.2.0, GPU ok`; what is not known is left out."""
    return ", ".join(filter(None, (facts.interpreter.chip, _memory(facts), _stack(facts), _gpu(facts))))


def _memory(facts: Facts) -> str:
    return "" if isinstance(facts.machine, Unavailable) else f"{facts.machine.memory_bytes / 2**30:.0f} GB"


def _stack(facts: Facts) -> str:
    versions = facts.installed.versions
    if "tensorflow" not in versions:
        return "no TensorFlow"
    metal = versions.get("tensorflow-metal")
    return f"TensorFlow {versions['tensorflow']}" + (f" + metal {metal}" if metal else "")


def _gpu(facts: Facts) -> str:
    trial = facts.trial
    if trial.fate == "untried":
        return ""
    if "import" not in trial.results:
        return "TensorFlow does not start"
    if not trial.devices:
        return "devices not known"
    if not trial.gpus:
        return "no GPU"
    right = {product.get("device") for product in trial.products if product.get("right")}
    count = f"{len(trial.gpus)} GPUs" if len(trial.gpus) > 1 else "GPU"
    return f"{count} ok" if all(gpu.get("name") in right for gpu in trial.gpus) else f"{count} not working"


#: Device files of GPUs that are no NVIDIA card: AMD's, and those of NVIDIA's boards.
_OTHER_GPUS = ("dev/kfd", "dev/nvmap", "dev/nvhost-gpu")


@dataclass(frozen=True, slots=True)
class GpuHere:
    """Whether there is a GPU for TensorFlow.

    missing: why it can see none, a phrase; empty where it may see one. metal: it would be Apple's.
    """

    missing: str = ""
    metal: bool = False


def glance() -> str:
    """The machine in one line: its processor, its memory, the TensorFlow that is installed, and why it has no GPU."""
    installed = Installed.here()
    machine = Machine(psutil.virtual_memory().total)
    line = machine_line(Facts(interpreter=interpreter(installed.system), installed=installed, machine=machine))
    return ", ".join(filter(None, (line, gpu_here().missing)))


def gpu_here(root: Path = Path("/")) -> GpuHere:
    """Look for a GPU, in a millisecond."""
    installed = Installed.here()
    others = any((root / path).exists() for path in _OTHER_GPUS)
    return GpuHere(no_gpu(installed, nvidia(os.environ, root), others), installed.system == "darwin")


def no_gpu(installed: Installed, nvidia: Nvidia, others: bool) -> str:
    """Why TensorFlow can see no GPU, a phrase; empty where it may see one. others: there may be one of another make."""
    if installed.system == "darwin":
        if not installed.is_apple_silicon:
            return "TensorFlow has no GPU on Intel Macs"
        return "" if "tensorflow-metal" in installed.versions else "tensorflow-metal is not installed"
    if others:
        return ""
    if nvidia.hides_all:
        return f"CUDA_VISIBLE_DEVICES={nvidia.hidden} hides every GPU"
    if not nvidia.driver:
        return "no NVIDIA driver here" if nvidia.card else "no GPU here"
    return "" if nvidia.nodes else "this container is not given the GPU"


def too_much(needed_bytes: int | None, what: str, device: str, gpu: GpuHere, free: int | None = None) -> str:
    """A sentence where `what` does not fit into the free bytes (now, unless given); empty where it does.

    device: that was ordered, `auto`, `cpu` or `gpu`. What a GPU computes lies in its own memory, but for Apple's, and
    nobody knows before TensorFlow has begun whether it will.
    """
    free = free_bytes() if free is None else free
    if needed_bytes is None or needed_bytes <= free:
        return ""
    words = f"{what} needs about {units.gigabytes(needed_bytes)} of memory and {units.gigabytes(free)} are free: "
    if device == "cpu" or gpu.missing or gpu.metal:
        return f"{words}it may swap, or the system may end it"
    return f"{words}where no GPU holds the model and what it computes, it may swap, or the system may end it"
