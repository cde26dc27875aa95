"""Spikes and their causes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.judge.step_rows import find_spikes, make_steps, plain, restart
from tfwatch.core.events import Noted, Paused
from tfwatch.core.rows import Flag, Rows
from tfwatch.judge.steps.causes import Pauses, find_limits, limit_time_s
from tfwatch.judge.steps.patterns import find_patterns
from tfwatch.judge.steps.stalls import find_stalls

if TYPE_CHECKING:
    from tfwatch.judge.steps.spikes import Spike

AT = 100


def slow(part: str, ms: float = 100.0, flags: int = 0) -> Rows:
    """300 steps of 20 ms, the 101st with so many more in one part."""
    rows = plain(300)
    rows[f"{part}_ms"][AT] += ms
    rows["flags"][AT] = flags
    return restart(rows)


def spike_of(rows: Rows, *pauses: Paused) -> Spike:
    (spike,) = find_spikes(rows, Pauses(pauses))
    assert spike.step == AT + 1
    return spike


def pause(
    rows: Rows, cause: str, took_ms: float = 95.0, late_ms: float = 0.0, detail: str = ""
) -> Paused:
    """One that ends with the slow step, or so much later."""
    end_ns = int(rows["start_ns"][AT + 1])
    return Paused(end_ns + int(late_ms * 1e6), cause, took_ms, detail)


@pytest.mark.parametrize(
    "cause",
    ["checkpoint", "callback", "garbage collection", "swap", "CPU contention", "thermal limit"],
)
def test_a_pause_within_the_step_names_it(cause: str) -> None:
    rows = slow("host")

    spike = spike_of(rows, pause(rows, cause, detail="CSVLogger"))

    assert (spike.cause, spike.detail, spike.part) == (cause, "CSVLogger", "host")


@pytest.mark.parametrize(
    ("took_ms", "late_ms"),
    [
        pytest.param(40.0, 0.0, id="too short"),
        pytest.param(95.0, 200.0, id="later"),
        pytest.param(95.0, -400.0, id="earlier"),
        pytest.param(95.0, 60.0, id="hardly overlaps"),
    ],
)
def test_what_does_not_cover_half_of_it_explains_nothing(took_ms: float, late_ms: float) -> None:
    rows = slow("host")

    assert spike_of(rows, pause(rows, "callback", took_ms, late_ms)).cause == "unexplained"


def test_without_a_pause_a_spike_is_unexplained() -> None:
    assert spike_of(slow("compute")).cause == "unexplained"


@pytest.mark.parametrize("part", ["wait", "compute"])
def test_a_callback_never_explains_a_slow_wait_or_compute(part: str) -> None:
    rows = slow(part)

    assert spike_of(rows, pause(rows, "callback")).cause == "unexplained"
    assert spike_of(rows, pause(rows, "garbage collection")).cause == "garbage collection"


def test_the_nearest_cause_comes_first() -> None:
    rows = slow("host")
    contention, swap = (
        pause(rows, "CPU contention", 5000.0, 1000.0),
        pause(rows, "swap", 5000.0, 1000.0),
    )

    assert spike_of(rows, contention, swap).cause == "swap"
    assert spike_of(rows, contention, swap, pause(rows, "checkpoint")).cause == "checkpoint"
    assert (
        spike_of(rows, pause(rows, "callback"), pause(rows, "garbage collection", 80.0)).cause
        == "garbage collection"
    )
    assert spike_of(rows, contention).cause == "CPU contention"


def test_heat_explains_a_step_only_where_it_began_then() -> None:
    rows = slow("compute")
    began = pause(rows, "thermal limit", 5000.0, late_ms=4700.0)
    goes_on = pause(rows, "thermal limit", 5000.0, late_ms=4900.0)
    before = pause(rows, "thermal limit", 5000.0, late_ms=-100.0)

    assert spike_of(rows, began).cause == "thermal limit"
    assert spike_of(rows, before, goes_on).cause == "unexplained"
    assert (
        spike_of(rows, began, pause(rows, "CPU contention", 5000.0, 1000.0)).cause
        == "CPU contention"
    )


def test_the_share_that_a_cause_covers() -> None:
    pauses = Pauses(
        [
            Paused(4 * 10**9, "swap", 2000.0),
            Paused(9 * 10**9, "swap", 1000.0),
            Paused(9, "callback", 1.0),
        ]
    )

    assert pauses.covered("swap", 3e9, 10e9) == pytest.approx(2 / 7)
    assert pauses.covered("thermal limit", 3e9, 10e9) == 0
    assert Pauses().covered("swap", 0, 1) == 0


def test_flags_come_before_pauses_but_for_a_validation_that_follows() -> None:
    rows = slow("wait", flags=int(Flag.SWITCH))
    assert spike_of(rows, pause(rows, "garbage collection")).cause == "pipeline switch"

    rows = slow("host", flags=int(Flag.VALIDATION))
    assert spike_of(rows, pause(rows, "callback")).cause == "callback"
    assert spike_of(rows).cause == "validation"


def test_pauses_make_no_spikes() -> None:
    rows = plain(300)

    assert find_spikes(rows, Pauses([pause(rows, "callback")])) == []
    assert find_spikes(rows, Pauses([Paused(0, "something new", 100.0)])) == []


@pytest.mark.parametrize("seed", range(5))
def test_in_10_000_plain_steps_no_cause_is_named_that_was_not_there(seed: int) -> None:
    """Steps as they were recorded: a long tail, now and then a hiccup; pauses fall where nothing
    stands out."""
    rng = np.random.default_rng(seed)
    wait, compute, host = (rng.lognormal(np.log(mean), 0.3, 10_000) for mean in (0.2, 2.0, 0.1))
    hiccups = rng.choice(10_000, 8, replace=False)
    compute[hiccups] += rng.uniform(30, 300, 8)
    rows = restart(make_steps(wait, compute=compute, host=host))
    quiet = np.setdiff1d(np.arange(1, 9_999), np.concatenate([hiccups - 1, hiccups, hiccups + 1]))
    causes = [
        "callback",
        "checkpoint",
        "garbage collection",
        "swap",
        "thermal limit",
        "process stopped",
    ]
    ends = rows["start_ns"][rng.choice(quiet, 200)]
    pauses = Pauses(
        [
            Paused(int(end), str(rng.choice(causes)), float(rng.uniform(0.1, 14)), "X")
            for end in ends
        ]
    )

    found = find_spikes(rows, pauses)

    assert {spike.step for spike in found} <= {int(at) + 1 for at in hiccups}
    assert [spike.cause for spike in found if spike.cause != "unexplained"] == []
    assert find_patterns(rows, pauses) == []
    assert find_stalls(rows, pauses) == []


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
