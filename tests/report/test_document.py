"""The JSON object of canned runs."""

from __future__ import annotations

import json
import math
import warnings
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.judge.step_rows import make_steps, plain, restart
from tests.report.written_runs import FINISHED, SWITCH, open_written, switched_run, text_of
from tests.screens.canned import STAGES, usual
from tfwatch.core.events import (
    EpochEnded,
    Event,
    LossDiverged,
    LossRecovered,
    Paused,
    RunEnded,
    SwitchAsked,
)
from tfwatch.report import document
from tfwatch.runs import format as layout
from tfwatch.runs.run import open_run

if TYPE_CHECKING:
    from pathlib import Path

    from tfwatch.core.rows import Rows


def test_the_json_object_is_complete(tmp_path: Path) -> None:
    run = open_written(
        tmp_path / "run",
        switched_run(),
        *SWITCH,
        FINISHED,
        device="CPU",
        knobs={"prefetch": "off"},
        settings={"mode": "graph"},
    )

    found = document.as_json(run)

    assert list(found) == [
        "run",
        "path",
        "workload",
        "device",
        "replicas",
        "knobs",
        "settings",
        "steps",
        "split",
        "verdict",
        "bound",
        "copy",
        "finding",
        "findings",
        "last_setting",
        "whole_run",
        "final_loss",
        "loss_diverged",
        "spikes",
        "stalls",
        "switches",
        "autopilot",
        "experiments",
        "forecasts",
        "data_wait_cost",
        "time_breakdown",
        "pipeline",
        "keras_step_ms",
        "energy_j",
        "energy_per_step_j",
        "energy_data_wait_j",
        "energy_missing",
        "machine",
        "tensorflow_log",
    ]
    assert found["path"] == str(tmp_path / "run")
    assert (found["run"], found["workload"], found["device"]) == (
        "2026-11-20T10-17-03_cnn",
        "cnn",
        "CPU",
    )
    assert (found["knobs"], found["settings"], found["steps"]) == (
        {"prefetch": "off"},
        {"mode": "graph"},
        200,
    )
    whole = found["whole_run"]
    assert (whole["steps"], whole["excluded_steps"]) == (198, 2)
    assert whole["step_ms"] == pytest.approx({"median": 18, "mean": 18, "p95": 23})
    assert whole["data_wait_ms"] == pytest.approx({"median": 5, "mean": 5, "p95": 10})
    assert whole["compute_ms"] == pytest.approx({"median": 12, "mean": 12, "p95": 12})
    assert whole["host_ms"] == pytest.approx({"median": 1, "mean": 1, "p95": 1})
    assert whole["data_wait_share"] == pytest.approx(5 / 18)
    assert (found["verdict"], found["bound"]) == ("NOT input-bound", "compute-bound")
    assert found["finding"]["word"] == "OK, data wait 0 %"
    assert (found["last_setting"]["steps"], found["last_setting"]["data_wait_share"]) == (99, 0)
    assert found["spikes"] == [
        {"step": 1, "extra_ms": 2388.0, "part": "compute", "cause": "compile", "detail": ""}
    ]


@pytest.mark.parametrize(
    ("rows", "events"),
    [
        pytest.param(plain(0), (), id="killed before the first step"),
        pytest.param(
            plain(0),
            (RunEnded(5, "failed", 0, "no memory"),),
            id="failed before the first step",
        ),
        pytest.param(
            plain(3), (SwitchAsked(0, "prefetch", "off", "4", 2, "key"),), id="a switch asked"
        ),
    ],
)
def test_the_json_has_null_for_what_is_missing(
    tmp_path: Path, rows: Rows, events: tuple[Event, ...]
) -> None:
    found = document.as_json(open_written(tmp_path / "run", rows, *events))

    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert (found["verdict"], found["bound"]) == ("not enough data", None)
    assert found["final_loss"] is None
    assert (found["whole_run"]["data_wait_share"] is None) is (not len(rows))


def test_the_final_loss_is_that_of_the_last_epoch(tmp_path: Path) -> None:
    epochs = (EpochEnded(3, 1, 2, {"loss": 0.5}), EpochEnded(4, 2, 3, {"loss": 0.25}))

    found = document.as_json(
        open_written(tmp_path / "run", plain(3), *epochs, RunEnded(5, "finished", 3))
    )

    assert found["final_loss"] == 0.25


def test_a_loss_that_was_nan_is_null_and_its_step_is_told(tmp_path: Path) -> None:
    events = (LossDiverged(1, 2, "NaN", 1), LossRecovered(2, 3), LossDiverged(3, 9, "infinite", 5))

    run = open_written(tmp_path / "run", plain(9), *events, RunEnded(5, "finished", 9))

    found = document.as_json(run)
    assert found["final_loss"] is None
    assert found["loss_diverged"] == [
        {"loss": "NaN", "step": 2, "finite_step": 1, "finite_again_step": 3},
        {"loss": "infinite", "step": 9, "finite_step": 5, "finite_again_step": None},
    ]
    assert (
        text_of(run)[1]
        == "loss is infinite since one of the steps 6 to 9 (2 times NaN or infinite)"
    )


@pytest.mark.parametrize("name", [layout.SAMPLES, layout.STAGES, layout.PROGRESSES])
@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_file_is_told_without_a_warning(tmp_path: Path, name: str, seed: int) -> None:
    run = usual(tmp_path).staged(*STAGES)
    for _ in range(50):
        run.sample(cpu_power_w=20.0).pass_s(0.5)
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
        told = document.as_json(open_run(tmp_path, run.clock))

    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert told["steps"] == 451


def test_damaged_rows_are_left_out(tmp_path: Path) -> None:
    rows = plain(100)
    rows["wait_ms"][50] = np.nan
    rows["compute_ms"][60] = -1

    found = document.as_json(open_written(tmp_path / "run", rows))

    assert found["whole_run"]["data_wait_share"] == pytest.approx(0.1)
    json.dumps(found, allow_nan=False)


def test_stalls_are_told_by_their_kind(tmp_path: Path) -> None:
    rows = plain(400)
    rows["wait_ms"][20::20] += 60
    rows["wait_ms"][350] = 3000
    run = open_written(tmp_path / "run", restart(rows), RunEnded(13 * 10**9, "finished", 400))

    hiccup, periodic = document.as_json(run)["stalls"]

    assert (hiccup["kind"], hiccup["step"], hiccup["steps"], hiccup["lost_ms"]) == (
        "hiccup",
        351,
        1,
        3000,
    )
    assert hiccup["start_s"] == pytest.approx(350 * 0.02 + 17 * 0.06)
    assert (periodic["kind"], periodic["period"], periodic["step"]) == ("periodic", 20, 21)
    assert [(one["part"], one["cause"], one["detail"]) for one in (hiccup, periodic)] == [
        ("wait", "unexplained", "")
    ] * 2
    assert any(
        line.startswith("every 20th step waits 60.0 ms longer for data from step 21 over")
        for line in text_of(run)
    )


def test_what_takes_longer_again_and_again_is_told_with_its_part_and_its_cause(
    tmp_path: Path,
) -> None:
    rows = make_steps(np.full(400, 2.0), compute=17.0, host=1.0)
    rows["host_ms"][20::20] += 60
    restart(rows)
    ends = rows["start_ns"][21::20].astype(np.int64).tolist()
    pauses = [Paused(end, "callback", 59.0, "Slow") for end in ends]

    (periodic,) = document.as_json(open_written(tmp_path / "run", rows, *pauses, FINISHED))[
        "stalls"
    ]

    told = {name: periodic[name] for name in ("kind", "period", "part", "cause", "detail")}
    assert told == {
        "kind": "periodic",
        "period": 20,
        "part": "host",
        "cause": "callback",
        "detail": "Slow",
    }


def test_what_a_file_holds_in_place_of_a_number_is_null(tmp_path: Path) -> None:
    epoch = EpochEnded(5, 0, 30, {"loss": math.nan})
    run = open_written(tmp_path / "run", plain(30), epoch, settings={"learning_rate": math.inf})

    found = document.as_json(run)

    assert found["settings"] == {"learning_rate": None}
    assert found["final_loss"] is None
    json.dumps(found, allow_nan=False)
