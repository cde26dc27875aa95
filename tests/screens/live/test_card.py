"""The card: its bars claim no difference that the answer does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from tests.judge.step_rows import plain, restart
from tfwatch.core.events import (
    AutopilotBegan,
    AutopilotEnded,
    ExperimentEnded,
    MoveJudged,
    PipelineSwitched,
)
from tfwatch.judge.effects.comparison import Comparison, compare
from tfwatch.judge.effects.tuner_events import autopilot_runs
from tfwatch.screens.basics.glyphs import COMPUTE_COLOUR, WAIT_COLOUR
from tfwatch.screens.live.card import (
    CardContent,
    CardPane,
    _of_autopilot,
    _of_switch,
)

if TYPE_CHECKING:
    from textual.content import Content

EXPERIMENT = ExperimentEnded(
    *(5, "prefetch", ("off", "4"), 0, 30, "budget", "unclear", 8, 160, "off"),
    *(1.08, 0.79, 1.53, {"off": 15.1, "4": 13.9}),
)
JUDGED = MoveJudged(2, 90, "workers", "off", "8", 15.1, 13.9, 60, True)
AUTOPILOT = AutopilotEnded(
    6, 170, "not_starving", "", 169, 15.1, 13.9, ratio=1.08, low=0.97, high=1.2
)

FADED = f"{COMPUTE_COLOUR} 45%"


def drawn(effect: CardContent) -> list[Content]:
    made = CardPane()
    made.set_reactive(CardPane.content, effect)
    return list(made.rows(60, 20))


def bar_styles(rows: list[Content]) -> set[str]:
    """The styles of the bars of the first two rows."""
    return {
        str(span.style)
        for row in rows[:2]
        for span in row.spans
        if set(row.plain[span.start : span.end]) & {"█", "#"}
    }


@pytest.mark.parametrize(("low", "style"), [(0.97, FADED), (1.01, COMPUTE_COLOUR)])
def test_the_bars_of_an_autopilot_without_a_proved_gain_are_grey(low: float, style: str) -> None:
    (run,) = autopilot_runs([AutopilotBegan(0, 1, 2e9), JUDGED, replace(AUTOPILOT, low=low)])
    assert bar_styles(drawn(_of_autopilot(run))) == {style}


def compared(wait_ms: float, knob: str = "prefetch", old: str = "off") -> Comparison:
    rows = plain(200)
    rows["wait_ms"][:100] += wait_ms
    rows["compute_ms"] += [0.5, -0.5, 0.9, -0.9, 0.1] * 40
    switch = PipelineSwitched(0, knob, old, "4", 100, 101, 1.0, "key")
    return compare([switch], 200, lambda first, last: restart(rows)[first - 1 : last])[0]


def test_the_parts_of_a_step_keep_their_colours_and_fade_where_no_difference_is_seen() -> None:
    clear, open_ = compared(9.0), compared(0.05)
    assert (clear.answer, open_.answer in ("same", "unclear")) == ("faster", True)
    assert {WAIT_COLOUR, COMPUTE_COLOUR} <= bar_styles(drawn(_of_switch(clear, "")))
    assert COMPUTE_COLOUR not in bar_styles(drawn(_of_switch(open_, "")))
