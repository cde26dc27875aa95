"""The pipeline from inside, in the facts of a run."""

import math
from pathlib import Path
from typing import Any

import pytest

from tests.judge.step_rows import plain
from tests.runs.folders import FakeClock, write_run
from tfwatch.core.events import Event, RunEnded, SensorMissing, StagesFound
from tfwatch.report import run_facts
from tfwatch.runs.run import open_run
from tfwatch.runs.snapshot import Snapshot

S = 10**9
NAN = math.nan
FOUND = StagesFound(S, 0, ["map(decode)", "prefetch"], ["Map", "Prefetch"])
NO_TABLE: dict[str, Any] = {
    "stages": [],
    "total_ms": None,
    "bottleneck": None,
}


def opened(folder: Path, *events: Event, stages: bool = True) -> Snapshot:
    writer = write_run(
        folder, plain(30), *events, RunEnded(60 * S, "finished", 30), machine={"cores": 8}
    )
    if stages:
        writer.stage(20 * S, 0, 0, 32, 19.0, 1.0, NAN, NAN, NAN, 1.0)
        writer.stage(20 * S, 0, 1, 32, NAN, NAN, 0.0, 4.0, 0.0, 1.0)
        writer.flush()
    return open_run(folder, FakeClock(60).clock)


def test_the_last_table_has_null_where_there_is_no_figure(
    tmp_path: Path,
) -> None:
    found = run_facts.as_json(opened(tmp_path, FOUND))["pipeline"]

    decode, prefetch = found["stages"]
    assert (decode["name"], decode["kind"], decode["busy_ms"]) == ("map(decode)", "Map", 19.0)
    assert (decode["parallelism"], decode["buffer_size"]) == (1.0, None)
    assert (prefetch["busy_ms"], prefetch["buffered"], prefetch["buffer_size"]) == (None, 0.0, 4.0)
    assert (found["total_ms"], found["missing"]) == (19.0, None)
    assert found["bottleneck"] == {
        "stage": "map(decode)",
        "reason": "serial",
        "sentence": "map(decode) runs serially on one of 8 cores: 19.0 ms/batch",
    }


@pytest.mark.parametrize(
    ("events", "missing"),
    [
        pytest.param((), None, id="nobody knows why"),
        pytest.param((SensorMissing(S, "gpu", "no driver", ""),), None, id="another sensor"),
        pytest.param(
            (SensorMissing(S, "pipeline", "not autotuned", "turn it on"),),
            "not autotuned",
            id="why",
        ),
    ],
)
def test_without_rows_it_says_why(
    events: tuple[Event, ...], missing: str | None, tmp_path: Path
) -> None:
    found = run_facts.as_json(opened(tmp_path, *events, stages=False))["pipeline"]

    assert found == {**NO_TABLE, "missing": missing}


def test_a_table_without_a_figure_says_why_too(tmp_path: Path) -> None:
    why = SensorMissing(S, "pipeline", "epochs are too short", "")
    run = write_run(tmp_path, plain(30), FOUND, why, RunEnded(60 * S, "finished", 30))
    run.stage(20 * S, 0, 0, 0, NAN, 1.0, NAN, NAN, NAN, NAN)
    run.flush()

    found = run_facts.as_json(open_run(tmp_path, FakeClock(60).clock))["pipeline"]

    assert (found["total_ms"], found["missing"]) == (None, "epochs are too short")
