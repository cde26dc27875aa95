"""The parts of each step, from clock readings inside the graph."""

from itertools import count

import numpy as np
import pytest

from tfwatch.watch.fit.stepping.fused_steps import clock_offset_ns, clock_was_set, split_steps

MS = 1_000_000


def run(*readings_ms: float) -> np.ndarray:
    return np.array(readings_ms, dtype=np.float64).reshape(-1, 2) * MS


def test_a_wait_is_the_part_of_the_fetch_after_the_previous_step() -> None:
    # Called at 100, begun at 103, first batch at 113; done at 133, the next batch was there with
    # it; done at 153, the next batch came at 160; done at 180. The metrics are there at 182.
    parts = split_steps(100 * MS, 182 * MS, [run(103, 113, 133, 133, 153, 160, 180, 180)])
    assert parts.wait_ms.tolist() == [10, 0, 7]
    assert parts.compute_ms.tolist() == [23, 20, 22]
    assert parts.call_ms == 3
    assert parts.start_ns.tolist() == [100 * MS, 133 * MS, 153 * MS]
    assert (parts.wait_ms + parts.compute_ms).sum() == 82


def test_a_call_in_two_runs_waits_from_the_last_step_of_the_first_to_the_batch_of_the_second() -> (
    None
):
    first, none, second = run(0, 5, 10, 12), run(13, 14), run(20, 30, 40, 40)
    parts = split_steps(0, 41 * MS, [first, none, second])
    assert parts.wait_ms.tolist() == [5, 20]
    assert parts.compute_ms.tolist() == [5, 11]


def test_readings_outside_the_call_or_out_of_order_give_no_negative_part() -> None:
    rng = np.random.default_rng(0)
    for _ in range(100):
        readings = rng.normal(50, 40, size=(rng.integers(2, 6), 2)) * MS
        parts = split_steps(20 * MS, 90 * MS, [readings])
        assert (parts.wait_ms >= 0).all()
        assert (parts.compute_ms >= 0).all()
        assert (parts.wait_ms + parts.compute_ms).sum() == pytest.approx(70)
        assert (np.diff(parts.start_ns) >= 0).all()


def test_the_closest_pair_of_readings_of_two_clocks_counts() -> None:
    nows = iter([0, 900_000, 1_000_000, 1_010_000])
    assert clock_offset_ns(nows.__next__, lambda: 0) == 1_005_000


def test_readings_that_are_never_close_are_repeated_a_few_times() -> None:
    nows = count(0, 50_000)
    assert clock_offset_ns(nows.__next__, lambda: 0) == 25_000
    assert next(nows) == 10 * 50_000


@pytest.mark.parametrize(
    ("moved_ms", "passed_ms", "expected"),
    [
        (0.9, 10, False),
        (-1.1, 10, True),
        (5, 10_000, False),
        (-11, 10_000, True),
        (3.6e6, 10, True),
    ],
)
def test_a_synchronized_clock_is_distinguished_from_one_that_was_set(
    moved_ms: float, passed_ms: float, expected: bool
) -> None:
    assert clock_was_set(int(moved_ms * MS), int(passed_ms * MS)) is expected
