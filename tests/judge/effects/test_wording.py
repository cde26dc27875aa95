"""A comparison in words and in cells."""

from __future__ import annotations

import pytest

from tests.judge.situations import changed, effect, split
from tfwatch.judge.effects.before_after import WaitChange
from tfwatch.judge.effects.comparison import Comparison
from tfwatch.judge.effects.wording import (
    outcome_text,
    part_texts,
)
from tfwatch.judge.steps.steady_steps import Stat

BEFORE, AFTER = split(9.6, 13.0, 0.8, 600), split(0.2, 12.9, 0.8, 600)
FASTER = effect(1.68, 1.61, 1.74)
SETTLED = Comparison("prefetch", "off", "4", "key", 3470, 3477, BEFORE, AFTER, FASTER, True)
LESS_WAIT = WaitChange(-9.4, -9.6, -9.1)


@pytest.mark.parametrize(
    ("switch", "words"),
    [
        pytest.param(SETTLED, "1.68 x faster (1.61 to 1.74) over 600 steps", id="settled"),
        pytest.param(
            changed(SETTLED, effect=effect(0.5, 0.4, 0.625)),
            "2.00 x slower (1.60 to 2.50) over 600 steps",
            id="slower",
        ),
        pytest.param(
            changed(SETTLED, effect=effect(20.11, 15.0, 25.0)),
            "20 x faster (15 to 25) over 600 steps",
            id="many times",
        ),
        pytest.param(
            changed(SETTLED, effect=effect(1.01, 0.98, 1.02)),
            "no difference (0.98 to 1.02) over 600 steps",
            id="same",
        ),
        pytest.param(
            changed(SETTLED, effect=effect(1.24, 0.97, 1.4)),
            "not clear (0.97 to 1.40) over 600 steps",
            id="an interval that holds 1",
        ),
        pytest.param(
            changed(SETTLED, effect=effect(1.68, 0.9, 2.7, LESS_WAIT)),
            "data wait 9.6 → 0.2 ms, step: not clear (0.90 to 2.70) over 600 steps",
            id="the wait is gone, the step is open",
        ),
        pytest.param(
            changed(SETTLED, effect=effect(1.68, 1.61, 1.74, LESS_WAIT)),
            "1.68 x faster (1.61 to 1.74) over 600 steps",
            id="a proved step needs no wait",
        ),
        pytest.param(
            changed(SETTLED, effect=effect(1.01, 0.98, 1.02, WaitChange(-0.4, -0.5, -0.3))),
            "no difference (0.98 to 1.02) over 600 steps",
            id="below 2 % of a step",
        ),
        pytest.param(
            changed(SETTLED, effect=effect(1.68, 0.9, 2.7, WaitChange(-9.4, -19.6, 0.1))),
            "not clear (0.90 to 2.70) over 600 steps",
            id="neither is proved",
        ),
        pytest.param(
            changed(SETTLED, after=split(0.2, 12.9, 0.8, 34), settled=False),
            "1.68 x faster (1.61 to 1.74) so far, 34 of 60 steps",
            id="settling_steps",
        ),
        pytest.param(
            changed(SETTLED, after=None, effect=None, settled=False),
            "0 of 60 steps",
            id="nothing measured",
        ),
        pytest.param(
            changed(SETTLED, before=None, effect=None),
            "not enough steps before it to compare",
            id="asked early",
        ),
        pytest.param(
            changed(SETTLED, effect=None, beside="workers"),
            "switched together with workers: no ratio of its own",
            id="two at one step",
        ),
    ],
)
def test_faster_and_slower_are_said_of_what_was_measured(switch: Comparison, words: str) -> None:
    assert outcome_text(switch) == words


def test_the_parts_are_told_on_both_sides() -> None:
    assert part_texts(SETTLED) == ["wait 9.6 → 0.2", "compute 13.0 → 12.9", "host 0.8 → 0.8"]


def test_where_batches_come_in_bursts_both_sides_are_told_by_their_means() -> None:
    bursts = changed(BEFORE, step=Stat(13.9, 23.4, 60.0), wait=Stat(0.1, 9.6, 46.0))
    switch = changed(SETTLED, before=bursts)

    assert not SETTLED.in_bursts
    assert switch.in_bursts
    assert part_texts(switch)[0] == "wait 9.6 → 0.2"
    assert part_texts(changed(SETTLED, after=None)) == ["wait", "compute", "host"]
