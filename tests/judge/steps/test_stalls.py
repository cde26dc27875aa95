from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.judge.step_rows import events_of, make_steps, plain, restart
from tfwatch.core.events import Event, Paused
from tfwatch.core.rows import Flag, Rows
from tfwatch.judge.steps import stalls
from tfwatch.judge.steps.stalls import Stall, StallSearch


def find_stalls(rows: Rows, *events: Event) -> list[Stall]:
    """Find the stalls of these rows."""
    return stalls.find_stalls(rows, events_of(*events))


def test_a_single_long_wait_is_a_stall() -> None:
    rows = plain(200)
    rows["wait_ms"][99] = 20_000

    (stall,) = find_stalls(rows)

    assert (stall.step, stall.steps, stall.lost_ms, stall.cause) == (100, 1, 20_000, "unexplained")
    assert stall.start_ns == rows["start_ns"][99]


def test_where_steps_are_short_a_wait_of_thirty_milliseconds_more_belongs_to_a_stall() -> None:
    rows = make_steps(np.full(200, 1.0), compute=4.0, host=0.0)
    rows["wait_ms"][120:150] = 40
    (stall,) = find_stalls(restart(rows))
    rows["wait_ms"][120:170] = 25

    assert (stall.step, stall.steps, stall.lost_ms) == (121, 30, 1200)
    assert find_stalls(restart(rows)) == []


def test_below_half_a_second_nothing_is_a_stall() -> None:
    rows = plain(200)
    rows["wait_ms"][150:153] = 150

    assert find_stalls(rows) == []


def test_a_run_that_always_waits_has_no_stall() -> None:
    assert find_stalls(plain(500, share=0.9)) == []


def test_slow_storage_hides_no_stall() -> None:
    rows = plain(100)
    rows["wait_ms"] = 5000
    rows["wait_ms"][50] = 6500

    assert [stall.step for stall in find_stalls(rows)] == [51]


@pytest.mark.parametrize("at", [0, 50, 99])
def test_flags_name_the_cause(at: int) -> None:
    rows = plain(100)
    rows["wait_ms"][at] = 3500
    rows["flags"][at] = Flag.EPOCH_START

    (stall,) = find_stalls(rows)

    assert (stall.step, stall.cause) == (at + 1, "epoch start")


def test_a_switch_that_was_asked_for_in_a_stall_did_not_cause_it() -> None:
    rows = plain(100)
    rows["wait_ms"][50:52] = 8900, 200
    rows["flags"][51] = Flag.SWITCH

    (stall,) = find_stalls(rows)

    assert (stall.step, stall.steps, stall.cause) == (51, 1, "unexplained")


def test_before_the_usual_wait_is_known_only_a_second_is_a_stall() -> None:
    rows = plain(200)
    rows["wait_ms"][20:40] = 150
    rows["wait_ms"][3] = 1500

    assert [stall.step for stall in find_stalls(rows)] == [4]


def test_a_buffer_that_was_full_at_first_makes_no_stall_of_the_rest() -> None:
    rows = plain(2000)
    rows["wait_ms"][10:] = 150

    assert find_stalls(rows) == []


def test_a_longer_wait_is_a_stall_until_it_is_usual() -> None:
    rows = plain(3000)
    rows["wait_ms"][1000:] = 150

    (stall,) = find_stalls(rows)

    assert stall.step == 1001
    assert 128 <= stall.steps <= 192


def test_a_slower_setting_after_a_switch_is_no_stall() -> None:
    rows = plain(600)
    rows["wait_ms"][300:] = 150
    rows["flags"][300] = Flag.SWITCH

    assert find_stalls(rows) == []


def irregular(seed: int) -> Rows:
    """Steps with waits of all lengths, alone and in a row, and with switches."""
    rng = np.random.default_rng(seed)
    rows = plain(int(rng.integers(1, 1500)), rng.uniform(0, 0.5))
    rows["wait_ms"] *= rng.uniform(0.5, 1.5, len(rows))
    for at in rng.integers(0, len(rows), 6):
        rows["wait_ms"][at : at + int(rng.integers(1, 60))] += rng.choice([40, 100, 300, 1500])
    rows["flags"][rng.integers(0, len(rows), 3)] = Flag.SWITCH
    return restart(rows)


@pytest.mark.parametrize("seed", range(40))
def test_what_is_found_does_not_depend_on_how_the_rows_come(seed: int) -> None:
    rows, rng = irregular(seed), np.random.default_rng(seed)
    search, at = StallSearch(), 0

    while at < len(rows):
        some = int(rng.choice([1, 3, 18, 200, 700]))
        search.take(rows[at : at + some])
        at += some
        found = [replace(stall, lost_ms=0.0) for stall in search.found(events_of())]
        assert found == [replace(stall, lost_ms=0.0) for stall in find_stalls(rows[:at])]

    assert sum(stall.lost_ms for stall in search.found(events_of())) == pytest.approx(
        sum(stall.lost_ms for stall in find_stalls(rows))
    )


def test_a_process_that_was_stopped_did_not_starve() -> None:
    rows = plain(100)
    rows["wait_ms"][50] = 20_000
    rows = restart(rows)
    stop = Paused(int(rows["start_ns"][51]), "process stopped", 19_990.0, "in data wait")

    assert find_stalls(rows, stop) == []
