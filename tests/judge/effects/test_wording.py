"""A comparison in words and in cells."""

import pytest

from tests.judge.situations import changed, effect, split
from tfwatch.core.knobs import COMPUTE, WAIT
from tfwatch.judge.effects.comparison import Comparison, SwitchEffect
from tfwatch.judge.effects.interval import Change, Estimate
from tfwatch.judge.effects.wording import outcome_text

BEFORE, AFTER = split(9.6, 13.0, 0.8, 600), split(0.2, 12.9, 0.8, 600)
FASTER = effect(1.68, 1.61, 1.74)
SETTLED = Comparison("prefetch", "off", "4", "key", 3470, 3477, BEFORE, AFTER, FASTER, True)
LESS_WAIT = Change(-9.4, -9.6, -9.1)
DRIFTED = SwitchEffect(
    Estimate(1.1, 1.05, 1.15), {COMPUTE: Change(-1.0, -1.1, -0.9)}, frozenset([WAIT])
)


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
            changed(SETTLED, effect=effect(1.01, 0.98, 1.02)),
            "no difference (0.98 to 1.02) over 600 steps",
            id="same",
        ),
        pytest.param(
            changed(SETTLED, effect=effect(1.24, 0.97, 1.4)),
            "too noisy to show less than 20 % over 600 steps",
            id="a wide interval that holds 1",
        ),
        pytest.param(
            changed(SETTLED, effect=effect(1.04, 0.97, 1.1)),
            "not clear (0.97 to 1.10) over 600 steps",
            id="a narrow interval that holds 1",
        ),
        pytest.param(
            changed(SETTLED, effect=effect(1.03, 0.96, 1.1, LESS_WAIT)),
            "data wait 9.6 → 0.2 ms, step: not clear (0.96 to 1.10) over 600 steps",
            id="the wait is gone, the step is open",
        ),
        pytest.param(
            changed(SETTLED, effect=effect(1.01, 0.98, 1.02, Change(-0.4, -0.5, -0.3))),
            "no difference (0.98 to 1.02) over 600 steps",
            id="below 2 % of a step",
        ),
        pytest.param(
            changed(SETTLED, after=split(0.2, 12.9, 0.8, 34), settled=False),
            "1.68 x faster (1.61 to 1.74) so far, 34 of 60 steps",
            id="settling_steps",
        ),
        pytest.param(
            changed(SETTLED, effect=DRIFTED),
            "1.10 x faster (1.05 to 1.15) over 600 steps; compute drifted: 13.0 → 12.9 ms",
            id="a part that the knob cannot move",
        ),
        pytest.param(
            changed(SETTLED, switches=3),
            "1.68 x faster (1.61 to 1.74) over 600 steps, 3 switches together",
            id="back and forth",
        ),
        pytest.param(
            changed(SETTLED, after=None, effect=None, settled=False),
            "0 of 60 steps",
            id="nothing measured",
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
