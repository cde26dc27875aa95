"""The pane in which the knobs are turned that a training starts with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.message import Message
from textual.reactive import reactive

from tfwatch.widgets.basics.row_list import Choices
from tfwatch.widgets.basics.text import column, ending, row

if TYPE_CHECKING:
    from textual.binding import BindingType
    from textual.content import Content

    from tfwatch.core.start_knobs import StartKnob, Value

_QUIET = "$foreground 65%"
_GREY = "$foreground 45%"
_KNOB_CELLS = 14
_VALUE_CELLS = 18
#: Cells from which a knob's row has room for what it is.
_TELLING = 52
_NONE = "it starts with no knobs"


class StartPane(Choices):
    """The knobs that a training starts with; left and right turn the one under the cursor.

    Attributes:
        knobs: in the order in which they are listed.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "turn(-1)", "the value before", show=False),
        Binding("right", "turn(1)", "the next value", show=False),
        Binding("e", "type", "type a value", show=False),
    ]

    knobs: reactive[tuple[StartKnob, ...]] = reactive(())

    @dataclass
    class Typing(Message):
        """A value is to be typed."""

        knob: StartKnob

    def __init__(self) -> None:
        super().__init__()
        #: By workload and knob, what it was turned to.
        self._turned: dict[tuple[str, str], Value] = {}
        self._workload = ""

    def show(self, workload: str, knobs: tuple[StartKnob, ...]) -> None:
        """Show a workload's knobs, as they were last turned."""
        self._workload = workload
        self.knobs = knobs
        self.rows_replaced()

    def count(self) -> int:
        """How many knobs there are."""
        return len(self.knobs)

    def row_at(self, index: int, width: int) -> Content:
        """Its name, its value and what it is."""
        knob, value = self.knobs[index], self._value(self.knobs[index])
        is_open, stands = self._is_open(knob), value == knob.values[knob.start]
        shown = ending(value.shown, _VALUE_CELLS - 4)
        shown = f"< {shown} >" if is_open else f"  {shown}"
        note, style = self._note(knob) if width >= _TELLING else ("", "")
        return row(
            (knob.name, self.mark(index) or ("" if is_open else _GREY)),
            " " * (_KNOB_CELLS - len(knob.name)),
            (column(shown, _VALUE_CELLS) if note else shown, ("" if is_open else _GREY) if stands else "$accent bold"),
            (f" {note}" if note else "", style),
        )

    @property
    def untold(self) -> str:
        """What the knob under the cursor is, where its row has no room for that."""
        narrow = self.scrollable_content_region.width < _TELLING
        return self._note(self.knobs[self.cursor])[0] if self.knobs and narrow else ""

    @property
    def words(self) -> tuple[str, ...]:
        """What the command line says of the knobs that are not at their defaults."""
        return tuple(word for knob in self.knobs for word in self._value(knob).words)

    @property
    def trouble(self) -> str:
        """Why the training cannot start with these values; empty where it can."""
        for knob in self.knobs:
            value = self._value(knob)
            if told := self._told(value, stops=True):
                return f"{knob.name} {value.shown}: {told}"
        return ""

    @property
    def turned(self) -> str:
        """`batch size 32 > 64, mode graph > jit`; empty where every knob is as it was."""
        pairs = ((knob, knob.values[knob.start], self._value(knob)) for knob in self.knobs)
        return ", ".join(f"{knob.name} {old.shown} > {new.shown}" for knob, old, new in pairs if old != new)

    @property
    def chosen(self) -> StartKnob | None:
        """The knob under the cursor; None where there is none."""
        return self.knobs[self.cursor] if self.knobs else None

    def action_turn(self, places: int) -> None:
        """Take the next value of the knob under the cursor that can be taken, or the one before it."""
        knob = self.chosen
        if knob is None or knob.refused:
            self.notify(f"{knob.name}: {knob.refused}" if knob else _NONE)
            return
        values = self._values(knob)
        at = values.index(self._value(knob)) + places
        while 0 <= at < len(values) and self._told(values[at], stops=True):
            at += places
        if 0 <= at < len(values):
            self.take(knob, values[at])
        else:
            typed = "; e types another" if knob.read else ""
            self.notify(f"{knob.name}: nothing to turn to beyond {self._value(knob).shown}{typed}")

    def action_type(self) -> None:
        """Ask for a value of the knob under the cursor."""
        knob = self.chosen
        if knob and knob.read and not knob.refused:
            self.post_message(self.Typing(knob))
        else:
            self.notify(f"{knob.name}: {knob.refused or 'nothing to type, < and > turn it'}" if knob else _NONE)

    def take(self, knob: StartKnob, value: Value) -> None:
        """Turn a knob."""
        self._turned[self._workload, knob.name] = value
        self.rows_changed()
        self.moved()

    def _value(self, knob: StartKnob) -> Value:
        return self._turned.get((self._workload, knob.name), knob.values[knob.start])

    def _values(self, knob: StartKnob) -> tuple[Value, ...]:
        """The values to turn to, the one that was typed last."""
        value = self._value(knob)
        return knob.values if value in knob.values else (*knob.values, value)

    def _told(self, value: Value, stops: bool) -> str:
        shown = {knob.name: self._value(knob).shown for knob in self.knobs}
        return next((told.reason for told in value.told if told.stops >= stops and told.applies(shown)), "")

    def _is_open(self, knob: StartKnob) -> bool:
        """Whether there is anything to turn it to."""
        others = (value for value in self._values(knob) if value != self._value(knob))
        return not knob.refused and (
            knob.read is not None or any(not self._told(value, stops=True) for value in others)
        )

    def _note(self, knob: StartKnob) -> tuple[str, str]:
        """What stands beside a knob, with its style: why not, else what is to be said of a value, else what it is."""
        if knob.refused:
            return knob.refused, _GREY
        value = self._value(knob)
        if told := self._told(value, stops=False):
            return told, "$text-warning"
        for other in self._values(knob):
            if other != value and (told := self._told(other, stops=False)):
                return f"{other.shown}: {told}", _GREY
        return knob.note, _QUIET
