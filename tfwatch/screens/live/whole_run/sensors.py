"""GPU, memory, watts and CPU over the whole run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.reactive import reactive

from tfwatch.core import units
from tfwatch.core.clock import Slot, second_of
from tfwatch.judge.whole_run import SensorLane, sensor_lanes
from tfwatch.screens.basics.glyphs import COMPUTE_COLOUR, OTHERS_COLOUR, QUIET_COLOUR
from tfwatch.screens.basics.pane import FramedPane
from tfwatch.screens.basics.text import row
from tfwatch.screens.live.timeline import step_bars

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.content import Content

    from tfwatch.judge.view import RunView

_LABEL = 8
#: Columns of the figures right of a lane: now, and the most.
_FIGURES = 16
_EVERY_S = 5
_NONE = "no sample yet"


@dataclass(frozen=True, slots=True)
class _Look:
    """The look of a lane."""

    label: str
    text: Callable[[float], str]
    style: str


#: The lanes by their column of a sample, the most important first: where rows are few, the last ones go.
_LOOKS = {
    "gpu_busy": _Look("GPU", units.percent, COMPUTE_COLOUR),
    "process_bytes": _Look("memory", units.memory, "$success"),
    "gpu_power_w": _Look("power", units.watts, "$warning"),
    "gpu_memory_bytes": _Look("GPU mem", units.memory, OTHERS_COLOUR),
    "cpu_cores": _Look("CPU", lambda cores: f"{cores:.1f} cores", "$success"),
    "gpu_temperature_c": _Look("heat", lambda degrees: f"{degrees:.0f} °C", "$warning"),
    "swap_used_bytes": _Look("swap", units.memory, "$error"),
}
#: A figure that is 0 all the time says nothing.
_SILENT_AT_0 = ("swap_used_bytes",)


class SensorsPane(FramedPane, can_focus=True):
    """A lane for each figure that the machine has, over the run from its start until now."""

    lanes: reactive[tuple[SensorLane, ...]] = reactive((), repaint=False)

    watch_lanes = FramedPane.repaint_rows

    _shown: tuple[object, ...] = ()
    _view: RunView | None = None

    def on_mount(self) -> None:
        self.set_titles("machine, whole run")

    def on_resize(self) -> None:
        """Draw for the new width at once: the next frame may be skipped."""
        if self._view:
            self.show(self._view)

    def show(self, view: RunView) -> None:
        """Show the figures of a view, every few seconds: a picture of hours changes slowly."""
        self._view = view
        columns = max(self.content_size.width - _LABEL - _FIGURES, 1)
        due = second_of(view.snapshot.now_s, Slot.MACHINE) // _EVERY_S
        key = due, view.is_over, columns, len(view.snapshot.samples) > 0
        if key == self._shown:
            return
        self._shown = key
        lanes = sensor_lanes(view.snapshot, tuple(_LOOKS), columns)
        self.lanes = tuple(
            lane for lane in lanes if lane.most > 0 or lane.column not in _SILENT_AT_0
        )

    def rows(self, width: int, height: int) -> Sequence[Content]:
        if not self.lanes:
            return [row((_NONE, QUIET_COLOUR))]
        lanes = self.lanes[: max(height, 1)]
        each, more = divmod(height, len(lanes))
        return [
            line
            for n, lane in enumerate(lanes)
            for line in self._lane(lane, min(each + (n < more), 3))
        ]

    def _lane(self, lane: SensorLane, height: int) -> list[Content]:
        look = _LOOKS[lane.column]
        steps = len(self.glyphs.levels) - 1
        levels = step_bars.gauge(lane.means / (lane.limit or lane.most or 1.0), height * steps)
        charts = [
            "".join(self.glyphs.levels[level] for level in line)
            for line in step_bars.stacked(levels, height, steps).tolist()
        ]
        text = look.text if self.glyphs.unicode else lambda value: look.text(value).replace("°", "")
        figures = [f" {_last(lane, text)}", f" most {text(lane.most)}"]
        both = ", ".join(figures)
        beside = figures if height > 1 else [both if len(both) <= _FIGURES else figures[0]]
        labels = [look.label, *[""] * height]
        rights = [*beside, *[""] * height]
        return [
            row(
                (f"{labels[n]:<{_LABEL}}", QUIET_COLOUR),
                (chart, look.style),
                (rights[n], "" if n == 0 else QUIET_COLOUR),
            )
            for n, chart in enumerate(charts)
        ]


def _last(lane: SensorLane, text: Callable[[float], str]) -> str:
    """Return the newest value, beside a limit with a unit: `9.3 of 16 cores`."""
    value, _, unit = text(lane.last).partition(" ")
    if not lane.limit or unit == "%":
        return text(lane.last)
    return f"{value} of {text(lane.limit).replace('.0 ', ' ')}"
