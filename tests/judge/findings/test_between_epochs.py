from __future__ import annotations

import pytest

from tfwatch.core.events import Paused
from tfwatch.judge.findings.between_epochs import find_slow_callback, parts_between
from tfwatch.judge.steps.time_breakdown import TimeSpent


def pauses(name: str, took_ms: float, times: int, cause: str = "callback") -> list[Paused]:
    return [Paused(at, cause, took_ms, name) for at in range(times)]


@pytest.mark.parametrize(
    ("found", "name"),
    [
        pytest.param(pauses("CSVLogger", 19.0, 3), "CSVLogger", id="most"),
        pytest.param(
            pauses("ModelCheckpoint", 19.0, 3, "checkpoint"), "ModelCheckpoint", id="a checkpoint"
        ),
        pytest.param(pauses("CSVLogger", 9.0, 3), "", id="less than half"),
        pytest.param(pauses("CSVLogger", 19.0, 2), "", id="twice"),
        pytest.param(pauses("generation 2", 19.0, 9, "garbage collection"), "", id="no callback"),
        pytest.param(
            [*pauses("CSVLogger", 12.0, 9), *pauses("Slower", 15.0, 3)],
            "Slower",
            id="the slower one",
        ),
        pytest.param([], "", id="nothing"),
    ],
)
def test_a_callback_is_named_where_it_takes_half_of_what_follows_a_step(
    found: list[Paused], name: str
) -> None:
    assert find_slow_callback(found, host_ms=20.0) == name


def test_parts_below_a_tenth_of_the_time_between_epochs_are_left_out() -> None:
    spent = TimeSpent(0, 250, validation_s=0.13, first_batch_s=0.8, epoch_end_s=0.07)

    assert parts_between(spent) == {"first batch": 0.8, "validation": 0.13}
