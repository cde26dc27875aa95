"""Facts about this machine that take milliseconds: the machine in one line, its GPU, and memory that is too small."""

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

#: Device files of GPUs other than NVIDIA cards: AMD's, and NVIDIA's embedded boards.
_OTHER_GPUS = ("dev/kfd", "dev/nvmap", "dev/nvhost-gpu")


@dataclass(frozen=True, slots=True)
class GpuPresence:
    """The GPU that TensorFlow may use.

    missing: the reason why there is none, a phrase; empty where there may be one. is_metal: it is Apple's.
    """

    missing: str = ""
    is_metal: bool = False


def describe_machine() -> str:
    """Return this machine in one line: processor, memory, installed TensorFlow, and the reason for a missing GPU."""
    installed = Installed.here()
    machine = Machine(psutil.virtual_memory().total)
    line = machine_line(
        Facts(interpreter=interpreter(installed.system), installed=installed, machine=machine)
    )
    return ", ".join(filter(None, (line, find_gpu().missing)))


def machine_line(facts: Facts) -> str:
    """Return e.g. `Apple M2 Pro, 16 GB, TensorFlow 2.19.1 + metal 1.2.0, GPU ok`, without unknown parts."""
    return ", ".join(
        filter(None, (facts.interpreter.chip, _memory(facts), _stack(facts), _gpu(facts)))
    )


def _memory(facts: Facts) -> str:
    return (
        ""
        if isinstance(facts.machine, Unavailable)
        else f"{facts.machine.memory_bytes / 2**30:.0f} GB"
    )


def _stack(facts: Facts) -> str:
    versions = facts.installed.versions
    if "tensorflow" not in versions:
        return "no TensorFlow"
    metal = versions.get("tensorflow-metal")
    return f"TensorFlow {versions['tensorflow']}" + (f" + metal {metal}" if metal else "")


def _gpu(facts: Facts) -> str:
    trial = facts.trial
    if trial.outcome == "skipped":
        return ""
    if "import" not in trial.results:
        return "TensorFlow does not start"
    if not trial.devices:
        return "devices unknown"
    if not trial.gpus:
        return "no GPU"
    right = {product.get("device") for product in trial.products if product.get("right")}
    count = f"{len(trial.gpus)} GPUs" if len(trial.gpus) > 1 else "GPU"
    return (
        f"{count} ok"
        if all(gpu.get("name") in right for gpu in trial.gpus)
        else f"{count} not working"
    )


def find_gpu(root: Path = Path("/")) -> GpuPresence:
    """Look for a GPU, which takes a millisecond."""
    installed = Installed.here()
    has_other_gpu = any((root / path).exists() for path in _OTHER_GPUS)
    return GpuPresence(
        explain_missing_gpu(installed, nvidia(os.environ, root), has_other_gpu),
        installed.system == "darwin",
    )


def explain_missing_gpu(installed: Installed, nvidia: Nvidia, has_other_gpu: bool) -> str:
    """Return the reason why TensorFlow can see no GPU; empty where it may see one, e.g. another maker's."""
    if installed.system == "darwin":
        if not installed.is_apple_silicon:
            return "TensorFlow has no GPU on Intel Macs"
        has_plugin = installed.has_other_plugin or "tensorflow-metal" in installed.versions
        return "" if has_plugin else "tensorflow-metal is not installed"
    if has_other_gpu:
        return ""
    if nvidia.hides_all:
        return f"CUDA_VISIBLE_DEVICES={nvidia.hidden} hides every GPU"
    if not nvidia.driver:
        return "no NVIDIA driver" if nvidia.has_card else "no GPU"
    return "" if nvidia.has_device_files else "this container has no access to the GPU"


def describe_memory_shortage(
    needed_bytes: int, what: str, device: str, gpu: GpuPresence, free: int | None = None
) -> str:
    """Return a warning where `what` needs more than the free bytes (by default, those free now); empty where it fits.

    device: the requested one, `auto`, `cpu` or `gpu`. A GPU other than Apple's has its own memory, and whether
    TensorFlow uses it is unknown before it starts.
    """
    free = free_bytes() if free is None else free
    if needed_bytes <= free:
        return ""
    need = f"{what} needs about {units.gigabytes(needed_bytes)} of memory and {units.gigabytes(free)} are free: "
    if device == "cpu" or gpu.missing or gpu.is_metal:
        return f"{need}it may swap, or the system may end it"
    return f"{need}unless a GPU holds the model and its activations, it may swap, or the system may end it"
