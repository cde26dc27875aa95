"""The table of epochs, newest first: steps, step time, data wait, loss, and what happened in each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.message import Message

from tfwatch.core import units
from tfwatch.core.clock import Slot, second_of
from tfwatch.judge.effects.switch_text import setting_text
from tfwatch.judge.whole_run import EpochTable
from tfwatch.screens.basics.glyphs import QUIET_COLOUR
from tfwatch.screens.basics.row_list import CursorList
from tfwatch.screens.basics.text import row
from tfwatch.screens.live.whole_run.curves import figure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from textual.binding import BindingType
    from textual.content import Content

    from tfwatch.judge.view import RunView
    from tfwatch.judge.whole_run import EpochFigures
    from tfwatch.screens.basics.text import Part

#: From this data wait on an epoch starves: the verdict's own lines.
_MODERATE, _HIGH = 0.05, 0.2
#: A change of the step time against the previous run that is shown in colour.
_MUCH = 0.05
#: A validation is an event from this share of the epoch's steps on.
_LONG_VALIDATION = 0.05
#: Columns from which the table has the number of steps, and the comparison with the previous run.
_WITH_STEPS, _WITH_PREVIOUS = 70, 50
_NONE = "no epoch yet"


class EpochsPane(CursorList):
    """Rows of epochs below their heading; posts `Chosen` with the start of the selected epoch."""

    DEFAULT_CSS = """
    EpochsPane { scrollbar-gutter: stable; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "jump to this epoch", show=False)
    ]

    @dataclass
    class Chosen(Message):
        """The user selected a moment of the run, seconds since its clock origin."""

        at_s: float

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._table: Sequence[EpochFigures] = ()
        self._previous: Mapping[int, float] = {}
        self._shown: tuple[object, ...] = ()

    def on_mount(self) -> None:
        self.set_titles("epochs", "enter jumps")

    def show(self, view: RunView) -> None:
        """Show the epochs of a view, once a second."""
        snapshot = view.snapshot
        key = second_of(snapshot.now_s, Slot.MACHINE), view.is_over, view.previous, len(view.stalls)
        if key == self._shown:
            return
        self._shown = key
        self._table = EpochTable(snapshot.epochs.rows, snapshot.events, view.stalls)
        self._previous = view.previous.step_ms if view.previous else {}
        self.rows_changed()

    def count(self) -> int:
        """Return the number of epochs and the heading."""
        return len(self._table) + 1

    def row_at(self, index: int, width: int) -> Content:
        """Return the heading, or the `index`-th newest epoch."""
        if index == 0:
            return row((_line(_HEADING, width) if len(self._table) else _NONE, QUIET_COLOUR))
        figures = self._table[-index]
        here = "reverse" if index == self.cursor and self.has_focus else ""
        before = self._previous.get(figures.epoch)
        return row(
            *((text, f"{style} {here}".strip()) for text, style in _parts(figures, before, width))
        )

    def action_choose(self) -> None:
        """Jump to the epoch under the cursor."""
        if 0 < self.cursor < self.count():
            self.post_message(self.Chosen(self._table[-self.cursor].begin_ns / 1e9))

    def chosen_again(self) -> None:
        self.action_choose()

    def on_focus(self) -> None:
        self.cursor = max(self.cursor, min(1, len(self._table)))
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()


#: The texts of a row; the steps and the previous run need room.
_HEADING = ("epoch", "steps", "ms/step", "wait", "loss", "val", "vs prev", "events")
_WIDTHS = (5, 7, 8, 6, 7, 7, 8, 0)


def _cells(width: int) -> list[int]:
    """Return the numbers of the columns that a width has room for."""
    hidden = {1} if width < _WITH_STEPS else set()
    return [
        at
        for at in range(len(_HEADING))
        if at not in (hidden | {6} if width < _WITH_PREVIOUS else hidden)
    ]


def _line(texts: Sequence[str], width: int) -> str:
    return "".join(
        f"  {texts[at]}" if not _WIDTHS[at] else f"{texts[at]:>{_WIDTHS[at]}}"
        for at in _cells(width)
    )


def _parts(epoch: EpochFigures, before_ms: float | None, width: int) -> Iterator[Part]:
    change = epoch.step_ms / before_ms - 1 if before_ms else None
    texts = (
        (str(epoch.epoch + 1), "bold"),
        (units.count(epoch.steps), ""),
        (f"{epoch.step_ms:.1f}", ""),
        (units.percent(epoch.wait_share), _wait_style(epoch.wait_share)),
        (_metric(epoch, "loss"), ""),
        (_metric(epoch, "val_loss"), ""),
        ("" if change is None else f"{change * 100:+.0f} %", _change_style(change)),
        (", ".join(events_of(epoch)), QUIET_COLOUR),
    )
    for at in _cells(width):
        text, style = texts[at]
        yield (f"  {text}" if not _WIDTHS[at] else f"{text:>{_WIDTHS[at]}}"), style


def _metric(epoch: EpochFigures, name: str) -> str:
    return figure(epoch.metrics[name]) if name in epoch.metrics else "" if epoch.metrics else "..."


def _wait_style(share: float) -> str:
    return "$text-error" if share >= _HIGH else "$text-warning" if share >= _MODERATE else ""


def _change_style(change: float | None) -> str:
    if change is None or abs(change) < _MUCH:
        return QUIET_COLOUR
    return "$text-success" if change < 0 else "$text-warning"


def events_of(epoch: EpochFigures) -> Iterator[str]:
    """Yield the events of an epoch as text, stalls first: a narrow pane cuts the end."""
    if epoch.stalls:
        lost_s = sum(stall.lost_ms for stall in epoch.stalls) / 1e3
        yield f"{units.counted(len(epoch.stalls), 'stall')} {units.seconds(lost_s)}"
    for switch in epoch.switches:
        yield f"{setting_text(switch.knob, switch.old)} → {switch.new}"
    if epoch.traced:
        yield units.counted(epoch.traced, "compile")
    if (
        epoch.validation_ms is not None
        and epoch.validation_ms >= _LONG_VALIDATION * epoch.steps * epoch.step_ms
    ):
        yield f"validation {units.seconds(epoch.validation_ms / 1e3)}"
