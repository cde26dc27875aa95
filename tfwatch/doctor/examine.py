"""The check-up: all checks over the facts, the worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.doctor import around, computing, gpus, installation, machine
from tfwatch.doctor.check import Check, worst_first

if TYPE_CHECKING:
    from tfwatch.doctor.facts import Facts

#: In the order in which those of one status are shown.
CHECKS = (
    installation.python,
    installation.rosetta,
    installation.versions,
    installation.keras,
    computing.importing,
    gpus.devices,
    computing.products,
    computing.training_step,
    computing.fallback,
    gpus.cuda,
    computing.avx,
    computing.onednn,
    machine.cores,
    machine.memory,
    machine.swap,
    machine.pressure,
    machine.heat,
    machine.disk,
    around.runs_folder,
    around.terminal,
    around.gpu_counters,
    around.powermetrics,
    around.neural_engine,
)


def examine(facts: Facts) -> list[Check]:
    """Every check, the worst first."""
    return worst_first(check(facts) for check in CHECKS)
