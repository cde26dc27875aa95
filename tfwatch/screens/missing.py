"""What is n/a on this machine: why, and how to get it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.analysis.machine import missing_sensors
from tfwatch.core.events import GpuFound, SensorMissing

if TYPE_CHECKING:
    from tfwatch.live.view import RunView


def missing(view: RunView) -> list[SensorMissing]:
    """The sensors that give nothing, each with its newest word."""
    return missing_sensors(view.snapshot.events.of(GpuFound, SensorMissing))
