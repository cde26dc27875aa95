"""Rows of a damaged file."""

import warnings

import numpy as np
import pytest

from tfwatch.core.rows import PROGRESS, SAMPLE, STEP, clean_rows, plausible_rows

#: Signalling NaNs of four and eight bytes: arithmetic on them warns.
SIGNALLING_4, SIGNALLING_8 = 0x7FA0_0001, 0xFFF4_0000_0000_0001
DAY_NS = 86_400 * 10**9


def test_plausible_steps_are_not_copied() -> None:
    rows = np.zeros(5, STEP)
    rows["step"] = 1

    assert plausible_rows(rows) is rows
    rows["step"][2] = 0
    assert len(plausible_rows(rows)) == 4


@pytest.mark.parametrize("late", [True, False])
def test_an_implausible_figure_is_missing(late: bool) -> None:
    rows = np.zeros(6, SAMPLE)
    rows["cpu_cores"] = [1.5, np.inf, -np.inf, 1e30, np.nan, 0]
    rows["cpu_cores"].view(np.uint32)[5] = SIGNALLING_4
    rows["process_bytes"].view(np.uint64)[3] = SIGNALLING_8
    if late:
        rows = np.append(rows, rows[-1:])
        rows["at_ns"][-1] = 101 * DAY_NS
    before = rows.tobytes()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = clean_rows(rows)
        sums = (
            np.nansum(found["cpu_cores"].astype(np.float64)),
            np.nansum(found["process_bytes"] * 2),
        )

    assert sums == (1.5, 0)
    assert rows.tobytes() == before
    assert np.isnan(found["cpu_cores"]).tolist() == [False, True, True, True, True, True]
    assert np.isnan(found["process_bytes"]).tolist() == [False, False, False, True, False, False]


def test_a_models_own_figures_have_no_limit() -> None:
    rows = np.zeros(3, PROGRESS)
    rows["loss"] = [np.inf, 1e38, 0]
    rows["loss"].view(np.uint32)[2] = SIGNALLING_4

    np.testing.assert_equal(clean_rows(rows)["loss"], np.array([np.inf, 1e38, np.nan], np.float32))
