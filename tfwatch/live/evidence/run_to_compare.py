"""A run that was read once, with what a comparison, a check and a finding need of it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from tfwatch.analysis.comparing.comparability import Subject
from tfwatch.analysis.comparing.run_steps import rows_to_compare
from tfwatch.analysis.findings.hardware.machine import find_process_memory
from tfwatch.core.events import EpochEnded

if TYPE_CHECKING:
    from tfwatch.core.rows import Rows
    from tfwatch.live.judged_run import JudgedRun

#: Recorded settings that change no step, or that the knobs and the batch size show already.
_NOT_SETTINGS = frozenset(
    {"storage_latency_ms", "memory_limit_bytes", "fast_pipeline", "batch_size", "begin_with"}
)


class RunToCompare:
    """A run that was read once, with what a comparison needs of it."""

    def __init__(self, judged: JudgedRun, name: str) -> None:
        self.judged = judged
        self.run = judged.run
        self.name = name

    @cached_property
    def rows(self) -> Rows:
        """The steady steps of its last setting."""
        return rows_to_compare(self.run.steps, self.judged.setting.stretches)

    @property
    def peak_bytes(self) -> float | None:
        """The largest memory of a process; None where it was not sampled."""
        memory = find_process_memory(self.run.samples, self.run.steps)
        return memory.peak_bytes if memory else None

    @property
    def joules_per_step(self) -> float | None:
        """The energy of a step; None for the reason in `energy_missing`."""
        spent = self.judged.hardware.energy
        return spent.per_step_j if spent else None

    @property
    def energy_missing(self) -> str:
        """The reason why its energy is not known; empty where it is."""
        return "" if self.judged.hardware.energy else self.judged.hardware.energy_missing

    @cached_property
    def subject(self) -> Subject:
        """The facts that decide whether it can be compared."""
        manifest = self.run.manifest
        machine = manifest.machine
        settings = {
            name: _words(value)
            for name, value in manifest.settings.items()
            if name not in _NOT_SETTINGS
        }
        return Subject(
            name=self.name,
            path=str(self.run.path.resolve()) if self.run.path else self.name,
            workload=manifest.workload,
            batch_size=manifest.batch_size,
            settings={**settings, **self.judged.situation.knobs},
            versions=manifest.versions,
            host=str(machine.get("host") or ""),
            hardware=(
                machine.get("cores"),
                machine.get("cores_allowed"),
                machine.get("memory_bytes"),
            ),
            device=manifest.device,
            start_s=manifest.origin_wall_ns / 1e9,
            steady_steps=len(self.rows),
        )

    @property
    def others_share(self) -> float | None:
        """The share of the machine's cores that other programs used while it trained; None where unknown."""
        medians, cores = self.judged.hardware.medians, self.run.manifest.machine.get("cores")
        used, own = medians.get("cpu_cores"), medians.get("process_cores")
        if used is None or own is None or not cores:
            return None
        return min(max((used - own) / float(cores), 0.0), 1.0)

    @property
    def epochs(self) -> dict[int, EpochEnded]:
        """The epochs that ended, by number."""
        return {event.epoch: event for event in self.run.events if isinstance(event, EpochEnded)}


def _words(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)
