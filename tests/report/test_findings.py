"""The findings of `tfwatch report --json`: finding, evidence, suggestion and confidence."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.recorded import FINISHED, noisy_rows, record
from tfwatch.cli import main
from tfwatch.core.events import LossDiverged, RunEnded, TrainingFailed

if TYPE_CHECKING:
    from pathlib import Path

    from tfwatch.core.events import Event


def reported(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["report", *words, "--json", "--runs-dir", str(folder)]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_the_limit_has_evidence_and_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(tmp_path / "one_cnn", noisy_rows(1, wait=0.5))

    (finding,) = reported(tmp_path, capsys)["findings"]

    assert (finding["kind"], finding["confidence"]) == ("input-bound", "high")
    assert finding["suggestion"]
    evidence = {fact["name"]: fact for fact in finding["evidence"]}
    assert evidence["data_wait_share"]["low"] < 0.5 < evidence["data_wait_share"]["high"]
    assert evidence["step_time"]["unit"] == "ms"
    left_out = {
        name
        for name, fact in evidence.items()
        if fact["basis"] == "without the first tenth of the steps"
    }
    assert left_out == {"data_wait_share", "step_time"}
    parts = [evidence[f"{name}_mean"]["value"] for name in ("data_wait", "compute", "host")]
    assert sum(parts) == pytest.approx(evidence["step_time_mean"]["value"])


def test_evidence_has_the_values_of_check_where_batches_come_in_bursts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = noisy_rows(1, wait=0.1)
    rows["wait_ms"][24::25] += 120
    record(tmp_path / "one_cnn", rows)

    evidence = {
        fact["name"]: fact for fact in reported(tmp_path, capsys)["findings"][0]["evidence"]
    }
    main(
        [
            "check",
            "latest",
            "--max-wait-share",
            "99",
            "--max-step-ms",
            "999",
            "--json",
            "--runs-dir",
            str(tmp_path),
        ]
    )
    checked = {one["name"]: one for one in json.loads(capsys.readouterr().out)["checks"]}

    for fact, check in (("data_wait_share", "wait_share"), ("step_time", "step_ms")):
        assert [evidence[fact][key] for key in ("value", "low", "high")] == pytest.approx(
            [checked[check][key] for key in ("value", "low", "high")]
        )


@pytest.mark.parametrize(
    ("wait", "steps", "confidence", "reason"),
    [
        pytest.param(0.1, 300, "high", "which contains no threshold", id="between thresholds"),
        pytest.param(
            0.2, 300, "medium", "which contains the threshold of 20 %", id="at a threshold"
        ),
        pytest.param(0.5, 30, "low", "only 30 steady steps", id="few steps"),
    ],
)
def test_the_confidence_follows_from_the_interval(
    wait: float,
    steps: int,
    confidence: str,
    reason: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    record(tmp_path / "one_cnn", noisy_rows(1, wait=wait, steps=steps))

    finding = reported(tmp_path, capsys, "latest")["findings"][-1]

    assert finding["confidence"] == confidence
    assert finding["confidence_reason"].endswith(reason)


@pytest.mark.parametrize(
    ("events", "kinds"),
    [
        pytest.param(
            (LossDiverged(1, 2, "NaN", 1), FINISHED),
            ["input-bound", "loss-diverged"],
            id="a NaN loss",
        ),
        pytest.param(
            (TrainingFailed(1, 7, "ValueError: no", ""), RunEnded(9, "failed", 7)),
            ["failed", "input-bound"],
            id="failed",
        ),
    ],
)
def test_events_are_findings(
    events: tuple[Event, ...], kinds: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(tmp_path / "one_cnn", noisy_rows(1), *events)

    assert [finding["kind"] for finding in reported(tmp_path, capsys)["findings"]] == kinds


def test_a_run_without_steps_has_no_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(tmp_path / "one_cnn", noisy_rows(1, steps=5))

    document = reported(tmp_path, capsys)

    assert (document["findings"], document["verdict"]) == ([], "not enough data")
