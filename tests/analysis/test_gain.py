"""Whether a switch helped, from two stretches of steps."""

from __future__ import annotations

import pytest

from tfwatch.analysis.gain import Measured, helped, might_help, no_slower, together


def stretch(step_ms: float, error_ms: float = 0.1, wait_ms: float = 1.0, steps: int = 40) -> Measured:
    return Measured(steps, step_ms, error_ms, step_ms - wait_ms)


@pytest.mark.parametrize(
    ("after", "last", "again", "kept"),
    [
        pytest.param(stretch(19.0), False, False, True, id="clear at once"),
        pytest.param(stretch(19.6, 0.2), False, False, None, id="more steps have to tell"),
        pytest.param(stretch(19.6, 0.2), True, False, False, id="not clear at the end"),
        pytest.param(stretch(19.6, 0.2), True, True, True, id="clear enough where both were measured in turn"),
        pytest.param(stretch(19.8, 0.01), True, True, False, id="sure, and not worth it"),
        pytest.param(stretch(21.0), False, True, False, id="clearly slower"),
    ],
)
def test_a_gain_is_kept_where_noise_does_not_explain_it(
    after: Measured, last: bool, again: bool, kept: bool | None
) -> None:
    assert helped(stretch(20.0), after, last=last, again=again) is kept


@pytest.mark.parametrize(
    ("after", "last", "kept"),
    [
        pytest.param(stretch(19.5, 0.1), False, True, id="faster"),
        pytest.param(stretch(20.0, 0.1), False, None, id="as fast, not yet for sure"),
        pytest.param(stretch(20.0, 0.1), True, True, id="as fast"),
        pytest.param(stretch(20.0, 0.5), True, False, id="nobody knows"),
        pytest.param(stretch(20.0, 0.1, wait_ms=2.0), True, False, id="as fast, and it waits where it worked"),
        pytest.param(stretch(20.5, 0.1), False, False, id="clearly slower"),
    ],
)
def test_what_takes_less_stays_where_it_is_no_slower(after: Measured, last: bool, kept: bool | None) -> None:
    assert no_slower(stretch(20.0), after, last=last) is kept


def test_what_is_not_ruled_out_is_open() -> None:
    assert might_help(stretch(20.0, 0.3), stretch(20.1, 0.3))
    assert not might_help(stretch(20.0, 0.1), stretch(20.1, 0.1))


def test_several_stretches_count_by_their_steps() -> None:
    both = together([stretch(10.0, 0.3, steps=30), stretch(20.0, 0.1, steps=10)])
    assert (both.steps, both.step_ms, both.work_ms) == (40, 12.5, 11.5)
    assert both.error_ms == pytest.approx(((0.75 * 0.3) ** 2 + (0.25 * 0.1) ** 2) ** 0.5)
