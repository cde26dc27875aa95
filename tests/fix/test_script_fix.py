"""The runs of a script to its patch: what is proved by 2 % and more, and nothing else."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.recorded import noisy_rows, record, trained
from tests.fix.test_pairs import Epochs, Runs
from tests.runs.folders import FakeClock
from tfwatch.core.events import AutopilotBegan, AutopilotEnded, Event, MoveJudged, MoveMade
from tfwatch.core.knobs import KnobChange
from tfwatch.core.script_code import CodeEdit
from tfwatch.fix import live
from tfwatch.fix.changes import Wanted
from tfwatch.fix.pairs import PairedRuns
from tfwatch.fix.script_fix import ScriptFix, fix_script
from tfwatch.judge.effects.switching_state import autopilot_runs
from tfwatch.judge.findings.finding import Finding
from tfwatch.judge.forecasts.forecast import Forecast
from tfwatch.judge.judged_run import JudgedRun
from tfwatch.runs.run import open_run

LINE = "data = data.map(load)"
EDIT = CodeEdit("prefetch", "train.py", 1, LINE, 21, 21, ".prefetch({})", "-1")
MOVE = (KnobChange("prefetch", "off", "4"),)
LATER = sys.maxsize


def autopilot(low: float) -> tuple[Event, ...]:
    """The events of an autopilot that kept a prefetch, with the lower end of its interval."""
    ended = ("not_starving", "data wait is only 1 % of a step", 169, 23.4, 13.9, {"prefetch": "4"})
    return (
        AutopilotBegan(0, 1),
        MoveMade(1, 20, MOVE),
        MoveJudged(2, 90, MOVE, 23.4, 13.9, 60, True),
        AutopilotEnded(6, 170, *ended, ratio=1.68, low=low, high=1.74),
    )


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(f"{LINE}\n")


def fixed(*events: Event, name: str = "run", code: tuple[CodeEdit, ...] = (EDIT,)) -> ScriptFix:
    return fix_script([recorded(*events, name=name, code=code)], 0, LATER)


def recorded(*events: Event, name: str = "run", **changes: Any) -> Path:
    rows = noisy_rows(1, wait=0.5)
    known = {"code": (EDIT,), "knobs": {"prefetch": "off"}, **changes}
    return record(Path(name), rows, *events, *trained(rows), **known)


def restarts(folder: Path, new_ms: float) -> PairedRuns:
    """Pairs of runs whose steps with a change take `new_ms`, and those without it 20 ms."""
    runs = Runs(folder, new_ms, source=f"{LINE}\n")
    return PairedRuns("train.py", runs.measure, FakeClock().clock, sys.maxsize, lambda _: None)


@pytest.mark.parametrize(("new_ms", "kept"), [(16.0, True), (20.0, False)])
def test_what_the_run_did_not_prove_is_tried_in_pairs(
    new_ms: float, kept: bool, tmp_path: Path
) -> None:
    run = recorded(*autopilot(low=1.01))
    found = fix_script([run], 0, LATER, restarts(tmp_path, new_ms))
    assert (found.patch is not None) == kept
    assert [(one.change, one.kept) for one in found.tried] == [
        ("prefetch off → 4", False),
        ("prefetch 4", kept),
    ]
    assert not found.patch or b"+data = data.map(load).prefetch(4)\n" in found.patch.diff


def test_each_change_that_the_user_names_is_tried_once_in_any_order(tmp_path: Path) -> None:
    wanted = Wanted(("jit_compile", "run_eagerly"))
    found = fix_script([recorded()], 0, LATER, restarts(tmp_path, 16.0), wanted)
    assert [one.change for one in found.tried] == ["run_eagerly=False", "jit_compile=True"]


@pytest.mark.parametrize(("cache_bytes", "is_tried"), [(10**6, True), (10**10, False)])
def test_a_cache_that_the_memory_holds_is_tried_by_whole_epochs(
    cache_bytes: int, is_tried: bool, tmp_path: Path
) -> None:
    edit = replace(EDIT, knob="cache", new=".cache()")
    size: dict[str, Any] = {"cache_bytes": cache_bytes, "steps_per_epoch": 20, "epochs": 12}
    run = recorded(code=(edit,), knobs={"cache": "off"}, **size)
    runs = Epochs(tmp_path, ".cache()")
    pairs = PairedRuns("train.py", runs.measure, FakeClock().clock, sys.maxsize, lambda _: None)
    found = fix_script([run], 0, LATER, pairs)
    assert [one.change for one in found.tried if one.kept] == ["cache on"] * is_tried
    assert (found.patch is not None) == is_tried
    assert not found.patch or b"+data = data.map(load).cache()\n" in found.patch.diff


def test_a_move_that_the_autopilot_had_no_time_to_judge_is_tried_in_pairs(tmp_path: Path) -> None:
    run = recorded(*autopilot(low=1.61)[:2])
    found = fix_script([run], 0, LATER, restarts(tmp_path, 16.0))
    assert found.patch
    assert [(one.change, one.kept) for one in found.tried] == [("prefetch 4", True)]


@pytest.mark.parametrize(
    ("knob", "may_draw_others", "tried"),
    [
        ("workers", True, [{"prefetch": "4"}, {"workers": "auto"}]),
        ("workers", False, [{"prefetch": "4"}, {}]),
        ("prefetch", True, [{"prefetch": "4"}, {}]),
    ],
)
def test_the_setting_that_a_finding_forecasts_is_tried_beside_an_open_move(
    knob: str, may_draw_others: bool, tried: list[dict[str, str]]
) -> None:
    judged = JudgedRun(open_run(recorded(*autopilot(low=1.61)[:2], workers_ask=True)))
    forecast = Forecast(knob, "auto", 9.0, 8.0, 10.0, "", 20.0)
    judged.losses = (Finding("data-wait", "STARVING", "", forecast=forecast),)
    runs = autopilot_runs(judged.run.events)
    assert live._not_proved(judged, runs, may_draw_others) == tried


def test_a_setting_of_another_file_than_the_script_is_not_tried_in_pairs(tmp_path: Path) -> None:
    Path("data.py").write_text(f"{LINE}\n")
    run = recorded(*autopilot(low=1.01), code=(replace(EDIT, file="data.py"),))
    found = fix_script([run], 0, LATER, restarts(tmp_path, 16.0))
    assert found.patch is None
    assert [one.kept for one in found.tried] == [False]


def test_what_the_autopilot_proved_is_a_patch_with_its_evidence() -> None:
    found = fixed(*autopilot(low=1.61))
    assert found.patch
    assert b"+data = data.map(load).prefetch(4)\n" in found.patch.diff
    assert not found.why_none
    (move,) = found.tried
    assert (move.change, move.outcome) == ("prefetch off → 4", "23.4 → 13.9 ms/step over 60 steps")
    assert move.kept
    (evidence,) = found.evidence
    assert "1.68 x faster (1.61 to 1.74), kept prefetch off → 4" in evidence
    assert Path("train.py").read_text() == f"{LINE}\n"


def test_a_gain_whose_interval_does_not_clear_two_percent_is_no_patch() -> None:
    found = fixed(*autopilot(low=1.01))
    assert found.patch is None
    assert found.why_none.startswith("no setting is proved faster: ")
    assert "for data" in found.why_none


def test_a_setting_without_a_line_is_named() -> None:
    found = fixed(*autopilot(low=1.61), code=())
    assert found.patch is None
    assert found.evidence[-1].endswith("no single line of the script sets it: prefetch 4")


def test_the_first_run_with_a_proof_decides() -> None:
    runs = [recorded(name="second"), recorded(*autopilot(low=1.61), name="first")]
    assert fix_script(runs, 0, LATER).patch


def test_a_script_that_changed_while_it_ran_has_no_patch() -> None:
    found = fix_script([recorded(*autopilot(low=1.61))], 0, 1)
    assert found.patch is None
    assert found.why_none == "train.py changed since the run began: it has no patch"


def test_a_script_that_failed_or_has_no_run_has_no_patch() -> None:
    failed = fix_script([recorded(*autopilot(low=1.61))], 3, LATER)
    assert failed.patch is None
    assert failed.why_none.endswith("failed with exit code 3")
    assert "no step of this script is recorded" in fix_script([], 0, LATER).why_none
