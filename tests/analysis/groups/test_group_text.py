"""Single long steps in words."""

from __future__ import annotations

import pytest

from tfwatch.analysis.groups.straggler import Cause, LongStep, long_step_lines

_LONG = "step 7 takes 2.0 s more, for rank 1: data wait"


@pytest.mark.parametrize(
    ("lost_ms", "lines"),
    [
        pytest.param([], [], id="none"),
        pytest.param([15.0, 12.0], [], id="too short to matter"),
        pytest.param([15.0] * 20, ["20 long steps: 0.3 s"], id="many short ones"),
        pytest.param([15.0, 2000.0], [_LONG], id="one"),
        pytest.param([2000.0] * 5, [_LONG] * 3 + ["2 more long steps: 4.0 s"], id="the longest three"),
    ],
)
def test_only_steps_that_cost_a_tenth_of_a_second_are_named(lost_ms: list[float], lines: list[str]) -> None:
    assert long_step_lines([LongStep(7, 1, Cause.DATA_WAIT, lost) for lost in lost_ms]) == lines
