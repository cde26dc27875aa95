"""`tfwatch check`: its outcomes, and its reports for CI systems."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from tests.cli.recorded import FINISHED, add_memory, noisy_rows, record
from tfwatch.cli import main
from tfwatch.core.events import LossDiverged, RunEnded, TrainingFailed
from tfwatch.judge.comparing.checked_run import CheckedFigure, decide
from tfwatch.report.check_report import (
    github_annotations,
    junit_xml,
    step_summary,
)

if TYPE_CHECKING:
    from pathlib import Path

PASSED, BAD_INPUT, INCONCLUSIVE, FAILED = 0, 2, 3, 4
HOSTILE = "a]]>&<b x='1'>|`%\r\n::error::\x1b[31m\x00\ud800 @everyone"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 20 ms that waits for a tenth of it, with 2 GB of memory, and one of 30 ms."""
    runs_dir = tmp_path_factory.mktemp("runs")
    add_memory(record(runs_dir / "fast_cnn", noisy_rows(1)), 2 * 2**30)
    record(runs_dir / "slow_cnn", noisy_rows(2, 30.0))
    return runs_dir


def check(folder: Path, *words: str) -> int:
    return main(["check", *words, "--runs-dir", str(folder)])


@pytest.mark.parametrize(
    ("words", "code"),
    [
        pytest.param(["--max-wait-share", "20"], PASSED, id="wait below"),
        pytest.param(["--max-wait-share", "10"], INCONCLUSIVE, id="wait at the limit"),
        pytest.param(["--max-wait-share", "5"], FAILED, id="wait above"),
        pytest.param(["--max-step-ms", "25"], PASSED, id="step below"),
        pytest.param(["--max-step-ms", "20.5"], INCONCLUSIVE, id="step at the limit"),
        pytest.param(["--max-step-ms", "15"], FAILED, id="step above"),
        pytest.param(["--max-memory", "3"], PASSED, id="memory below"),
        pytest.param(["--max-memory", "1"], FAILED, id="memory above"),
        pytest.param(["--max-loss", "1.25"], PASSED, id="loss below"),
        pytest.param(["--max-loss", "1"], FAILED, id="loss above"),
        pytest.param(
            ["--baseline", "slow_cnn", "--max-slower", "5"], PASSED, id="faster than the baseline"
        ),
        pytest.param(
            ["--max-step-ms", "25", "--max-wait-share", "10"],
            INCONCLUSIVE,
            id="passed and inconclusive",
        ),
        pytest.param(
            ["--max-step-ms", "15", "--max-wait-share", "10"], FAILED, id="failed and inconclusive"
        ),
        pytest.param([], BAD_INPUT, id="no limit"),
        pytest.param(["--max-slower", "5"], BAD_INPUT, id="no baseline"),
        pytest.param(
            ["--max-loss", "1", "--baseline", "slow_cnn"], BAD_INPUT, id="no limit for the baseline"
        ),
        pytest.param(
            ["--max-step-ms", "25", "--junit", "/no/such/folder/file.xml"],
            BAD_INPUT,
            id="no such folder",
        ),
    ],
)
def test_the_exit_code_follows_the_end_of_the_interval(
    words: list[str], code: int, folder: Path
) -> None:
    assert check(folder, "fast_cnn", *words) == code


def test_a_run_slower_than_the_baseline_fails(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(folder, "slow_cnn", "--baseline", "fast_cnn", "--max-slower", "5") == FAILED
    end, slower, outcome = capsys.readouterr().out.splitlines()
    assert end == "passed        run ended normally"
    assert slower.startswith("failed        step time over that of the baseline +5")
    assert slower.endswith("limit +5.0 %")
    assert outcome == "failed"


@pytest.mark.parametrize(
    ("words", "events", "code"),
    [
        pytest.param(["--max-step-ms", "25"], (RunEnded(9, "stopped", 300),), PASSED, id="stopped"),
        pytest.param(["--max-step-ms", "25"], (RunEnded(9, "failed", 300),), FAILED, id="failed"),
        pytest.param(
            ["--max-loss", "2"], (LossDiverged(1, 2, "NaN", 1), FINISHED), FAILED, id="a NaN loss"
        ),
        pytest.param(
            ["--max-loss", "2"], (RunEnded(9, "finished", 300),), INCONCLUSIVE, id="no loss"
        ),
        pytest.param(["--max-memory", "2"], (FINISHED,), INCONCLUSIVE, id="no memory"),
    ],
)
def test_the_end_of_the_run_counts(
    words: list[str], events: tuple[RunEnded, ...], code: int, tmp_path: Path
) -> None:
    record(tmp_path / "one_cnn", noisy_rows(3), *events)

    assert check(tmp_path, "one_cnn", *words) == code


def test_a_short_run_is_inconclusive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(tmp_path / "one_cnn", noisy_rows(3, steps=30))

    assert check(tmp_path, "one_cnn", "--max-step-ms", "1") == INCONCLUSIVE
    assert "one_cnn has 30 steady steps: 45 are needed" in capsys.readouterr().out


def test_a_figure_names_the_steps_that_it_leaves_out(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check(folder, "fast_cnn", "--max-wait-share", "20", "--max-step-ms", "25")

    _, wait, step, _ = capsys.readouterr().out.splitlines()
    assert wait.endswith(") without the first tenth of the steps, limit 20.0 %")
    assert step.endswith(") without the first tenth of the steps, limit 25.0 ms")


#: The attributes that the JUnit schema of Jenkins (junit-10.xsd, MIT) needs and allows.
JENKINS: dict[str, tuple[set[str], set[str]]] = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}),
    "testsuite": ({"name", "tests", "failures", "errors"}, {"skipped", "time"}),
    "testcase": ({"name"}, {"classname", "time"}),
    "failure": (set(), {"type", "message"}),
    "skipped": (set(), {"type", "message"}),
}


def test_json_and_the_reports_of_a_ci_system(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    summary, junit = tmp_path / "summary.md", tmp_path / "junit.xml"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))

    words = ["--max-step-ms", "15", "--max-wait-share", "10", "--junit", str(junit), "--json"]
    assert check(folder, "fast_cnn", *words) == FAILED

    out, err = capsys.readouterr()
    document = json.loads(out)
    assert {one["name"]: one["outcome"] for one in document["checks"]} == {
        "end": "passed",
        "wait_share": "inconclusive",
        "step_ms": "failed",
    }
    assert [line.split(" ")[0] for line in err.splitlines()] == ["::warning", "::error"]
    root = ElementTree.parse(junit).getroot()
    (suite,) = root
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    for element in root.iter():
        needed, allowed = JENKINS[element.tag]
        assert needed <= set(element.attrib) <= needed | allowed
    assert summary.read_text(encoding="utf-8").startswith(
        "before\n### ❌ tfwatch check fast\\_cnn: failed\n"
    )


def test_text_from_outside_is_escaped_everywhere(tmp_path: Path) -> None:
    figure = CheckedFigure("end", f"end {HOSTILE}", "", "failed", reason=HOSTILE)

    xml = ElementTree.fromstring(junit_xml([HOSTILE], [figure]).encode())
    assert len(list(xml.iter())) == 4
    (annotation,) = github_annotations([HOSTILE], [figure])
    assert annotation.count("\n") == annotation.count("\r") == annotation.count("\x1b") == 0
    assert annotation.startswith("::error title=tfwatch check a]]>&<b x='1'>|`%25")
    markdown = step_summary([HOSTILE], [figure])
    assert len(markdown.splitlines()) == 6
    assert "<b" not in markdown.replace("\\<", "")
    assert "\\|\\`" in markdown


def test_an_error_of_the_training_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = (
        TrainingFailed(1, 7, "ValueError: \x1b[31m\nno", "Traceback"),
        RunEnded(9, "failed", 7),
    )
    record(tmp_path / "one_cnn", noisy_rows(3), *events)

    assert check(tmp_path, "one_cnn", "--max-step-ms", "25") == FAILED
    assert (
        capsys.readouterr()
        .out.splitlines()[0]
        .endswith("one_cnn failed at step 7: ValueError:  [31m no")
    )


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [(1, 5, "passed"), (4, 6, "inconclusive"), (5.1, 6, "failed"), (math.nan, 1, "failed")],
)
def test_a_limit_is_decided_by_the_end_of_the_interval(
    low: float, high: float, outcome: str
) -> None:
    assert decide(low, high, limit=5) == outcome
