"""The stacked time axis: where each step's time went, why, and how starved the device was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from tfwatch.widgets.glyphs import Glyphs, choose_glyphs

if TYPE_CHECKING:
    from textual.binding import BindingType

    from tfwatch.runs.reader import Snapshot


class Timeline(Widget, can_focus=True):
    """The last seconds of a run, or any stretch of it, one column of time beside the other.

    Attributes:
        snapshot: what to draw; assign a new one for each frame.
        glyphs: the characters to draw with.
        compact: draw fewer rows, for small screens.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "freeze", "freeze", id="timeline.freeze", tooltip="freeze or follow the charts"),
    ]

    @dataclass
    class Frozen(Message):
        """The charts were frozen, or follow the run again; `at_s` is None where they follow."""

        timeline: Timeline
        at_s: float | None

        @property
        def control(self) -> Timeline:
            """The sender."""
            return self.timeline

    snapshot: reactive[Snapshot | None] = reactive(None, repaint=False)
    glyphs: reactive[Glyphs] = reactive(choose_glyphs(colour=True, unicode=True), repaint=False)
    compact: reactive[bool] = reactive(False, repaint=False)

    @property
    def frozen(self) -> bool:
        """Whether the charts stand still."""
        return self.frozen_at_s is not None

    @property
    def frozen_at_s(self) -> float | None:
        """When they were frozen, seconds since the clock origin; None where they follow the run."""
        return None

    def action_freeze(self) -> None:
        """Freeze the charts, or follow the run again."""

    def action_look(self, columns: int) -> None:
        """Move the cursor by `columns`, to the past where negative; freezes."""

    def action_home(self) -> None:
        """Look at the run's beginning."""

    def action_live(self) -> None:
        """Follow the run."""

    def action_zoom(self, direction: int) -> None:
        """Show more of the run at once, or less where `direction` is negative."""

    def jump_to(self, at_s: float) -> None:
        """Freeze with the moment `at_s` in the middle."""
