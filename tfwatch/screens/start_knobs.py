"""The pane with the start knobs of a training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.message import Message
from textual.reactive import reactive

from tfwatch.screens.basics.row_list import ChoiceList
from tfwatch.screens.basics.text import column, keep_end, row

if TYPE_CHECKING:
    from textual.binding import BindingType
    from textual.content import Content

    from tfwatch.core.start_knobs import StartKnob, Value

_QUIET = "$foreground 65%"
_GREY = "$foreground 65%"
_KNOB_CELLS = 14
_VALUE_CELLS = 18
#: Cells from which a row has room for its note.
_NOTE_FROM_CELLS = 52
_NONE = "this workload has no start knobs"


class StartPane(ChoiceList):
    """The start knobs; left and right change the one under the cursor.

    Attributes:
        knobs: in display order.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "change(-1)", "the previous value", show=False),
        Binding("right", "change(1)", "the next value", show=False),
        Binding("e", "type", "type a value", show=False),
    ]

    knobs: reactive[tuple[StartKnob, ...]] = reactive(())

    @dataclass
    class Typing(Message):
        """The user wants to type a value."""

        knob: StartKnob

    def __init__(self) -> None:
        super().__init__()
        #: The selected values, by workload and knob.
        self._selected: dict[tuple[str, str], Value] = {}
        self._workload = ""

    def show(self, workload: str, knobs: tuple[StartKnob, ...]) -> None:
        """Show a workload's knobs with the values last selected."""
        self._workload = workload
        self.knobs = knobs
        self.rows_replaced()

    def count(self) -> int:
        """Return the number of knobs."""
        return len(self.knobs)

    def row_at(self, index: int, width: int) -> Content:
        """Return the knob's name, its value and its note."""
        knob, value = self.knobs[index], self._value(self.knobs[index])
        can_change, is_default = self._can_change(knob), value == knob.values[knob.start]
        shown = keep_end(value.shown, _VALUE_CELLS - 4)
        shown = f"< {shown} >" if can_change else f"  {shown}"
        is_wide = width >= _NOTE_FROM_CELLS
        note, style = self._note(knob) if is_wide else ("", "")
        name_cells = max(len(one.name) + 1 for one in self.knobs) if is_wide else _KNOB_CELLS
        return row(
            (knob.name, self.mark(index) or ("" if can_change else _GREY)),
            " " * max(max(name_cells, _KNOB_CELLS) - len(knob.name), 1),
            (
                column(shown, _VALUE_CELLS) if note else shown,
                ("" if can_change else _GREY) if is_default else "$accent bold",
            ),
            (f" {note}" if note else "", style),
        )

    @property
    def hidden_note(self) -> str:
        """The note of the knob under the cursor where its row has no room for it."""
        single_width = self.scrollable_content_region.width < _NOTE_FROM_CELLS
        return self._note(self.knobs[self.cursor])[0] if self.knobs and single_width else ""

    @property
    def words(self) -> tuple[str, ...]:
        """The command-line arguments of the knobs that are not at their defaults."""
        return tuple(word for knob in self.knobs for word in self._value(knob).words)

    @property
    def trouble(self) -> str:
        """The reason why the training cannot start with these values; empty where it can."""
        for knob in self.knobs:
            value = self._value(knob)
            if reason := self._constraint(value, is_blocking=True):
                return f"{knob.name} {value.shown}: {reason}"
        return ""

    def describe_changes(self, to: str) -> str:
        """Return the changes, `batch size 32 > 64, mode graph > jit`; `to` is the arrow. Empty without a change."""
        pairs = ((knob, knob.values[knob.start], self._value(knob)) for knob in self.knobs)
        return ", ".join(
            f"{knob.name} {old.shown} {to} {new.shown}" for knob, old, new in pairs if old != new
        )

    @property
    def chosen(self) -> StartKnob | None:
        """The knob under the cursor; None without one."""
        return self.knobs[self.cursor] if self.knobs else None

    def action_change(self, places: int) -> None:
        """Select the next valid value of the knob under the cursor, or the previous one."""
        knob = self.chosen
        if knob is None or knob.refused:
            self.notify(f"{knob.name}: {knob.refused}" if knob else _NONE)
            return
        values = self._values(knob)
        at = values.index(self._value(knob)) + places
        while 0 <= at < len(values) and self._constraint(values[at], is_blocking=True):
            at += places
        if 0 <= at < len(values):
            self.take(knob, values[at])
        else:
            typed = "; e types another" if knob.read else ""
            self.notify(f"{knob.name}: no value beyond {self._value(knob).shown}{typed}")

    def action_type(self) -> None:
        """Ask for a value of the knob under the cursor."""
        knob = self.chosen
        if knob and knob.read and not knob.refused:
            self.post_message(self.Typing(knob))
        else:
            self.notify(
                f"{knob.name}: {knob.refused or 'cannot be typed, < and > change it'}"
                if knob
                else _NONE
            )

    def take(self, knob: StartKnob, value: Value) -> None:
        """Set a knob."""
        self._selected[self._workload, knob.name] = value
        self.rows_changed()
        self.moved()

    def _value(self, knob: StartKnob) -> Value:
        return self._selected.get((self._workload, knob.name), knob.values[knob.start])

    def _values(self, knob: StartKnob) -> tuple[Value, ...]:
        """Return the values to select from; a typed value is the last."""
        value = self._value(knob)
        return knob.values if value in knob.values else (*knob.values, value)

    def _constraint(self, value: Value, is_blocking: bool) -> str:
        shown = {knob.name: self._value(knob).shown for knob in self.knobs}
        found = (
            one
            for one in value.constraints
            if one.is_blocking >= is_blocking and one.applies(shown)
        )
        return next((one.reason for one in found), "")

    def _can_change(self, knob: StartKnob) -> bool:
        """Return True where the knob has another value to select."""
        others = (value for value in self._values(knob) if value != self._value(knob))
        return not knob.refused and (
            knob.read is not None
            or any(not self._constraint(value, is_blocking=True) for value in others)
        )

    def _note(self, knob: StartKnob) -> tuple[str, str]:
        """Return the text beside a knob and its style: its refusal, a constraint of a value, or its description."""
        if knob.refused:
            return knob.refused, _GREY
        value = self._value(knob)
        if reason := self._constraint(value, is_blocking=False):
            return reason, "$text-warning"
        for other in self._values(knob):
            if other != value and (reason := self._constraint(other, is_blocking=False)):
                return f"{other.shown}: {reason}", _GREY
        return knob.note, _QUIET
