"""The order for one run of `tfwatch train`: what the command line asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tfwatch.runs.control import Experiment
    from tfwatch.training.plan import Plan


@dataclass(frozen=True, slots=True)
class Order:
    """What the user ordered. `runs_dir` is where the run folder is made; `as_json` asks for the report as JSON.

    keep_awake: the machine is not to fall asleep while it trains. gpu_sensor: one of `sensors.GPU_SENSORS`.
    autopilot: the knobs are turned until the device no longer starves. memory_bytes: what its buffers may take then, or
    when a key asks for it.
    after: the run that is restarted as this one: its folder, or a part of its name.
    experiment: what is to be found out as soon as the training is under way.
    """

    plan: Plan
    runs_dir: Path
    headless: bool = False
    as_json: bool = False
    theme: str | None = None
    keep_awake: bool = False
    gpu_sensor: str = "auto"
    autopilot: bool = False
    memory_bytes: float | None = None
    after: str | None = None
    experiment: Experiment | None = None
