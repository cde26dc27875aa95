"""A whole run's machine in figures: medians while it trained, energy, and for how long heat or memory held it back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.analysis.energy import Energy, energy
from tfwatch.analysis.limits import limited_s
from tfwatch.analysis.machine import GPU, medians, missing_sensors
from tfwatch.core.events import GpuFound, SensorMissing
from tfwatch.core.rows import plausible, step_ms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tfwatch.core.rows import Rows

#: Columns of `core.rows.SAMPLE` whose medians are told.
TOLD = (
    *("gpu_busy", "gpu_process_busy", "gpu_power_w", "gpu_freq_mhz", "gpu_temperature_c", "gpu_memory_bytes"),
    *("cpu_power_w", "cpu_cores", "process_cores", "process_bytes", "memory_used_bytes", "memory_available_bytes"),
    *("swap_used_bytes", "swap_in_bytes_s", "swap_out_bytes_s", "disk_read_bytes_s", "own_cores"),
)


@dataclass(frozen=True, slots=True)
class Hardware:
    """found: whose GPU figures these are; None where no sensor read one. missing: the sensors that gave none.

    medians: of each column of `TOLD` over the samples from the first step to the last; None is n/a.
    energy: of the device that trained; None where no power was read, for the reason in `energy_missing`.
    heat_s, swap_s: for how long heat and swapping held the run back.
    """

    found: GpuFound | None
    missing: tuple[SensorMissing, ...]
    medians: Mapping[str, float | None]
    energy: Energy | None
    energy_missing: str
    heat_s: float
    swap_s: float

    @property
    def others(self) -> float | None:
        """What other programs made of the GPU, 0 to 1; None is n/a."""
        busy, ours = self.medians["gpu_busy"], self.medians["gpu_process_busy"]
        return None if busy is None or ours is None else max(0.0, busy - ours)


def hardware(samples: Rows, steps: Rows, events: Sequence[object], accelerated: bool) -> Hardware:
    """Sum a run's machine up; rows of `core.rows.SAMPLE` and of `STEP`. accelerated: the steps ran on a GPU."""
    steps = steps[plausible(steps)]
    spent = energy(samples, steps, accelerated)
    missing = missing_sensors(events)
    found = [event for event in events if isinstance(event, GpuFound)]
    return Hardware(
        found=found[-1] if found else None,
        missing=tuple(missing),
        medians=medians(_while_training(samples, steps), TOLD),
        energy=spent,
        energy_missing="" if spent else _why_no_energy(samples, missing, accelerated),
        heat_s=limited_s(events, "thermal limit"),
        swap_s=limited_s(events, "swap"),
    )


def _while_training(samples: Rows, steps: Rows) -> Rows:
    if not len(steps):
        return samples[:0]
    rows: Rows = samples[(samples["at_ns"] >= steps["start_ns"][0]) & (samples["at_ns"] <= _end_ns(steps))]
    return rows


def _end_ns(steps: Rows) -> float:
    last = steps[-1]
    return float(last["start_ns"]) + float(step_ms(last)) * 1e6


def _why_no_energy(samples: Rows, missing: Sequence[SensorMissing], accelerated: bool) -> str:
    if len(samples) < 2:
        return "the machine was not sampled"
    if not accelerated:
        return "the steps ran on the CPU, and no sensor read its power"
    told = [event for event in missing if event.sensor == GPU or "power" in event.sensor]
    return told[-1].reason if told else "no sensor read the GPU's power"
