"""Switches and forecasts in the summary and in the JSON object."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.judge.step_rows import plain
from tests.report.written_runs import FINISHED, SWITCH, open_written, switched_run, text_of
from tfwatch.core.events import (
    ExperimentEnded,
    PipelineSwitched,
    SwitchFailed,
    SwitchMissed,
)
from tfwatch.report.run_facts import as_json
from tfwatch.runs.requests import parse_switch

if TYPE_CHECKING:
    from pathlib import Path


def test_a_switch_has_both_sides(tmp_path: Path) -> None:
    run = open_written(tmp_path / "run", switched_run(), *SWITCH, FINISHED)

    (switch,) = as_json(run)["switches"]

    change = [switch[key] for key in ("step_asked", "step_in_effect", "knob", "from", "to")]
    assert change == [98, 101, "prefetch", "off", "4"]
    assert (switch["before"]["steps"], switch["after"]["steps"]) == (99, 99)
    assert switch["before"]["data_wait_ms"]["median"] == pytest.approx(10)
    assert switch["after"]["step_ms"]["median"] == pytest.approx(13)
    assert switch["after"]["data_wait_share"] == 0


def test_a_switch_that_failed_is_listed_with_the_setting_since(tmp_path: Path) -> None:
    failed = SwitchFailed(3, "prefetch", "RuntimeError: no room", "2", "4", 100, "default")
    run = open_written(tmp_path / "run", plain(30), failed, FINISHED)

    (switch,) = as_json(run)["switches"]

    known = {name: value for name, value in switch.items() if value not in (None, [])}
    assert known == {
        "step_asked": 100,
        "knob": "prefetch",
        "from": "2",
        "to": "4",
        "failed": "RuntimeError: no room",
        "setting_since": "default",
    }
    failed_text = "failed: RuntimeError: no room; prefetch default continues"
    assert f"switched: prefetch 2 → 4: {failed_text}" in text_of(run)


def test_a_switch_for_which_the_run_was_too_short_is_listed(tmp_path: Path) -> None:
    missed = (
        SwitchMissed(3, "prefetch", "off", "4", 100),
        SwitchMissed(3, "device_prefetch", "off", "2", 200),
    )
    run = open_written(tmp_path / "run", plain(30), *missed, FINISHED)

    first, second = as_json(run)["switches"]

    known = {name: value for name, value in first.items() if value not in (None, [])}
    assert known == {"step_asked": 100, "knob": "prefetch", "from": "off", "to": "4"}
    assert (second["step_asked"], second["knob"], second["to"]) == (200, "device-prefetch", "2")
    missed_text = "the run ended before it was in effect"
    assert f"switched: prefetch off → 4: {missed_text}" in text_of(run)


def test_of_many_switches_those_that_prove_a_difference_are_listed_first(tmp_path: Path) -> None:
    rows = plain(1000)
    rows["wait_ms"][400:700] = 20.0
    few = [
        PipelineSwitched(0, "prefetch", "off", "4", n, n, 1.0, "key") for n in range(910, 1000, 10)
    ]
    slower = PipelineSwitched(0, "workers", "off", "2", 400, 401, 1.0, "key")
    faster = PipelineSwitched(0, "workers", "2", "off", 700, 701, 1.0, "key")

    lines = text_of(open_written(tmp_path / "run", rows, slower, faster, *few, FINISHED))

    listed = [line.removeprefix("switched: ") for line in lines if line.startswith("switched: ")]
    assert listed[0].startswith("workers off → 2: 1.90 x slower (1.90 to 1.90)")
    assert listed[1].startswith("workers 2 → off: 1.90 x faster (1.90 to 1.90)")
    assert listed[2:] == ["and 9 more changes"]


def test_an_experiments_answer_has_its_line(tmp_path: Path) -> None:
    ended = ExperimentEnded(
        *(0, "prefetch", ("off", "4"), 0, 40, "clear", "faster", 9, 30, "4"),
        *(1.5, 1.4, 1.6, {}),
    )
    lines = text_of(open_written(tmp_path / "run", plain(52), ended, FINISHED))

    answer = "prefetch off vs 4: 1.50 x faster (1.40 to 1.60) over 30 steps; kept 4"
    assert f"switched: {answer}" in lines


def test_switches_that_cannot_be_compared_promise_nothing(tmp_path: Path) -> None:
    events = (PipelineSwitched(0, "prefetch", "off", "4", 49, 50, 1.0, "key"),)
    lines = text_of(open_written(tmp_path / "run", plain(52), *events, FINISHED))

    assert "switched: prefetch off → 4: not enough steps to compare" in lines
    assert "faster" not in "\n".join(lines)


def test_in_json_a_knob_has_the_name_that_the_command_line_takes(tmp_path: Path) -> None:
    switch = PipelineSwitched(0, "device_prefetch", "off", "2", 49, 50, 1.0, "key")
    knobs = {"prefetch": "off", "device_prefetch": "off"}
    told = as_json(open_written(tmp_path / "run", plain(52), switch, FINISHED, knobs=knobs))

    assert told["knobs"] == {"prefetch": "off", "device-prefetch": "off"}
    assert [one["knob"] for one in told["switches"]] == ["device-prefetch"]
    assert [parse_switch(f"50:{knob}=off").knob for knob in told["knobs"]] == list(knobs)
