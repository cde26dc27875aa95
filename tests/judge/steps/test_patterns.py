"""Periods and drifts of slow steps, and their causes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.judge.step_rows import make_steps, plain, restart
from tfwatch.core.events import Paused
from tfwatch.core.rows import Flag, Rows
from tfwatch.judge.steps.causes import Pauses
from tfwatch.judge.steps.patterns import Pattern, find_patterns, pattern_text
from tfwatch.judge.steps.stalls import find_stalls


def noisy(count: int, wait: float = 2.0) -> Rows:
    """Steps whose wait and compute vary by a fifth."""
    rng = np.random.default_rng(7)
    return make_steps(
        rng.normal(wait, wait / 5, count).clip(0),
        compute=rng.normal(15, 3, count).clip(5),
        host=1.0,
    )


@pytest.mark.parametrize("period", [2, 3, 10, 64, 100])
def test_a_wait_that_comes_back_has_its_period(period: int) -> None:
    rows = noisy(1000)
    rows["wait_ms"][period::period] += 80

    (found,) = find_patterns(rows)

    assert (found.period, found.step) == (period, period + 1)
    assert found.extra_ms == pytest.approx(80, abs=3)
    assert found.lost_ms == pytest.approx(80 * (999 // period), rel=0.05)


def test_a_period_may_miss_a_beat_and_take_two_steps() -> None:
    rows = noisy(1000)
    rows["wait_ms"][50::50] += 80
    rows["wait_ms"][51::50] += 40
    rows["wait_ms"][500:502] = 2
    rows["flags"][300] = Flag.EPOCH_START

    (found,) = find_patterns(rows)

    assert found.period == 50


@pytest.mark.parametrize("share", [0.01, 0.05, 0.3])
def test_waits_at_random_have_no_period(share: float) -> None:
    for seed in range(20):
        rows = noisy(2000)
        rows["wait_ms"][np.random.default_rng(seed).random(2000) < share] += 80

        assert find_patterns(rows) == [], seed


def test_a_single_hiccup_is_a_stall_and_no_pattern() -> None:
    rows = noisy(1000)
    rows["wait_ms"][400] = 3000

    assert find_patterns(rows) == []
    assert [stall.step for stall in find_stalls(rows)] == [401]


def test_a_wait_that_grows_slowly_is_a_drift() -> None:
    rows = noisy(1000)
    rows["wait_ms"] += np.linspace(0, 16, 1000)

    (found,) = find_patterns(rows)

    assert (found.period, found.step, found.steps) == (0, 1, 1000)
    assert found.extra_ms == pytest.approx(14, abs=1)
    assert find_stalls(rows) == []


def test_a_wait_that_falls_or_jumps_is_no_drift() -> None:
    falls, jumps = noisy(1000), noisy(1000)
    falls["wait_ms"] += np.linspace(16, 0, 1000)
    jumps["wait_ms"][450:] += 16

    assert find_patterns(falls) == []
    assert find_patterns(jumps) == []


def test_each_setting_is_searched_separately() -> None:
    rows = np.concatenate([noisy(500), noisy(500)])
    rows["step"] = np.arange(1, 1001)
    rows["wait_ms"][20:500:20] += 60
    rows["flags"][500] = Flag.SWITCH

    (found,) = find_patterns(rows)

    assert (found.period, found.step, found.steps) == (20, 21, 480)


@pytest.mark.parametrize(
    ("period", "words"),
    [
        (0, "data wait grew slowly by 80.0 ms"),
        (2, "every 2nd step waits 80.0 ms longer for data"),
        (11, "every 11th step waits 80.0 ms longer for data"),
        (43, "every 43rd step waits 80.0 ms longer for data"),
        (100, "every 100th step waits 80.0 ms longer for data"),
    ],
)
def test_a_pattern_in_words(period: int, words: str) -> None:
    assert pattern_text(Pattern(1, 0, 500, period, 80.0, 900.0)) == words


@pytest.mark.parametrize("count", [0, 1, 7, 10_000])
def test_plain_steps_have_no_pattern(count: int) -> None:
    assert find_patterns(noisy(count)) == []
    assert find_patterns(plain(count, 0.4)) == []


def every_20th(part: str, ms: float = 60.0) -> Rows:
    rows = noisy(1000)
    rows[f"{part}_ms"][19::20] += ms
    return restart(rows)


def pauses_at(
    rows: Rows, at: slice, cause: str, detail: str = "", took_ms: float = 58.0
) -> list[Paused]:
    """One that ends with each of these steps."""
    ends_ns = np.append(rows["start_ns"][1:], rows["start_ns"][-1] + 10**8)[at]
    return [Paused(int(end_ns), cause, took_ms, detail) for end_ns in ends_ns]


@pytest.mark.parametrize(
    ("part", "cause", "detail", "words"),
    [
        (
            "wait",
            "garbage collection",
            "generation 2",
            "every 20th step waits 60.0 ms longer for data (garbage collection)",
        ),
        (
            "compute",
            "garbage collection",
            "",
            "every 20th step computes 60.0 ms longer (garbage collection)",
        ),
        ("host", "callback", "CSVLogger", "every 20th step has 60.0 ms more host time (CSVLogger)"),
        (
            "host",
            "checkpoint",
            "BackupAndRestore",
            "every 20th step has 60.0 ms more host time (BackupAndRestore)",
        ),
    ],
)
def test_a_period_has_the_cause_that_comes_with_it(
    part: str, cause: str, detail: str, words: str
) -> None:
    rows = every_20th(part)

    (found,) = find_patterns(rows, Pauses(pauses_at(rows, slice(19, 420, 20), cause, detail)))

    assert (found.part, found.period, found.cause, found.detail) == (part, 20, cause, detail)
    assert pattern_text(replace(found, extra_ms=60.0)) == words


@pytest.mark.parametrize(
    ("part", "at", "cause"),
    [
        pytest.param("wait", slice(19, 420, 20), "callback", id="of another part"),
        pytest.param("host", slice(19, 120, 20), "callback", id="of too few steps"),
        pytest.param("host", slice(9, 420, 20), "callback", id="of other steps"),
        pytest.param("host", slice(19, 420, 20), "CPU contention", id="of everything"),
    ],
)
def test_what_does_not_come_with_a_period_is_not_its_cause(
    part: str, at: slice, cause: str
) -> None:
    rows = every_20th(part)

    (found,) = find_patterns(rows, Pauses(pauses_at(rows, at, cause)))

    assert (found.part, found.period, found.cause) == (part, 20, "unexplained")


def test_a_buffer_that_fills_repeatedly_is_a_period() -> None:
    rows = every_20th("wait")
    rows["flags"][19::20] = Flag.SHUFFLE_FILL

    (found,) = find_patterns(rows)

    assert (found.period, found.cause) == (20, "shuffle fill")


def test_what_follows_a_call_of_several_steps_is_spread_over_them() -> None:
    rows = noisy(1000)
    rows["host_ms"] = 0.0
    rows["host_ms"][4::5] = 40.0

    assert find_patterns(restart(rows)) == []


def test_a_call_s_first_step_may_wait_for_its_batch() -> None:
    rows = noisy(1000)
    rows["host_ms"] = 0.0
    rows["host_ms"][4::5] = 1.0
    rows["wait_ms"][5::5] += 30.0

    (found,) = find_patterns(restart(rows))

    assert (found.part, found.period, found.cause) == ("wait", 5, "steps_per_execution")


@pytest.mark.parametrize(
    ("part", "words"), [("compute", "compute grew"), ("host", "host time grew")]
)
def test_every_part_may_drift(part: str, words: str) -> None:
    rows = noisy(1000)
    rows[f"{part}_ms"] += np.linspace(0, 16, 1000)

    (found,) = find_patterns(restart(rows))

    assert (found.part, found.period, found.cause) == (part, 0, "unexplained")
    assert pattern_text(found).startswith(f"{words} slowly by ")


def test_a_drift_has_the_limit_that_began_during_it() -> None:
    rows = noisy(1000)
    rows["compute_ms"] += np.linspace(0, 16, 1000)
    rows = restart(rows)
    end_ns = int(rows["start_ns"][-1])
    came = Paused(end_ns, "thermal limit", 0.6 * end_ns / 1e6)
    always = Paused(end_ns, "thermal limit", 0.99 * end_ns / 1e6)

    assert [found.cause for found in find_patterns(rows, Pauses([came]))] == ["thermal limit"]
    assert [found.cause for found in find_patterns(rows, Pauses([always]))] == ["unexplained"]
