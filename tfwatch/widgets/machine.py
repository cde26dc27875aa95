"""The machine: what it does and has left, and what the run lost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual.binding import Binding
from textual.message import Message
from textual.reactive import reactive

from tfwatch.widgets.pane import FramedPane
from tfwatch.widgets.text import column, folded, plain, row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.binding import BindingType
    from textual.content import Content

_LABEL = 8
_NARROWEST = 20


@dataclass(frozen=True, slots=True)
class Reading:
    """A labelled row. texts: the longest first, the first that fits is shown; the last is folded where none does.

    alert: it needs a look, and keeps its place. rank: where rows are few the highest goes first.
    """

    label: str
    texts: tuple[str, ...]
    alert: bool = False
    rank: int = 0

    def calm(self) -> Reading:
        """The same without alert."""
        return replace(self, alert=False)


class MachinePane(FramedPane, can_focus=True):
    """Readings, as many as there is room for; `Explained` asks why some figures are missing."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "explain", "what is n/a, and how to get it", show=False)]

    readings: reactive[tuple[Reading, ...]] = reactive((), repaint=False)

    watch_readings = FramedPane.repaint_rows

    @dataclass
    class Explained(Message):
        """Somebody wants to know why figures are missing."""

    def on_mount(self) -> None:
        self.entitle("machine")

    def rows(self, width: int, height: int) -> Sequence[Content]:
        room = max(_NARROWEST, width - _LABEL)
        degree = "°" if self.glyphs.unicode else ""
        lines = [(reading, _lines(reading, room, degree)) for reading in self.readings]
        while len(lines) > 1 and sum(len(each) for _, each in lines) > height:
            dropped = max(range(len(lines)), key=lambda at: (not lines[at][0].alert, lines[at][0].rank, at))
            del lines[dropped]
        return [line for _, each in lines for line in each]

    def action_explain(self) -> None:
        """Ask why figures are missing."""
        self.post_message(self.Explained())


def _lines(reading: Reading, room: int, degree: str) -> list[Content]:
    texts = [plain(text).replace("°", degree) for text in reading.texts]
    fitting = next((text for text in texts if cell_len(text) <= room), None)
    words = [fitting] if fitting is not None else folded(texts[-1], room) or [""]
    style = "$text-warning bold" if reading.alert else ""
    first = row((column(reading.label, _LABEL), "$foreground 65%"), (words[0], style))
    return [first, *(row(" " * _LABEL, (more, style)) for more in words[1:])]
