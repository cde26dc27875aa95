"""Switches and forecasts in the summary and in the JSON object."""

from pathlib import Path

import pytest

from tests.judge.step_rows import plain
from tests.report.written_runs import FINISHED, SWITCH, open_written, switched_run, text_of
from tfwatch.core.events import (
    AUTOPILOT,
    AutopilotBegan,
    AutopilotEnded,
    ExperimentEnded,
    MoveJudged,
    PipelineSwitched,
    RandomDrawsAllowed,
    RunEnded,
    SwitchFailed,
)
from tfwatch.core.knobs import KnobChange
from tfwatch.judge.findings.finding import Finding
from tfwatch.judge.judged_run import JudgedRun
from tfwatch.report.run_facts import as_json
from tfwatch.runs.requests import parse_switch


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
    assert f"switched: prefetch 2 → 4 at step 100: {failed_text}" in text_of(run)


def test_of_many_switches_the_newest_is_named(tmp_path: Path) -> None:
    switches = [
        PipelineSwitched(0, "prefetch", "off", "4", n, n, 1.0, "key") for n in range(60, 100, 10)
    ]

    lines = text_of(open_written(tmp_path / "run", plain(100), *switches, FINISHED))

    (line,) = (line for line in lines if line.startswith("switched: "))
    assert line.startswith("switched: prefetch off → 4 at step 90: ")
    assert line.endswith("; 3 other changes")


def test_a_measured_gain_comes_before_a_newer_change_that_is_not_and_before_weaker_lines(
    tmp_path: Path,
) -> None:
    newer = PipelineSwitched(0, "workers", "off", "auto", 195, 195, 1.0, "key")
    gain = "switched: prefetch off → 4: 1.77 x faster (1.77 to 1.77)"
    run = open_written(tmp_path / "run", switched_run(), *SWITCH, newer, FINISHED)
    assert f"{gain}; 1 other change" in text_of(run)

    lines = text_of(run, home=str(tmp_path), columns=70)
    assert f"{gain}; 1 other change" in lines
    assert not any("unaccounted" in line for line in lines), "the bar of its time needs a row"


def test_a_proved_gain_and_its_line_come_first_and_an_autopilot_in_vain_hides_them_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = [
        PipelineSwitched(at, "prefetch", old, new, at - 1, at, 1.0, AUTOPILOT)
        for at, old, new in ((170, "4", "8"), (185, "8", "4"))
    ]
    undone = MoveJudged(174, 174, (KnobChange("prefetch", "4", "8"),), 13.0, 12.9, 20, False, "2 %")
    ended = AutopilotEnded(180, 180, "nothing_left", "no other switch is left to try", 20, knobs={})
    drawn = RandomDrawsAllowed(0, 97, "key", "map(load) draws random numbers")
    events = (drawn, *SWITCH, AutopilotBegan(140, 140), *tried, undone, ended, FINISHED)
    line = "dataset = dataset.prefetch(4)  # the last stage: prepares batches while a step runs"
    run = open_written(tmp_path / "run", switched_run(), *events)
    losses = [Finding("a", "", "each step waits", "decode", f"{line}\n# then x", lost_s=1.0)]
    monkeypatch.setattr(JudgedRun, "losses", losses)

    _, gain, *lines = (one for one in text_of(run, columns=120) if one[:1] != "[")

    faster = "switched: prefetch off → 4: 1.77 x faster (1.77 to 1.77)"
    assert gain.startswith(f"{faster}; other random draws from step 98 on; ")
    assert lines[:2] == ["lines to change:", f"    {line}"]
    assert lines[2].endswith("each step waits")
    assert lines[3:6] == ["   -> decode", "then:", "    # then x"]

    monkeypatch.setattr(JudgedRun, "losses", [])
    assert f"    {line}" in text_of(run, columns=120)


def test_other_random_draws_are_named_where_there_is_room_for_little(tmp_path: Path) -> None:
    drawn = RandomDrawsAllowed(0, 97, "key", "map(load) draws random numbers")
    switch = PipelineSwitched(0, "workers", "default", "auto", 97, 98, 1.0, "key")
    warned = "the time of a callback " * 20
    run = open_written(
        tmp_path / "run", plain(100), drawn, switch, RunEnded(9, "failed", 99, warned)
    )
    assert "other random draws from step 98 on" in " ".join(text_of(run, columns=60))


def test_the_autopilots_own_switches_are_no_other_changes(tmp_path: Path) -> None:
    began = AutopilotBegan(0, 80)
    own = [
        PipelineSwitched(0, knob, "off", "4", 90, 90, 1.0, AUTOPILOT)
        for knob in ("prefetch", "workers")
    ]
    ended = AutopilotEnded(0, 100, "over", "the run has ended", 20, knobs={})
    run = open_written(tmp_path / "run", plain(100), began, *own, ended, FINISHED)
    assert "switched: autopilot: nothing changed: the run has ended" in text_of(run)


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

    assert any(line.startswith("switched: prefetch off → 4 at step 50: ") for line in lines)
    assert "faster" not in "\n".join(lines)


def test_in_json_a_knob_has_the_name_that_the_command_line_takes(tmp_path: Path) -> None:
    switch = PipelineSwitched(0, "device_prefetch", "off", "2", 49, 50, 1.0, "key")
    knobs = {"prefetch": "off", "device_prefetch": "off"}
    told = as_json(open_written(tmp_path / "run", plain(52), switch, FINISHED, knobs=knobs))

    assert told["knobs"] == {"prefetch": "off", "device-prefetch": "off"}
    assert [one["knob"] for one in told["switches"]] == ["device-prefetch"]
    assert [parse_switch(f"50:{knob}=off").knob for knob in told["knobs"]] == list(knobs)
