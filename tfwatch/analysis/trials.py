"""Experiments in words, and what of a run is theirs: the same for the screen, a summary and a line of progress."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.analysis.experiment import SAME
from tfwatch.core import units
from tfwatch.core.knobs import knob_name
from tfwatch.core.trials import WITH_THE_RUN, ExperimentBegan, ExperimentBlock, ExperimentEnded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tfwatch.core.events import Event

_WHY = {
    "budget": "too noisy",
    "cancelled": "it was ended before",
    "key": "a knob was turned before",
    "stopped": "the training was stopped before",
    "ended": "the run ended before",
}


@dataclass(frozen=True, slots=True)
class Underway:
    """An experiment that has not ended: `began`, and its newest block; None before the first one is over.

    cut_off: the run ended first.
    """

    began: ExperimentBegan
    block: ExperimentBlock | None
    cut_off: bool = False

    @property
    def subject(self) -> str:
        """`prefetch off against 4`."""
        return subject(self.began.knob, self.began.values)

    @property
    def outlook(self) -> str:
        """What is to come of it."""
        return "no answer: the run ended before" if self.cut_off else "goes on until the answer is clear"

    @property
    def block_words(self) -> str:
        """`block 7`: the one that runs."""
        return f"block {self.block.block + 1 if self.block else 1}"

    @property
    def brief(self) -> str:
        """`block 7, so far 1.6 x`."""
        if self.block is None or self.block.ratio is None:
            return self.block_words
        of = f"{self.block.best}: " if len(self.began.values) > 2 else ""
        return f"{self.block_words}, so far {of}{units.times(self.block.ratio)} x"

    @property
    def progress(self) -> str:
        """`block 7, so far 1.6 x (1.2 to 2.1)`."""
        if self.block is None or self.block.low is None or self.block.high is None:
            return self.brief
        return f"{self.brief} ({units.times(self.block.low)} to {units.times(self.block.high)})"


def underway(events: Iterable[Event]) -> Underway | None:
    """The experiment that goes on; None where none does. events: those of experiments, others are passed over."""
    found: Underway | None = None
    for event in events:
        if isinstance(event, ExperimentBegan):
            found = Underway(event, None)
        elif isinstance(event, ExperimentBlock) and found:
            found = Underway(found.began, event)
        elif isinstance(event, ExperimentEnded):
            found = None
    return found


def subject(knob: str, values: list[str]) -> str:
    """`prefetch off against 4`, `prefetch off against 2, 4`."""
    return f"{knob_name(knob)} {values[0]} against {', '.join(values[1:])}"


def answer(ended: ExperimentEnded) -> str:
    """`1.68 x faster (1.61 to 1.74) over 412 steps`, `no difference: between 0.97 and 1.03 ...`, `not clear: ...`.

    What differs by less than anybody turns a knob for reads `less than 3 % apart: between 1.00 and 1.02 ...`.
    """
    over = f"over {units.count(ended.steps)} steps"
    if ended.ratio is None or ended.low is None or ended.high is None:
        few = "too few steps" if ended.cause == "budget" else ""
        why = ended.reason or few or _WHY.get(ended.cause, ended.cause)
        return f"not clear: {why} ({units.counted(ended.steps, 'step')} in {units.counted(ended.rounds, 'round')})"
    if ended.answer == "faster":
        return f"{units.times(ended.ratio)} x faster ({units.times(ended.low)} to {units.times(ended.high)}) {over}"
    if ended.answer == "slower":
        within = f"{units.times(1 / ended.high)} to {units.times(1 / ended.low)}"
        return f"{units.times(1 / ended.ratio)} x slower ({within}) {over}"
    if ended.answer == "same":
        none = "no difference" if ended.low <= 1 <= ended.high else f"less than {units.percent(SAME)} apart"
        return f"{none}: between {units.times(ended.low)} and {units.times(ended.high)} {over}"
    why = ended.reason or _WHY.get(ended.cause, ended.cause)
    return f"not clear: between {units.times(ended.low)} and {units.times(ended.high)} {over}, {why}"


def how(ended: ExperimentEnded) -> str:
    """`14 rounds in random order; left at 4`."""
    return f"{units.counted(ended.rounds, 'round')} in random order{_left(ended)}"


def in_a_line(ended: ExperimentEnded) -> str:
    """`prefetch off against 4: 1.68 x faster (1.61 to 1.74) over 412 steps; left at 4`."""
    of = f"{ended.value} is " if len(ended.values) > 2 and ended.answer in ("faster", "slower") else ""
    return f"{subject(ended.knob, ended.values)}: {of}{answer(ended)}{_left(ended)}"


def _left(ended: ExperimentEnded) -> str:
    return f"; left at {ended.kept}" if ended.kept and ended.cause not in WITH_THE_RUN else ""
