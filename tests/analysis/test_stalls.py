from __future__ import annotations

import numpy as np
import pytest

from tests.analysis.steps import plain
from tfwatch.analysis.causes import Pauses
from tfwatch.analysis.stalls import find_stalls
from tfwatch.core.events import Paused
from tfwatch.core.rows import Flag


def test_a_single_long_wait_is_a_stall() -> None:
    rows = plain(200)
    rows["wait_ms"][99] = 20_000

    (stall,) = find_stalls(rows)

    assert (stall.step, stall.steps, stall.lost_ms, stall.cause) == (100, 1, 20_000, "unexplained")
    assert stall.start_ns == rows["start_ns"][99]


def test_steps_that_starve_one_after_another_are_one_stall() -> None:
    rows = plain(200)
    rows["wait_ms"][50:60] = 150

    (stall,) = find_stalls(rows)

    assert (stall.step, stall.steps, stall.lost_ms) == (51, 10, 1500)


def test_below_a_second_nothing_is_a_stall() -> None:
    rows = plain(200)
    rows["wait_ms"][50:56] = 150

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

    assert (stall.step, stall.steps, stall.cause) == (51, 2, "unexplained")


def test_a_pause_names_the_cause() -> None:
    rows = plain(100)
    rows["wait_ms"][50] = 3500
    end_ns = int(rows["start_ns"][50]) + 3 * 10**9

    (swapped,) = find_stalls(rows, Pauses([Paused(end_ns, "swap", 2900.0)]))
    (called,) = find_stalls(rows, Pauses([Paused(end_ns, "callback", 2900.0, "CSVLogger")]))

    assert (swapped.cause, called.cause) == ("swap", "unexplained")


def test_no_steps_have_no_stall() -> None:
    assert find_stalls(np.empty(0, dtype=plain(0).dtype)) == []
