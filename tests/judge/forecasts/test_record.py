"""Forecasts against what came, over a run whose steps follow the formulas."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from msgspec.structs import replace

from tests.judge.effects.test_comparison import asked, switched
from tests.judge.samples import make_samples
from tests.judge.step_rows import restart
from tests.runs.folders import make_manifest
from tfwatch.core.events import PipelineSwitched
from tfwatch.core.rows import STEP, Flag, Rows
from tfwatch.judge.effects.comparison import compare
from tfwatch.judge.forecasts.evidence import EvidenceTables, build_evidence
from tfwatch.judge.forecasts.forecast import checked_forecasts, evidence_before

if TYPE_CHECKING:
    from tfwatch.core.events import Event


#: 100 steps of 20 ms data and 10 ms compute, 100 behind a prefetch that hides 10 of it, and 100
#: without again.
WAITS = [20.0] * 100 + [10.0] * 100 + [20.0] * 100
EVENTS: list[Event] = [asked(98), switched(101, 98), asked(199, "off"), switched(201, 199, "off")]


def rows_of(waits: list[float]) -> Rows:
    rows = np.zeros(len(waits), dtype=STEP)
    rows["step"] = np.arange(1, len(waits) + 1)
    rows["wait_ms"], rows["compute_ms"], rows["copy_ms"] = waits, 10.0, np.nan
    rows["flags"][::100] = Flag.SWITCH
    return restart(rows)


def made(rows: Rows, events: list[Event] = EVENTS) -> EvidenceTables:
    samples = make_samples(
        np.arange(0.5, 9.0, 0.5), process_cores=1.5, cpu_cores=2.0, memory_available_bytes=8e9
    )
    switches = [
        event for event in events if isinstance(event, PipelineSwitched) and event.step <= len(rows)
    ]
    return EvidenceTables(
        make_manifest(
            knobs={"prefetch": "off", "workers": "off"},
            switchable=["prefetch", "workers"],
            accelerated=True,
            batch_size=32,
            batch_bytes=1000,
            machine={"cores": 16, "cores_allowed": 3.5},
        ),
        lambda first, last: rows[max(first, 1) - 1 : last],
        samples,
        lambda at_ns: None,
        switches,
    )


def test_each_settled_switch_is_held_against_its_forecast() -> None:
    rows = rows_of(WAITS)
    first, second = checked_forecasts(
        made(rows), compare(EVENTS, len(rows), made(rows).rows_between)
    )

    assert (first.measured_ms, second.measured_ms) == (20.0, 30.0)
    assert first.forecast.step_ms == pytest.approx(20.0, rel=0.03)
    assert not first.forecast.measured
    assert second.forecast.measured
    assert second.forecast.step_ms == pytest.approx(30.0)
    assert first.inside
    assert second.inside


def test_only_what_was_known_before_counts() -> None:
    rows = rows_of(WAITS)
    comparisons = compare(EVENTS, len(rows), made(rows).rows_between)

    known = evidence_before(made(rows), comparisons, 1)

    assert known.comparisons == tuple(comparisons[:1])
    assert known.knobs == {"prefetch": "4", "workers": "off"}
    assert known.rows["step"][0] == 102
    assert known.rows["step"][-1] == 199


def test_a_forecast_that_is_wrong_is_told_as_that() -> None:
    rows = rows_of([20.0] * 100 + [35.0] * 100)
    (one,) = checked_forecasts(made(rows), compare(EVENTS[:2], 200, made(rows).rows_between))

    assert one.off == pytest.approx(20 / 45 - 1, abs=0.01)
    assert not one.inside


def test_what_has_not_settled_and_what_was_turned_together_is_left_out() -> None:
    rows = rows_of(WAITS)
    together: list[Event] = [
        asked(98),
        asked(98, "auto", "workers"),
        switched(101, 98),
        switched(101, 98, "auto", "workers"),
    ]

    switched_together = compare(together, 200, made(rows).rows_between)
    assert checked_forecasts(made(rows, together), switched_together) == ()
    early = made(rows[:150])
    assert checked_forecasts(early, compare(EVENTS[:2], 150, early.rows_between)) == ()


def test_cores_are_those_of_the_samples_of_the_setting_and_those_that_a_container_leaves() -> None:
    rows = rows_of(WAITS)
    known = build_evidence(made(rows), [], 98, int(3.0e9))

    assert known.cores == 4
    assert known.cores_used == pytest.approx(1.5)
    assert known.cores_free == pytest.approx(2.0)
    assert known.memory_free == 8e9
    assert known.run.batch_size == 32


def test_switches_that_are_not_compared_count_too() -> None:
    """An experiment's: it left prefetch at 8."""
    rows = rows_of(WAITS)
    experiment = [*EVENTS[:2], replace(switched(201, 199, "8"), old="4", by="experiment")]
    comparisons = compare(experiment, 300, made(rows).rows_between)

    known = build_evidence(made(rows, experiment), comparisons, 300, int(9e9))

    assert known.knobs["prefetch"] == "8"
    assert known.rows["step"][0] == 202
    assert [interval.knobs["prefetch"] for interval in known.history] == ["off", "4"]
