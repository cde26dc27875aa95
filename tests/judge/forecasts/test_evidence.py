"""The evidence for a forecast."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from tests.judge.effects.test_comparison import switched
from tests.judge.samples import make_samples
from tests.judge.step_rows import events_of, make_steps
from tests.judge.test_stages import FOUND, row
from tests.runs.folders import make_manifest
from tfwatch.core.events import Event
from tfwatch.core.rows import Flag, Rows
from tfwatch.judge.effects.comparison import compare
from tfwatch.judge.forecasts.evidence import build_evidence, cores_of, stage_table_at


def run_of(stages: Rows | None = None, *events: Event) -> Any:
    """300 steps with three settings of 100 each, samples twice a second, and these stages."""
    rows = make_steps(np.repeat([20.0, 10.0, 20.0], 100))
    rows["flags"][::100] = Flag.SWITCH
    return SimpleNamespace(
        manifest=make_manifest(
            knobs={"prefetch": "off", "workers": "off"}, machine={"cores": 16, "cores_allowed": 3.5}
        ),
        events=events_of(*events),
        stages_found=FOUND,
        stages=row(0, 1, 1.0)[:0] if stages is None else stages,
        samples=make_samples(
            [0.4, 0.6, 1.1, 9.0],
            process_cores=[9.0, 1.0, 2.0, 7.0],
            cpu_cores=2.0,
            memory_available_bytes=8e9,
        ),
        steps_between=lambda first, last: rows[max(first, 1) - 1 : last],
    )


def test_a_table_is_made_of_the_readings_of_ten_seconds_and_of_none_of_a_dropped_stretch() -> None:
    read = ((5, 90.0), (7, 10.0), (0, 50.0), (16, 20.0), (17, 70.0))
    run = run_of(np.concatenate([row(at_s, 1, busy_ms) for at_s, busy_ms in read]))

    table = stage_table_at(run, 16 * 10**9)

    assert table
    assert table.stages[1].busy_ms == pytest.approx(15.0)
    assert stage_table_at(run, 4 * 10**9) is None


@pytest.mark.parametrize(
    ("machine", "cores"),
    [
        pytest.param({"cores": 16, "cores_allowed": 3.5}, 4, id="a container's"),
        pytest.param({"cores": 2, "cores_allowed": None}, 2, id="the machine's"),
        pytest.param({}, 1, id="nobody knows"),
    ],
)
def test_cores_are_those_that_the_run_may_use(machine: dict[str, float | None], cores: int) -> None:
    assert cores_of(make_manifest(machine=machine)) == cores


def test_figures_of_the_machine_are_those_of_the_setting() -> None:
    known = build_evidence(run_of(), [], None, 100, int(3e9))

    # A sample covers the half second before it: the first one began before the steps.
    assert known.cores_used == pytest.approx(1.5)
    assert known.cores_free == pytest.approx(2.0)
    assert known.memory_free == 8e9


def test_switches_that_are_not_compared_count_too() -> None:
    """An A/B test's: it left prefetch at 8."""
    events = switched(101, 98), replace(switched(201, 199, "8"), old="4", by="experiment")
    run = run_of(None, *events)
    comparisons = compare(events, 300, run.steps_between)

    known = build_evidence(run, comparisons, None, 300, int(9e9))

    assert known.knobs["prefetch"] == "8"
    assert known.rows["step"][0] == 202
    assert [knobs["prefetch"] for knobs, _ in known.history] == ["off", "4"]
