"""Heat and swapping: pieces of one stretch are joined."""

from __future__ import annotations

import pytest

from tfwatch.core.events import Noted, Paused
from tfwatch.judge.steps.causes import find_limits, limit_time_s

SECOND = 10**9


def piece(end_s: float, took_s: float, cause: str = "thermal limit", detail: str = "") -> Paused:
    return Paused(round(end_s * SECOND), cause, took_s * 1e3, detail)


def test_pieces_that_touch_are_one_stretch() -> None:
    found = find_limits([piece(5, 5), Noted(6, "a note"), piece(10, 5), piece(12, 2)])

    assert [(limit.at_ns, limit.took_ms) for limit in found] == [(12 * SECOND, 12_000)]


def test_a_gap_makes_two_stretches_and_causes_are_separate() -> None:
    found = find_limits(
        [piece(5, 5), piece(6, 1, "swap", "40 MB"), piece(20, 5), piece(7, 1, "swap", "60 MB")]
    )

    assert [(limit.cause, limit.took_ms, limit.detail) for limit in found] == [
        ("thermal limit", 5000, ""),
        ("swap", 2000, "60 MB"),
        ("thermal limit", 5000, ""),
    ]


def test_a_cause_within_the_training_is_no_limit() -> None:
    assert find_limits([piece(5, 5, "callback", "CSVLogger"), piece(6, 1, "CPU contention")]) == []


@pytest.mark.parametrize(("cause", "seconds"), [("thermal limit", 10.0), ("swap", 0.0)])
def test_how_long_a_limit_held(cause: str, seconds: float) -> None:
    assert limit_time_s([piece(5, 5), piece(30, 5)], cause) == seconds
