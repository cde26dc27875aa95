"""What the settings of a run have shown so far: where it has stood before, nothing needs to be forecast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.analysis.switches import LEAST
from tfwatch.analysis.turns import taken_back

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tfwatch.analysis.breakdown import Breakdown
    from tfwatch.analysis.switches import Comparison
    from tfwatch.core.events import PipelineSwitched
    from tfwatch.core.knobs import KnobChange


@dataclass(frozen=True, slots=True)
class Stay:
    """A stretch of steps with one setting of all knobs, in words; `split` of its steady steps, where there are any."""

    knobs: Mapping[str, str]
    split: Breakdown | None


def stays(
    comparisons: Sequence[Comparison], knobs: Mapping[str, str], turns: Sequence[PipelineSwitched] = ()
) -> list[Stay]:
    """The stretches on both sides of each comparison, oldest first; the last one ended with `knobs`.

    turns: every switch of the run in order, where more were made than are compared (those of experiments are not).
    Knobs that were turned at one step began one stretch together.
    """
    made = [(switch.step, switch) for switch in comparisons if switch.step is not None]
    past = [(turn.step, turn.change) for turn in turns] or [(step, switch.change) for step, switch in made]
    state, found = dict(knobs), []
    for n in range(len(made) - 1, -1, -1):
        step, switch = made[n]
        state = _go_back(state, past, step)
        if n == len(made) - 1 or made[n + 1][0] != step:
            found.append(Stay(matter(state), switch.after))
    if made:
        step, switch = made[0]
        state = _go_back(state, past, step - 1)
        found.append(Stay(matter(state), switch.before))
    return found[::-1]


def _go_back(state: dict[str, str], past: list[tuple[int, KnobChange]], step: int) -> dict[str, str]:
    """The knobs before what was turned after a step, which leaves `past`."""
    later = []
    while past and past[-1][0] > step:
        later.append(past.pop()[1])
    return taken_back(state, later)


def find(
    history: Sequence[Stay], wanted: Mapping[str, str], now: Mapping[str, str]
) -> tuple[Breakdown, Breakdown | None] | None:
    """The newest stretch of the wanted setting, and of a neighbour with the present one, `now`, if there is any.

    None where the run has not stood there for `LEAST` steady steps.
    """
    wanted, now = matter(wanted), matter(now)
    for n in range(len(history) - 1, -1, -1):
        split = history[n].split
        if history[n].knobs == wanted and split is not None and split.steps >= LEAST:
            beside = [history[near].split for near in (n + 1, n - 1) if _is_at(history, near, now)]
            return split, next((one for one in beside if one is not None and one.steps >= LEAST), None)
    return None


def _is_at(history: Sequence[Stay], n: int, knobs: Mapping[str, str]) -> bool:
    return 0 <= n < len(history) and history[n].knobs == knobs


def matter(knobs: Mapping[str, str]) -> dict[str, str]:
    """The knobs that change a step's time."""
    return {knob: value for knob, value in knobs.items() if matters(knob)}


def matters(knob: str) -> bool:
    """Whether it changes a step's time: a shuffle changes only the order of the examples."""
    return knob != "shuffle"
