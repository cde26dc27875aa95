"""The first line: workload, device, progress, speed and the state of the recording."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.content import Content
from textual.reactive import reactive

from tfwatch.widgets.basics.pane import Pane
from tfwatch.widgets.basics.text import fit, row, shorten, spread

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The longest name, cells: at 60 columns the epoch and the recording state fit beside it.
_LONGEST_NAME = 28


@dataclass(frozen=True, slots=True)
class HeaderView:
    """The content of the header; empty texts are omitted.

    done: the finished share of the epoch, None where unknown. is_recording: show the recording mark.
    """

    workload: str = ""
    device: str = ""
    epoch: str = ""
    done: float | None = None
    step: str = ""
    speed: str = ""
    metric: str = ""
    eta: str = ""
    state: str = ""
    alert: bool = False
    is_recording: bool = False


class RunHeader(Pane):
    """Shows a `HeaderView` in one line; a narrow line drops the least important parts first."""

    DEFAULT_CSS = """
    RunHeader { height: 1; padding: 0 1; background: $panel; color: $foreground; }
    """

    view: reactive[HeaderView] = reactive(HeaderView(), repaint=False)

    watch_view = Pane.repaint_rows

    def rows(self, width: int, height: int) -> Sequence[Content]:
        view, glyphs = self.view, self.glyphs
        style = "$text-error bold" if view.alert else "$text-success"
        mark = "" if not view.is_recording else f"{glyphs.record} "
        state = row((f"{mark}{view.state}", style))
        parts = [
            (5, row(("tfwatch", "$accent bold"))),
            (0, row((shorten(view.workload, _LONGEST_NAME), "bold"))),
            (4, row((f"on {view.device}", "")) if view.device else Content()),
            (0, row(view.epoch)),
            (3, self._bar()),
            (2, row((view.step, ""))),
            (1, row((view.speed, "bold"))),
            (3, row(view.metric)),
            (1, row(view.eta)),
        ]
        room = max(10, width - state.cell_length - 2)
        return [spread(fit([(rank, part) for rank, part in parts if part.plain], room), state, width)]

    def _bar(self) -> Content:
        if self.view.done is None:
            return Content()
        full = round(10 * min(max(self.view.done, 0.0), 1.0))
        return row((self.glyphs.bar * full, "$primary"), (self.glyphs.bar_rest * (10 - full), "$foreground 40%"))
