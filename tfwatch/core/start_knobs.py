"""Start knobs: settings of a training that are fixed once it runs, and the offer to restart it with others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint on a value. is_blocking: the value cannot be chosen.

    where: the constraint applies only while another knob, by its name, shows one of these values.
    """

    reason: str
    is_blocking: bool = True
    where: tuple[str, tuple[str, ...]] | None = None

    def applies(self, shown: Mapping[str, str]) -> bool:
        """Return whether the constraint applies to these values, by knob name."""
        return self.where is None or shown.get(self.where[0]) in self.where[1]


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a start knob. words: its command line arguments; none for the default."""

    shown: str
    words: tuple[str, ...] = ()
    constraints: tuple[Constraint, ...] = ()


@dataclass(frozen=True, slots=True)
class StartKnob:
    """A setting with which a training starts.

    start: the index of the initial value. note: a short explanation.
    refused: why the knob cannot change; empty where it can.
    read: parses typed text, or raises ValueError with a sentence; None where only `values` can be chosen.
    """

    name: str
    values: tuple[Value, ...]
    start: int
    note: str
    refused: str = ""
    read: Callable[[str], Value] | None = None


@dataclass(frozen=True, slots=True)
class RestartOffer:
    """The offer to restart a run from its screen.

    knobs: returns the start knobs with their current values. take: takes the chosen command line arguments, or None
    where the restart is cancelled; the run restarts with them once the screen closes.
    """

    knobs: Callable[[], tuple[StartKnob, ...]]
    take: Callable[[tuple[str, ...] | None], None]
