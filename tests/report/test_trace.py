"""The trace for Perfetto: the format's rules, and the run's sums."""

from __future__ import annotations

import io
import json
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.judge.step_rows import make_steps
from tests.report.hostile import hostile_run
from tests.report.written_runs import FINISHED, open_written
from tests.screens.canned import PREFETCHED, STAGES, usual
from tfwatch.core.events import EpochEnded, EpochStarted, Paused, ValidationEnded
from tfwatch.core.rows import step_ms
from tfwatch.report import trace
from tfwatch.runs.run import open_run

if TYPE_CHECKING:
    from pathlib import Path

    from tfwatch.runs.snapshot import Snapshot


def events_of(run: Snapshot) -> list[dict[str, Any]]:
    """Return the events of the trace of a run: each in a named row, slices of a row nested."""
    file = io.BytesIO()
    trace.write_trace(run, file)
    events: list[dict[str, Any]] = json.loads(file.getvalue())["traceEvents"]
    rows = {one["tid"] for one in events if one["name"] == "thread_name"}
    assert {one["tid"] for one in events if one["ph"] in "Xibe"} <= rows
    assert _badly_nested(events) == []
    return events


def _badly_nested(events: list[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return slices that end after the one in which they begin, as a viewer stacks them: by time,
    then by order."""
    found = []
    open_slices: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for event in sorted((one for one in events if one["ph"] == "X"), key=lambda one: one["ts"]):
        stack = open_slices[event["tid"]]
        while stack and stack[-1]["ts"] + stack[-1]["dur"] <= event["ts"]:
            stack.pop()
        if stack and event["ts"] + event["dur"] > stack[-1]["ts"] + stack[-1]["dur"]:
            found.append((stack[-1], event))
        stack.append(event)
    return found


def slices(events: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [event for event in events if event["ph"] == "X" and event["name"] == name]


@pytest.fixture
def noisy(tmp_path: Path) -> Snapshot:
    """1000 steps with parts of any length, some of which are nothing, and a copy."""
    random = np.random.default_rng(3)
    copy = random.gamma(1.0, 2.0, 1000)
    wait = random.gamma(0.5, 4.0, 1000) * (random.random(1000) > 0.3)
    rows = make_steps(
        wait,
        compute=copy + random.gamma(2.0, 5.0, 1000),
        host=random.random(1000) * 0.01,
        copy=copy,
    )
    return open_written(tmp_path / "run", rows, FINISHED)


def test_the_sums_of_the_trace_are_those_of_the_run(
    noisy: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "_CHUNK", 70)
    rows = noisy.steps

    found: Counter[str] = Counter()
    for event in events_of(noisy):
        if event["ph"] == "X":
            found[event["name"]] += event["dur"]

    copy_us = rows["copy_ms"].sum(dtype=np.float64) * 1e3
    expected = {
        "step": step_ms(rows, np.float64).sum() * 1e3,
        "data wait": rows["wait_ms"].sum(dtype=np.float64) * 1e3,
        "copy": copy_us,
        "compute": rows["compute_ms"].sum(dtype=np.float64) * 1e3 - copy_us,
        "host": rows["host_ms"].sum(dtype=np.float64) * 1e3,
    }
    assert found == {
        name: pytest.approx(value, abs=40, rel=1e-5) for name, value in expected.items()
    }


def test_steps_that_overlap_by_rounding_are_cut(tmp_path: Path) -> None:
    rows = make_steps(np.full(10, 5.0))
    rows["start_ns"] -= np.arange(10, dtype=np.uint64) * 700

    events = events_of(open_written(tmp_path / "run", rows, FINISHED))

    assert len(slices(events, "step")) == 10


def test_epochs_validations_and_pauses_are_there(tmp_path: Path) -> None:
    run = open_written(
        tmp_path / "run",
        make_steps(np.full(10, 5.0)),
        EpochStarted(1_000_000, 0, 2, 5),
        Paused(60_000_000, "garbage collection", 20.0, "generation 2"),
        ValidationEnded(80_000_000, 0, 30.0),
        EpochEnded(90_000_000, 0, 5, {"loss": 0.5}),
        EpochStarted(95_000_000, 1, 2, 5),
        FINISHED,
    )

    events = events_of(run)

    (epoch,) = slices(events, "epoch 1")
    assert (epoch["ts"], epoch["dur"], epoch["args"]) == (1000, 89_000, {"metrics": {"loss": 0.5}})
    (validation,) = slices(events, "validation of epoch 1")
    assert (validation["ts"], validation["dur"]) == (50_000, 30_000)
    assert [(one["ph"], one["ts"]) for one in events if one["name"] == "garbage collection"] == [
        ("b", 40_000),
        ("e", 60_000),
    ]
    assert [one["ts"] for one in events if one["name"] == "RunEnded"] == [FINISHED.at_ns // 1000]


def test_counters_hold_the_known_figures_only(tmp_path: Path) -> None:
    run = usual(tmp_path)
    run.staged(*STAGES, PREFETCHED).ended().writer.close()

    counters = defaultdict(list)
    for event in events_of(open_run(tmp_path, run.clock)):
        if event["ph"] == "C":
            counters[event["name"]].append(event["args"]["value"])

    assert counters["CPU cores in use"] == pytest.approx([1.6, 1.6])
    assert "GPU busy, 0 to 1" not in counters
    assert counters["stage 3, map(decode): ms/batch"] == pytest.approx([7.7])
    assert counters["stage 5, prefetch: buffered"] == [4.0]
    assert "stage 3, map(decode): buffered" not in counters
    assert len(counters["loss"]) > 0


def test_hostile_text_breaks_no_json(tmp_path: Path) -> None:
    assert events_of(hostile_run(tmp_path / "run"))
