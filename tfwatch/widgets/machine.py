"""The machine: what it has left, and what the run lost."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from textual.reactive import reactive

from tfwatch.widgets.pane import FramedPane
from tfwatch.widgets.text import plain, row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.content import Content

_LABEL = 8

#: A label and what it reads, and whether it needs a look.
Reading = tuple[str, str, bool]


class MachinePane(FramedPane):
    """Labelled readings."""

    readings: reactive[tuple[Reading, ...]] = reactive(())

    def on_mount(self) -> None:
        self.entitle("machine")

    def rows(self, width: int, height: int) -> Sequence[Content]:
        return [line for reading in self.readings for line in _lines(reading, max(20, width - _LABEL))]


def _lines(reading: Reading, width: int) -> list[Content]:
    label, text, alert = reading
    style = "$text-warning bold" if alert else ""
    words = textwrap.wrap(plain(text), width) or [""]
    first = row((f"{label:<{_LABEL}}", "$foreground 65%"), (words[0], style))
    return [first, *(row(" " * _LABEL, (more, style)) for more in words[1:])]
