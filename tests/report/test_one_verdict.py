"""A document and a summary have one verdict, that of the last setting, and name the stretch of each
figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.judge.step_rows import make_steps, restart
from tests.judge.stretches import COMPUTE_BOUND, HALF_FED, STARVING, alternating, starving_then
from tests.report.written_runs import FINISHED, SWITCH, open_written, text_of
from tfwatch.core.events import RunEnded
from tfwatch.core.rows import Flag
from tfwatch.report.document import as_json

if TYPE_CHECKING:
    from pathlib import Path

    from tfwatch.runs.snapshot import Snapshot

KNOBS = {"knobs": {"prefetch": "off"}, "switchable": ["prefetch"]}


def verdict_in(finding: dict[str, Any]) -> str:
    """The verdict at the start of a finding's sentence; a sentence without one is of a run that is
    not input-bound."""
    words, _, _ = finding["sentence"].partition(":")
    return words if words.endswith(" input-bound") else "NOT input-bound"


def switched_to(folder: Path, split: tuple[float, float, float]) -> Snapshot:
    """Starving for 100 steps, then prefetch was turned on for another 100."""
    return open_written(folder, starving_then(split), *SWITCH, FINISHED, **KNOBS)


@pytest.mark.parametrize(
    ("split", "verdict", "bound"),
    [
        pytest.param(COMPUTE_BOUND, "NOT input-bound", "compute-bound", id="compute_bound"),
        pytest.param(HALF_FED, "MODERATELY input-bound", "input-bound", id="half fed"),
        pytest.param((0.1, 12.0, 30.0), "NOT input-bound", "host-bound", id="callbacks"),
    ],
)
def test_after_a_switch_verdict_bound_and_finding_are_of_the_last_setting(
    tmp_path: Path, split: tuple[float, float, float], verdict: str, bound: str
) -> None:
    found = as_json(switched_to(tmp_path / "run", split))

    assert (found["verdict"], found["bound"], verdict_in(found["finding"])) == (
        verdict,
        bound,
        verdict,
    )


@pytest.mark.parametrize("kept", ["4", "off"])
def test_after_an_ab_test_verdict_bound_and_finding_are_of_the_kept_setting(
    tmp_path: Path, kept: str
) -> None:
    rows, events = alternating(["off", "4", "4", "off"] * 3, kept)
    ended = RunEnded(int(rows["start_ns"][-1]), "finished", len(rows))

    found = as_json(open_written(tmp_path / "run", rows, *events, ended, **KNOBS))

    verdict, bound = (
        ("NOT input-bound", "compute-bound")
        if kept == "4"
        else ("HIGHLY input-bound", "input-bound")
    )
    assert (found["verdict"], found["bound"], verdict_in(found["finding"])) == (
        verdict,
        bound,
        verdict,
    )


def test_too_few_steps_of_the_last_setting_have_neither_verdict_nor_finding(tmp_path: Path) -> None:
    rows = starving_then(COMPUTE_BOUND)[:110]

    found = as_json(open_written(tmp_path / "run", rows, *SWITCH, FINISHED, **KNOBS))

    assert (found["verdict"], found["bound"], found["finding"]) == ("not enough data", None, None)


def test_the_document_says_of_which_steps_its_figures_are(tmp_path: Path) -> None:
    found = as_json(switched_to(tmp_path / "run", COMPUTE_BOUND))

    last, whole = found["last_setting"], found["whole_run"]
    assert (last["knobs"], last["step_ranges"], last["steps"]) == (
        {"prefetch": "4"},
        [[101, 200]],
        99,
    )
    assert last["data_wait_ms"]["mean"] == pytest.approx(COMPUTE_BOUND[0])
    assert (whole["steps"], whole["excluded_steps"]) == (199, 1)
    assert whole["data_wait_ms"]["mean"] == pytest.approx(
        (100 * STARVING[0] + 99 * COMPUTE_BOUND[0]) / 199
    )


def test_after_an_ab_test_all_blocks_of_the_kept_setting_count(tmp_path: Path) -> None:
    rows, events = alternating(["off", "4", "4", "off"] * 3, "4")

    last = as_json(open_written(tmp_path / "run", rows, *events, FINISHED, **KNOBS))["last_setting"]

    assert last["knobs"] == {"prefetch": "4"}
    assert last["step_ranges"][0] == [54, 64]
    assert last["step_ranges"][-1] == [185, 189]
    assert last["steps"] == 6 * 11 + 4


def test_the_summary_gives_the_verdict_with_its_steps_and_the_whole_run_by_itself(
    tmp_path: Path,
) -> None:
    lines = text_of(switched_to(tmp_path / "run", COMPUTE_BOUND))

    assert (
        "over the whole run mean steady step: 4.6 of 17.1 ms is data wait (27 %); 1 step excluded"
        in lines
    )
    assert (
        "since step 101 mean steady step: 0.1 of 12.6 ms is data wait (1 %): NOT input-bound,"
        " compute-bound" in lines
    )


def test_the_summary_of_an_ab_test_judges_the_kept_setting(tmp_path: Path) -> None:
    rows, events = alternating(["off", "4", "4", "off"] * 3, "4")

    lines = text_of(open_written(tmp_path / "run", rows, *events, FINISHED, **KNOBS))

    (line,) = [line for line in lines if "input-bound" in line]
    assert line.startswith("last setting, 7 stretches of steps 54 to 189, mean steady step: 0.1 of")
    assert line.endswith("NOT input-bound, compute-bound")


def test_a_run_of_one_setting_has_one_line(tmp_path: Path) -> None:
    rows = make_steps(np.full(100, STARVING[0]), compute=12.0, host=0.5)
    rows["flags"][0] = Flag.COMPILE

    lines = text_of(open_written(tmp_path / "run", restart(rows), FINISHED))

    assert (
        "mean steady step: 9.0 of 21.5 ms is data wait (42 %): HIGHLY input-bound; 1 step excluded"
        in lines
    )
