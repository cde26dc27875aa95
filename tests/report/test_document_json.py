"""The JSON object of runs of each kind: every key is there, and every figure is one that JSON can
hold."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.judge.step_rows import plain, restart
from tests.report.written_runs import FINISHED, SWITCH, open_written, switched_run
from tests.runs.folders import read_back
from tests.screens import hardware, states
from tests.screens.canned import COMPUTE_BOUND, PREFETCHED, STAGES, STARVING, Canned, usual
from tfwatch.core.events import (
    AutopilotBegan,
    AutopilotEnded,
    ExperimentEnded,
    LossDiverged,
    LossRecovered,
    MoveJudged,
    MoveMade,
    PipelineSwitched,
    SwitchAsked,
    SwitchFailed,
    SwitchMissed,
)
from tfwatch.core.knobs import KnobChange
from tfwatch.report.document import as_json

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tfwatch.core.events import Event
    from tfwatch.core.rows import Rows

FLIGHT: tuple[Event, ...] = (
    AutopilotBegan(0, 1, 2e9),
    MoveMade(1, 20, "workers", "off", "4", "storage is slow", forecast_ms=9.1),
    MoveJudged(
        2,
        90,
        "workers",
        "off",
        "4",
        23.4,
        9.24,
        60,
        True,
        beside=(KnobChange("prefetch", "off", "4"),),
    ),
    MoveMade(3, 90, "prefetch", "off", "4", "it overlaps"),
    MoveJudged(4, 160, "prefetch", "off", "4", 9.24, None, 0, False, "the run ended"),
    AutopilotEnded(
        6,
        170,
        "compute_floor",
        "each step waits 0.1 of 9.2 ms for data",
        169,
        23.4,
        9.24,
        knobs={"workers": "4"},
    ),
    AutopilotBegan(7, 180, 2e9),
)
EXPERIMENTS: tuple[Event, ...] = (
    ExperimentEnded(
        *(5, "prefetch", ["off", "4"], 0, 30, "clear", "faster", "4", "off", 8, 160, 170, "4"),
        *(1.68, 1.61, 1.74, {"off": 23.4, "4": 13.9}),
    ),
    ExperimentEnded(
        *(9, "workers", ["off", "auto"], 30, 40, "failed", "unclear", "auto", "off", 0, 0, 9, ""),
        reason="no such knob",
    ),
)


def _rows_with_stalls() -> Rows:
    rows = plain(400)
    rows["wait_ms"][20::20] += 60
    rows["wait_ms"][350] = 3000
    return restart(rows)


def _trained(folder: Path | None) -> Canned:
    return usual(folder).ended()


def _with_stages(folder: Path | None) -> Canned:
    run = Canned(folder).started().steps(100, STARVING).staged(*STAGES)
    run.switched("prefetch", "off", "4").steps(100, COMPUTE_BOUND)
    return run.staged(*STAGES, PREFETCHED)


CANNED = [
    pytest.param(_trained, "switches", id="trained and switched"),
    pytest.param(_with_stages, "pipeline.stages", id="stages"),
    pytest.param(hardware.starving, "machine.gpu_busy", id="a GPU"),
    pytest.param(hardware.unseen, "machine.missing", id="a GPU that no sensor reads"),
    pytest.param(hardware.throttled, "machine.thermal_limit_s", id="heat"),
    pytest.param(hardware.swapping, "machine.swapping_s", id="swapping"),
    pytest.param(states.stalled, "time_breakdown.epochs", id="stalled now"),
    pytest.param(states.starting, "time_breakdown.start", id="starting"),
    pytest.param(states.slow_callback, "finding", id="a slow callback"),
    pytest.param(states.failed, "steps", id="failed"),
    pytest.param(states.validating, "steps", id="validating"),
]
WRITTEN = [
    pytest.param(plain(0), (), "time_breakdown", id="no step"),
    pytest.param(switched_run(), (*SWITCH, FINISHED), "forecasts.switches", id="a forecast"),
    pytest.param(
        plain(30), (SwitchAsked(0, "prefetch", "off", "4", 2, "key"),), "steps", id="a request"
    ),
    pytest.param(
        plain(30),
        (SwitchFailed(3, "prefetch", "no", "2", "4", 9, "2"), FINISHED),
        "switches",
        id="failed",
    ),
    pytest.param(
        plain(30),
        (SwitchMissed(3, "prefetch", "off", "4", 100), FINISHED),
        "switches",
        id="too short",
    ),
    pytest.param(
        plain(52),
        (PipelineSwitched(0, "cache", "off", "on", 49, 50, 1.0, "key"),),
        "switches",
        id="few steps",
    ),
    pytest.param(_rows_with_stalls(), (FINISHED,), "stalls", id="stalls"),
    pytest.param(switched_run(), (FINISHED,), "spikes", id="spikes"),
    pytest.param(plain(200), FLIGHT, "autopilot", id="the autopilot"),
    pytest.param(plain(200), EXPERIMENTS, "experiments", id="A/B tests"),
    pytest.param(
        plain(9),
        (LossDiverged(1, 2, "NaN", 1), LossRecovered(2, 3)),
        "loss_diverged",
        id="a loss that is NaN",
    ),
]


@pytest.mark.parametrize(("make", "shown"), CANNED)
def test_a_run_of_the_screens_tests_is_plain_json(
    make: Callable[[Path | None], Canned], shown: str, tmp_path: Path
) -> None:
    run = make(tmp_path / "run")
    run.writer.flush()

    found = as_json(read_back(run.writer, run.clock))

    assert json.loads(json.dumps(found, allow_nan=False)).keys() == found.keys()
    assert _at(found, shown)


@pytest.mark.parametrize(("rows", "events", "shown"), WRITTEN)
def test_a_written_run_is_plain_json(
    rows: Rows, events: tuple[Event, ...], shown: str, tmp_path: Path
) -> None:
    found = as_json(open_written(tmp_path / "run", rows, *events))

    assert json.loads(json.dumps(found, allow_nan=False)).keys() == found.keys()
    assert _at(found, shown) or not len(rows)


def _at(document: dict[str, Any], path: str) -> Any:
    value: Any = document
    for name in path.split("."):
        value = value[name]
    return value
