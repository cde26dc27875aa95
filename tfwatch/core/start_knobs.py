"""What a training starts with: knobs that are fixed from then on, and what a screen needs to begin it again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class Told:
    """What is to be said of a value. stops: it cannot be taken.

    where: only while another knob, by its name, shows one of these values.
    """

    reason: str
    stops: bool = True
    where: tuple[str, tuple[str, ...]] | None = None

    def applies(self, shown: Mapping[str, str]) -> bool:
        """Whether it is so while the knobs show these values, by their names."""
        return self.where is None or shown.get(self.where[0]) in self.where[1]


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a start knob, and the words of the command line that ask for it; none where it is the default."""

    shown: str
    words: tuple[str, ...] = ()
    told: tuple[Told, ...] = ()


@dataclass(frozen=True, slots=True)
class StartKnob:
    """What a training can be started with.

    start: the place among the values of the one that stands before it is turned. note: what it is.
    refused: why it cannot be turned at all; empty where it can.
    read: makes a value of typed text, and raises ValueError with a sentence; None where only the values can be taken.
    """

    name: str
    values: tuple[Value, ...]
    start: int
    note: str
    refused: str = ""
    read: Callable[[str], Value] | None = None


@dataclass(frozen=True, slots=True)
class Restarting:
    """What a screen needs to restart its run.

    knobs: the start knobs as they stand now. take: given the words of the command line that were chosen, or None where
    the restart is called off; the run is restarted with them once the screen is left.
    """

    knobs: Callable[[], tuple[StartKnob, ...]]
    take: Callable[[tuple[str, ...] | None], None]
