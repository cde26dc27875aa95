"""The facts of canned runs, as `--json` prints them."""

import json
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from tests.judge.step_rows import make_steps, plain, restart
from tests.report.hostile import hostile_run
from tests.report.written_runs import FINISHED, SWITCH, open_written, switched_run
from tests.runs.folders import read_back
from tests.screens import hardware, states
from tests.screens.canned import COMPUTE_BOUND, PREFETCHED, STAGES, STARVING, Canned, usual
from tfwatch.core.events import (
    AutopilotBegan,
    AutopilotEnded,
    EpochEnded,
    Event,
    ExperimentEnded,
    LossDiverged,
    MoveJudged,
    MoveMade,
    RunEnded,
    StallLocated,
    SwitchAsked,
    SwitchFailed,
    TrainingFailed,
)
from tfwatch.core.knobs import KnobChange, NotTimed
from tfwatch.core.rows import Rows
from tfwatch.report import run_facts
from tfwatch.report.run_facts import RUN, as_json, summary
from tfwatch.runs import format as layout
from tfwatch.runs.run import open_run

SCHEMA = Draft202012Validator(run_facts.schema())
NOT_SWITCHED = SwitchFailed(3, "prefetch", "no", "2", "4", 9, "2")
KNOBS = {"knobs": {"prefetch": "off"}, "switchable": ["prefetch"]}


ENDED = ("compute_floor", "each step waits 0.1 of 9.2 ms for data", 169, 23.4, 9.24)
AUTOPILOT: tuple[Event, ...] = (
    AutopilotBegan(0, 1),
    MoveMade(1, 20, (KnobChange("workers", "off", "4"),), forecast_ms=9.1),
    MoveJudged(2, 90, (KnobChange("workers", "off", "4"),), 23.4, 9.24, 60, True),
    AutopilotEnded(6, 170, *ENDED, knobs={"workers": "4"}),
    AutopilotBegan(7, 180),
)
EXPERIMENTS: tuple[Event, ...] = (
    ExperimentEnded(
        *(5, "prefetch", ("off", "4"), 0, 30, "clear", "faster", 8, 160, "4"),
        *(1.68, 1.61, 1.74, {"off": 23.4, "4": 13.9}),
    ),
    ExperimentEnded(
        *(9, "workers", ("off", "auto"), 30, 40, "failed", "unclear", 0, 0, ""),
        reason="no such knob",
    ),
)


def sound(found: dict[str, Any]) -> dict[str, Any]:
    """Return an object that is as the schema says, and as JSON can hold it."""
    SCHEMA.validate(found)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    return found


def with_stages(folder: Path | None) -> Canned:
    run = Canned(folder).started().steps(100, STARVING).staged(*STAGES)
    run.switched("prefetch", "off", "4").steps(100, COMPUTE_BOUND)
    return run.staged(*STAGES, PREFETCHED)


@pytest.mark.parametrize(
    ("make", "shown"),
    [
        pytest.param(usual, "switches", id="trained and switched"),
        pytest.param(with_stages, "pipeline.stages", id="stages"),
        pytest.param(hardware.starving, "machine.gpu_busy", id="a GPU"),
        pytest.param(hardware.unseen, "machine.missing", id="a GPU that no sensor reads"),
        pytest.param(hardware.throttled, "machine.thermal_limit_s", id="heat"),
        pytest.param(hardware.swapping, "machine.swapping_s", id="swapping"),
        pytest.param(states.stalled, "time_breakdown.epochs", id="stalled now"),
        pytest.param(states.starting, "time_breakdown.start", id="starting"),
        pytest.param(states.failed, "failure", id="failed"),
    ],
)
def test_a_run_of_each_kind_is_as_the_schema_says(
    make: Callable[[Path | None], Canned], shown: str, tmp_path: Path
) -> None:
    run = make(tmp_path / "run")
    run.writer.flush()

    assert at(sound(as_json(read_back(run.writer, run.clock))), shown)


@pytest.mark.parametrize(
    ("rows", "events", "shown"),
    [
        pytest.param(plain(0), (), "time_breakdown", id="no step"),
        pytest.param(plain(0), (RunEnded(5, "failed", 0, "no"),), "state", id="failed at once"),
        pytest.param(switched_run(), (*SWITCH, FINISHED), "switches", id="a switch"),
        pytest.param(
            plain(30), (SwitchAsked(0, "prefetch", "off", "4", 2, "key"),), "steps", id="a request"
        ),
        pytest.param(plain(30), (NOT_SWITCHED,), "switches", id="failed"),
        pytest.param(plain(200), AUTOPILOT, "autopilot", id="the autopilot"),
        pytest.param(plain(200), EXPERIMENTS, "experiments", id="A/B tests"),
    ],
)
def test_a_written_run_is_as_the_schema_says(
    rows: Rows, events: tuple[Event, ...], shown: str, tmp_path: Path
) -> None:
    assert at(sound(as_json(open_written(tmp_path / "run", rows, *events))), shown)


def at(document: dict[str, Any], path: str) -> Any:
    value: Any = document
    for name in path.split("."):
        value = value[name]
    return value


def test_hostile_text_is_plain_json(tmp_path: Path) -> None:
    sound(as_json(hostile_run(tmp_path / "run")))


def test_the_figures_of_a_setting_are_of_its_steps(tmp_path: Path) -> None:
    """Starving for 100 steps, then prefetch was turned on for another 100."""
    found = as_json(open_written(tmp_path / "run", switched_run(), *SWITCH, FINISHED, **KNOBS))

    last = found["last_setting"]
    assert last["knobs"] == {"prefetch": "4"}
    assert last["steps"] == 99
    assert last["data_wait_ms"]["mean"] == 0.0


@pytest.mark.parametrize(
    ("copy", "changes"),
    [
        (4.0, {"copied_bytes": {"uint8": 20 * 2**20}}),
        (np.nan, {"copy_not_timed": NotTimed.IN_GRAPH.value}),
    ],
    ids=["timed", "not timed"],
)
def test_a_copy_that_is_timed_is_a_part_of_the_time(
    tmp_path: Path, copy: float, changes: dict[str, Any]
) -> None:
    rows = make_steps(np.zeros(100), compute=12.0, host=1.0, copy=copy)

    found = as_json(open_written(tmp_path / "run", rows, FINISHED, accelerated=True, **changes))

    total = found["time_breakdown"]["total"]
    assert total["copy_s"] == (None if np.isnan(copy) else pytest.approx(0.4))
    assert total["compute_s"] == pytest.approx(1.2 - np.nan_to_num(copy) / 10)


def test_the_json_object_is_complete(tmp_path: Path) -> None:
    run = open_written(
        tmp_path / "run",
        switched_run(),
        *SWITCH,
        FINISHED,
        device="CPU",
        knobs={"prefetch": "off"},
        settings={"arguments": "--eager"},
    )

    found = as_json(run)

    assert list(found) == [fact.key for fact in RUN]
    assert (found["state"], found["epochs"], found["length_s"]) == ("finished", 0, 724.0)
    assert found["path"] == str(tmp_path / "run")
    assert (found["workload"], found["device"], found["steps"]) == ("cnn", "CPU", 200)
    assert (found["knobs"], found["settings"]) == ({"prefetch": "off"}, {"arguments": "--eager"})
    last = found["last_setting"]
    assert last["step_ms"] == pytest.approx({"median": 13, "mean": 13, "p95": 13})
    assert last["data_wait_ms"] == pytest.approx({"median": 0, "mean": 0, "p95": 0})
    assert last["compute_ms"] == pytest.approx({"median": 12, "mean": 12, "p95": 12})
    assert last["host_ms"] == pytest.approx({"median": 1, "mean": 1, "p95": 1})
    assert (last["steps"], last["data_wait_share"]) == (99, 0)


def test_the_final_loss_is_that_of_the_last_epoch(tmp_path: Path) -> None:
    epochs = (EpochEnded(3, 1, 2, {"loss": 0.5}), EpochEnded(4, 2, 3, {"loss": 0.25}))

    found = as_json(open_written(tmp_path / "run", plain(3), *epochs, RunEnded(5, "finished", 3)))

    assert found["final_loss"] == 0.25


@pytest.mark.parametrize("name", [layout.SAMPLES, layout.STAGES, layout.PROGRESSES])
@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_file_is_listed_without_a_warning(tmp_path: Path, name: str, seed: int) -> None:
    run = usual(tmp_path).staged(*STAGES)
    for _ in range(50):
        run.sample(gpu_power_w=20.0).pass_s(0.5)
    run.ended().writer.close()
    rows = np.fromfile(tmp_path / name, layout.TABLES[name])
    figures = [column for column in rows.dtype.names or () if rows.dtype[column].kind == "f"]
    for column in figures:  # their times stand, so that what reads them goes on
        rng = np.random.default_rng(seed)
        rows[column].view(f"u{rows.dtype[column].itemsize}")[:] = rng.integers(
            0x7F80_0000, 2**32, len(rows)
        )
    rows.tofile(tmp_path / name)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        told = as_json(open_run(tmp_path, run.clock))

    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert told["steps"] == 451


def test_damaged_rows_are_left_out(tmp_path: Path) -> None:
    rows = plain(100)
    rows["wait_ms"][50] = np.nan
    rows["compute_ms"][60] = -1

    found = as_json(open_written(tmp_path / "run", rows))

    assert found["last_setting"]["data_wait_share"] == pytest.approx(0.1)
    json.dumps(found, allow_nan=False)


def test_stalls_are_listed(tmp_path: Path) -> None:
    rows = plain(400)
    rows["wait_ms"][350] = 3000
    run = open_written(tmp_path / "run", restart(rows), RunEnded(13 * 10**9, "finished", 400))

    assert as_json(run)["stalls"] == [
        {
            "step": 351,
            "start_s": pytest.approx(7.0),
            "steps": 1,
            "lost_ms": 3000,
            "cause": "unexplained",
            "place": None,
        }
    ]


def test_a_stall_with_a_place_is_not_unexplained(tmp_path: Path) -> None:
    rows = plain(400)
    rows["wait_ms"][350] = 3000
    located = StallLocated(8 * 10**9, 351, "", 0, "feed.py:41 in rows", "generator")
    over = RunEnded(13 * 10**9, "finished", 400)

    (stall,) = as_json(open_written(tmp_path / "run", restart(rows), located, over))["stalls"]

    assert stall["cause"] is None
    assert stall["place"].startswith("feed.py:41 in rows")


def test_what_a_file_holds_in_place_of_a_number_is_null(tmp_path: Path) -> None:
    epoch = EpochEnded(5, 0, 30, {"loss": math.nan})
    run = open_written(tmp_path / "run", plain(30), epoch)

    found = as_json(run)

    assert found["final_loss"] is None
    json.dumps(found, allow_nan=False)


def test_a_finding_has_its_seconds_its_place_and_its_remedy(tmp_path: Path) -> None:
    rows = make_steps(np.full(400, 20.0), compute=10.0, host=1.0)
    over = RunEnded(int(rows["start_ns"][-1]) + 31 * 10**6, "finished", 400)

    first, *others = as_json(open_written(tmp_path / "run", rows, over, **KNOBS))["findings"]

    assert first["kind"] == "input-bound"
    assert 0 < first["lost_s"] <= 8.0
    assert 0.1 < first["share"] <= 20 / 31
    assert first["forecast"]["knob"] == "prefetch"
    assert first["code"].startswith("dataset = dataset.prefetch(")
    assert all((one["lost_s"] or 0) <= first["lost_s"] for one in others)


@pytest.mark.parametrize(
    ("events", "kind"),
    [
        pytest.param((LossDiverged(1, 2, "NaN", 1), FINISHED), "loss-diverged", id="a NaN loss"),
        pytest.param(
            (TrainingFailed(1, 7, "ValueError: no", ""), RunEnded(9, "failed", 7)),
            "failed",
            id="failed",
        ),
    ],
)
def test_an_accident_is_a_finding(events: tuple[Event, ...], kind: str, tmp_path: Path) -> None:
    found = as_json(open_written(tmp_path / "run", plain(60), *events))["findings"]

    assert [one["lost_s"] for one in found if one["kind"] == kind] == [None]


def test_the_summary_is_flat_and_has_the_figures_of_the_json(tmp_path: Path) -> None:
    Canned(tmp_path / "run").started().steps(100, STARVING).ended().writer.close()
    whole, flat = as_json(open_run(tmp_path / "run")), summary(tmp_path / "run")

    assert {type(value) for value in flat.values()} <= {int, float}
    assert flat["tfwatch/step_time_ms"] == whole["last_setting"]["step_ms"]["mean"]
    assert flat["tfwatch/data_wait_s"] == whole["data_wait_cost"]["data_wait_s"]
    lost = {f"tfwatch/lost_s/{one['kind']}": one["lost_s"] for one in whole["findings"]}
    assert {name: flat[name] for name in flat if "/lost_s/" in name} == {
        name: seconds for name, seconds in lost.items() if seconds
    }
    assert any("/lost_s/" in name for name in flat)


def test_a_run_that_is_not_there_has_no_summary_and_ends_no_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert summary(None) == summary(tmp_path) == {}
    assert capsys.readouterr().err.count("tfwatch: there is no summary of this run: ") == 1
