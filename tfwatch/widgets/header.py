"""The first line: what trains, how far it is, how fast, and whether it is recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.content import Content
from textual.reactive import reactive

from tfwatch.widgets.basics.pane import Pane
from tfwatch.widgets.basics.text import fit, row, shortened, spread

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Cells of a name that somebody else chose: beside it the epoch and what is recorded have room at 60 columns.
_LONGEST_NAME = 28


@dataclass(frozen=True, slots=True)
class HeaderView:
    """What the header says; an empty text is left out.

    done: the share of the epoch, None where unknown. is_recording: a mark says so.
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
    """Shows a `HeaderView` in one line; what matters least goes first where it is narrow."""

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
            (0, row((shortened(view.workload, _LONGEST_NAME), "bold"))),
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
