"""The evidence for a forecast."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.judge.forecasts.test_record import made, rows_of
from tests.judge.samples import make_samples
from tests.judge.test_stages import FOUND, row
from tests.runs.folders import make_manifest
from tfwatch.judge.forecasts.evidence import (
    build_evidence,
    last_table,
    stage_tables_by_time,
)


def test_a_table_is_made_of_the_readings_of_ten_seconds_and_of_none_of_a_dropped_stretch() -> None:
    rows = np.concatenate(
        [row(5, 1, 90.0), row(7, 1, 10.0), row(0, 1, 50.0), row(16, 1, 20.0), row(17, 1, 70.0)]
    )

    table = stage_tables_by_time(rows, FOUND)(16 * 10**9)

    assert table
    assert table.stages[1].busy_ms == pytest.approx(15.0)
    assert stage_tables_by_time(rows, FOUND)(4 * 10**9) is None


def test_a_table_ends_with_its_last_reading_so_that_the_end_of_a_run_has_that_of_its_last_step() -> (  # noqa: E501
    None
):
    table_at = stage_tables_by_time(np.concatenate([row(6, 1, 10.0), row(15, 1, 20.0)]), FOUND)

    at_end = table_at(34 * 10**9)
    assert at_end
    assert at_end.stages[1].busy_ms == pytest.approx(15.0)
    assert table_at(36 * 10**9) is None


@pytest.mark.parametrize(
    ("machine", "cores"),
    [
        pytest.param({"cores": 16, "cores_allowed": 3.5}, 4, id="a container's"),
        pytest.param({"cores": 2, "cores_allowed": None}, 2, id="the machine's"),
        pytest.param({}, 1, id="nobody knows"),
    ],
)
def test_cores_are_those_that_the_run_may_use(machine: dict[str, float | None], cores: int) -> None:
    assert replace(made(rows_of([20.0])), run=make_manifest(machine=machine)).cores == cores


def test_a_sample_tells_of_the_half_second_before_it() -> None:
    samples = make_samples([0.4, 0.6, 1.1, 9.0], process_cores=[9.0, 1.0, 2.0, 7.0])

    known = build_evidence(replace(made(rows_of([20.0] * 100)), samples=samples), [], 100, int(3e9))

    assert known.cores_used == pytest.approx(1.5)


def test_the_last_table_of_a_run_without_readings_is_none() -> None:
    assert last_table(made(rows_of([20.0])), row(1, 1, 1.0)[:0], None) is None
