"""The machine in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.sensors import Unavailable

if TYPE_CHECKING:
    from tfwatch.doctor.facts import Facts


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
