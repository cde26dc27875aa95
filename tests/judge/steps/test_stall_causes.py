"""The causes of long waits, and the limits of heat and memory."""

import pytest

from tests.judge.step_rows import events_of, plain, restart
from tfwatch.core.events import Noted, Paused, StagesFound, StallLocated
from tfwatch.core.rows import Flag
from tfwatch.judge.steps.stalls import Stall, find_limits, find_stalls, limit_time_s

AT_S, WAIT_S = 2.0, 4.0


def cause_of(*pauses: Paused, flags: int = 0) -> str:
    """The cause of a wait of four seconds that begins after two, by pauses and flags."""
    rows = plain(300)
    rows["wait_ms"][100] = WAIT_S * 1e3
    rows["flags"][100] = flags
    (stall,) = find_stalls(restart(rows), events_of(*pauses))
    return stall.cause


def pause(cause: str, took_s: float = 3.8, late_s: float = 0.0) -> Paused:
    """One that ends with the wait, or so much later."""
    return Paused(round((AT_S + WAIT_S + late_s) * 1e9), cause, took_s * 1e3)


@pytest.mark.parametrize("cause", ["swap", "CPU contention"])
def test_a_pause_within_the_wait_names_it(cause: str) -> None:
    assert cause_of(pause(cause)) == cause


@pytest.mark.parametrize(
    ("took_s", "late_s"),
    [
        pytest.param(1.6, 0.0, id="too short"),
        pytest.param(3.8, 8.0, id="later"),
        pytest.param(3.8, -4.5, id="earlier"),
        pytest.param(3.8, 2.4, id="hardly overlaps"),
    ],
)
def test_what_does_not_cover_half_of_it_explains_nothing(took_s: float, late_s: float) -> None:
    assert cause_of(pause("swap", took_s, late_s)) == "unexplained"


@pytest.mark.parametrize("cause", ["callback", "thermal limit"])
def test_what_delays_no_wait_explains_none(cause: str) -> None:
    assert cause_of(pause(cause)) == "unexplained"


def test_the_nearest_cause_comes_first() -> None:
    contention, swap = (pause(cause, 50.0, 10.0) for cause in ("CPU contention", "swap"))

    assert cause_of(contention, swap) == "swap"


SECOND = 10**9
PLACE = "feed.py:41 in read, below map(load)"


def test_a_stall_keeps_the_line_that_it_waited_for() -> None:
    rows = plain(300)
    rows["wait_ms"][100] = WAIT_S * 1e3
    rows = restart(rows)
    step = int(rows["step"][100])
    found = StagesFound(
        0, 0, ["shuffle", "map(load), batch(16)"], ["Shuffle", "MapAndBatch python"]
    )
    line = StallLocated(3 * 10**9, step, "", 2 * 10**9, "feed.py:41 in read", "generator")
    (stall,) = find_stalls(rows, events_of(found, line, pause("CPU contention")))

    assert (stall.place, stall.cause, stall.reason) == (PLACE, "unexplained", PLACE)


def test_the_stage_and_the_line_of_a_stall_are_one_place_and_those_of_another_stall_none() -> None:
    stall = Stall(412, SECOND, 3, 9000.0, longest_ns=SECOND, longest_ms=9000.0)
    stage = StallLocated(3 * SECOND, 413, "map(read)", SECOND)
    line = StallLocated(SECOND, 412, "", SECOND, "feed.py:41 in rows", "generator")
    other = StallLocated(SECOND, 411, "map(read)", SECOND)

    assert stall.named(events_of(line, stage), "").place == "feed.py:41 in rows, below map(read)"
    assert stall.named(events_of(other), "").place == ""


def test_flags_come_before_pauses() -> None:
    assert cause_of(pause("swap"), flags=int(Flag.SWITCH)) == "pipeline switch"


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


@pytest.mark.parametrize(("cause", "seconds"), [("thermal limit", 10.0), ("swap", 0.0)])
def test_how_long_a_limit_held(cause: str, seconds: float) -> None:
    assert limit_time_s([piece(5, 5), piece(30, 5)], cause) == seconds
