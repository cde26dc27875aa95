"""What is n/a on this machine: why, and how to get it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from tfwatch.analysis.machine import missing_sensors
from tfwatch.core.events import GpuFound, SensorMissing
from tfwatch.screens.textscreen import TextScreen
from tfwatch.widgets.text import row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.live.view import RunView

_NONE = "every sensor that this machine has gives its figures"
_VERDICT = "The verdict comes from step times and needs none of them."


def missing(view: RunView) -> list[SensorMissing]:
    """The sensors that give nothing, each with its newest word."""
    return missing_sensors(view.snapshot.events.of(GpuFound, SensorMissing))


class MissingScreen(TextScreen):
    """Lists sensors, reasons and fixes."""

    def __init__(self, listed: Sequence[SensorMissing], unicode: bool) -> None:
        super().__init__(_text(listed), "what is n/a, and how to get it", unicode)


def _text(listed: Sequence[SensorMissing]) -> Content:
    lines: list[Content] = []
    for event in listed:
        lines.append(row((event.sensor, "$accent bold")))
        lines.append(row(f"  {event.reason}"))
        lines.append(row((f"  {event.fix}", "$text-success")) if event.fix else Content())
    lines.append(Content(_VERDICT if listed else _NONE))
    return Content("\n").join(lines)
