from __future__ import annotations

import numpy as np
import pytest

from tests.judge.step_rows import make_steps, restart
from tfwatch.core.rows import Flag, Rows
from tfwatch.runs.sums import BUCKET_S, TimeColumns, TimeSums

PARTS = ("wait_ms", "compute_ms", "host_ms")


def built(rows: Rows, chunk: int = 10**9) -> TimeSums:
    sums = TimeSums()
    for first in range(0, len(rows), chunk):
        sums.add(rows[first : first + chunk])
    return sums


def mixed(count: int, seed: int = 0) -> Rows:
    chance = np.random.default_rng(seed)
    rows = make_steps(
        chance.gamma(1.0, 20.0, count),
        chance.gamma(2.0, 10.0, count),
        chance.gamma(1.0, 5.0, count),
    )
    slow = chance.choice(count, count // 40, replace=False)
    rows["wait_ms"][slow] = chance.gamma(1.0, 2000.0, len(slow))
    rows["flags"][slow] = chance.choice([0, Flag.EPOCH_START, Flag.SWITCH], len(slow))
    return restart(rows)


def loop_over_columns(rows: Rows, end_s: float, width_s: float, count: int) -> list[list[float]]:
    """Return each column's steps, parts, share and flags, computed row by row."""
    first = int(end_s / width_s) - count + 1
    found = []
    for column in range(first, first + count):
        low, high = column * width_s, (column + 1) * width_s
        start = rows["start_ns"] / 1e9
        inside = rows[(start >= low) & (start < high)]
        if len(inside):
            means = [float(inside[name].mean(dtype=np.float64)) for name in PARTS]
        else:
            total_s = (rows["wait_ms"] + rows["compute_ms"] + rows["host_ms"]) / 1e3
            lasting = rows[(start < high) & (start + total_s > low) & (total_s > 0.25)]
            means = [float(lasting[name][-1]) for name in PARTS] if len(lasting) else [np.nan] * 3
        whole = sum(means)
        share = means[0] / whole if whole > 0 else np.nan
        found.append(
            [len(inside), *means, share, int(np.bitwise_or.reduce(inside["flags"], initial=0))]
        )
    return found


def as_rows(columns: TimeColumns) -> list[list[float]]:
    parts = (
        columns.steps,
        *(getattr(columns, name) for name in PARTS),
        columns.wait_ms / columns.total_ms,
        columns.flags,
    )
    found: list[list[float]] = np.array(parts, dtype=np.float64).T.tolist()
    return found


@pytest.fixture(scope="module")
def all_sums() -> list[TimeSums]:
    """Sums that were built step by step, in chunks, and at once."""
    return [built(mixed(3000), chunk) for chunk in (1, 97, 10**9)]


@pytest.mark.parametrize(
    ("width_s", "count"),
    [(0.25, 120), (0.5, 60), (1.0, 400), (4.0, 120), (60.0, 30), (300.0, 4), (1024.0, 2)],
)
def test_columns_are_means_over_their_steps(
    all_sums: list[TimeSums], width_s: float, count: int
) -> None:
    rows, run_s = mixed(3000), all_sums[0].end_s
    for end_s in (run_s, run_s / 2, 0.0, run_s + 5):
        expected = loop_over_columns(rows, end_s, width_s, count)
        for sums in all_sums:
            columns = sums.columns(end_s, width_s, count)
            np.testing.assert_allclose(as_rows(columns), expected, rtol=1e-6)
            assert columns.start_s[-1] <= end_s < columns.start_s[-1] + width_s


def test_the_copy_of_a_column_is_the_mean_of_its_steps_and_missing_where_none_is_timed() -> None:
    copies = np.repeat([np.nan, 4.0, 0.0, 4.0], 10)
    copies[15:20] = np.nan
    rows = make_steps(np.zeros(40), compute=25.0, host=0.0, copy=copies)

    found = built(rows, 7).columns(0.99, 0.25, 4).copy_ms
    np.testing.assert_allclose(found, [np.nan, 2.0, np.nan, 4.0])
    np.testing.assert_allclose(built(rows).columns(0.99, 1.0, 1).copy_ms, [1.5])


def test_a_long_step_covers_all_its_columns() -> None:
    rows = make_steps([10.0, 2000.0, 10.0], compute=90.0, host=0.0)

    columns = built(rows).columns(2.25, 0.25, 10)

    assert columns.steps.tolist() == [2, 0, 0, 0, 0, 0, 0, 0, 1, 0]
    assert columns.wait_ms[1:8].tolist() == [2000] * 7
    assert (columns.wait_ms / columns.total_ms)[1:8] == pytest.approx(2000 / 2090)
    assert np.isnan(columns.wait_ms[9])


@pytest.mark.parametrize("width_s", [0.3, 1.7, 9.1, 130.0])
def test_columns_of_an_uneven_width_hold_each_step_once(width_s: float) -> None:
    sums = built(mixed(3000))

    columns = sums.columns(sums.end_s, width_s, int(sums.end_s / width_s) + 1)

    assert columns.steps.sum() == 3000
    assert np.diff(columns.start_s) == pytest.approx(width_s, abs=BUCKET_S)
    assert columns.end_s >= sums.end_s - BUCKET_S
