"""The selftest's cases over trainings that are made up: right figures pass, wrong ones fail."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

import pytest

from tests.analysis.steps import plain
from tfwatch.commands import selftest
from tfwatch.commands.selftest import Case

if TYPE_CHECKING:
    from tfwatch.training.injected import Found, Trained


def trained(*found: Found, wall_error: float = 0.0) -> Trained:
    from tfwatch.training.injected import Trained

    return Trained(list(found), wall_error, plain(50), [], None)


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("part", "injected_ms", "measured_ms", "passes"),
    [
        ("wait", 10.0, 10.29, True),
        ("wait", 10.0, 10.31, False),
        ("wait", 10.0, 9.69, False),
        ("wait", 40.0, 40.79, True),
        ("wait", 40.0, 40.81, False),
        ("compute", 5.0, 5.9, True),
        ("compute", 5.0, 6.1, False),
    ],
)
def test_a_part_passes_within_its_tolerance(part: str, injected_ms: float, measured_ms: float, passes: bool) -> None:
    from tfwatch.training.injected import Found, Schedule

    cases = list(selftest._parts(Schedule(1, 1), trained(Found(part, injected_ms, measured_ms))))
    assert [case.passed for case in cases] == [passes, True]


@pytest.mark.tensorflow
def test_parts_that_do_not_fill_the_time_fail() -> None:
    from tfwatch.training.injected import Schedule

    (case,) = selftest._parts(Schedule(1, 1), trained(wall_error=0.002))
    assert not case.passed


def test_the_table_says_which_case_fails() -> None:
    out = StringIO()
    selftest._print(out, [Case("wait [b]", "1", "1", "0", True), Case("host", "1", "2", "1", False)], as_json=False)
    lines = out.getvalue().splitlines()
    assert "wait [b]" in lines[1]
    assert lines[1].split()[-1] == "pass"
    assert lines[2].split()[-1] == "FAIL"
    assert lines[-1] == "1 of 2 cases pass"


@pytest.mark.tensorflow
def test_a_known_delay_is_measured(tmp_path: object) -> None:
    from pathlib import Path

    from tfwatch.training.injected import Schedule, train

    run = train(Schedule(20.0, 2.0, 5.0, steps=24, spikes=1, prefetch=2), Path(str(tmp_path)), seed=1)
    assert len(run.rows) == 24
    assert run.switched is not None
    assert len(run.spikes) == 1
    assert {found.part for found in run.found} == {"wait", "compute", "host"}
    assert run.wall_error < 0.001
