"""`tfwatch compare`: text, JSON and refusals."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.recorded import noisy_rows, record
from tfwatch.cli import main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three runs of 20 ms, and three of 24 ms with prefetch, in turn."""
    for n in range(3):
        record(tmp_path / f"a{n}_cnn", noisy_rows(n, 20 + 0.05 * n), start_s=20 * n)
        rows = noisy_rows(10 + n, 24 + 0.05 * n)
        record(tmp_path / f"b{n}_cnn", rows, start_s=20 * n + 10, knobs={"prefetch": "4"})
    return tmp_path


def compared(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["compare", *words, "--json", "--runs-dir", str(folder)]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_a_slower_run_is_found_and_the_setting_that_differs_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (found,) = compared(folder, capsys, "a0_cnn", "b0_cnn")["comparisons"]

    assert found["answer"] == "slower"
    assert found["speedup_low"] < 20 / 24 < found["speedup_high"] < 1
    assert found["spread"]["source"] == "assumed"
    assert found["changes"] == [{"kind": "setting", "name": "prefetch", "from": "off", "to": "4"}]
    step = found["figures"][0]
    assert (step["name"], step["is_clear"]) == ("step time", True)
    assert step["low"] < step["difference"] < step["high"]


def test_runs_in_turn_measure_the_spread(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = compared(folder, capsys, "a0_cnn,a1_cnn,a2_cnn", "b0_cnn,b1_cnn,b2_cnn")[
        "comparisons"
    ]

    assert (found["answer"], found["alternating"]) == ("slower", True)
    assert (found["spread"]["source"], found["spread"]["degrees_of_freedom"]) == ("measured", 4)
    assert [figure["is_clear"] for figure in found["losses"]] == [False]
    assert found["loss_epoch"] == 0


def test_equal_runs_of_the_past_narrow_the_interval(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = compared(folder, capsys, "a0_cnn", "b0_cnn")["comparisons"][0]
    for n in range(3, 6):
        record(folder / f"a{n}_cnn", noisy_rows(n), start_s=100 * n)
    past = compared(folder, capsys, "a0_cnn", "b0_cnn")["comparisons"][0]

    assert past["spread"]["source"] == "past"
    assert past["speedup_high"] - past["speedup_low"] < alone["speedup_high"] - alone["speedup_low"]


def test_several_sides_are_compared_with_the_first(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = compared(folder, capsys, "a0_cnn", "a1_cnn", "b1_cnn")

    assert [one["side"] for one in document["sides"]] == ["A", "B", "C"]
    assert [(one["side"], one["answer"]) for one in document["comparisons"]] == [
        ("B", "unclear"),
        ("C", "slower"),
    ]


def test_the_text_begins_with_the_sides_and_the_answer(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "a0_cnn", "b0_cnn", "--runs-dir", str(folder)]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["A  a0_cnn (cnn, 1 run)", "B  b0_cnn (cnn, 1 run)", ""]
    assert lines[3].startswith("B is slower than A: step time +19.7 % (95 % interval +")
    assert lines[5].split() == ["A", "B", "B", "less", "A", "95", "%", "interval"]
    assert [line for line in lines if line.startswith("Equal runs differ by about 3.")]
    assert lines[-1] == "Differs: prefetch off → 4"


def test_markdown_has_the_answer_and_the_table_and_names_are_no_markup(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(folder / "c_*cnn*", noisy_rows(20, 24))

    assert main(["compare", "a0_cnn", "c_*cnn*", "--markdown", "--runs-dir", str(folder)]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [r"* A: a0\_cnn (cnn, 1 run)", r"* B: c\_\*cnn\* (cnn, 1 run)"]
    assert lines[3].startswith("**B is slower than A: step time +")
    assert lines[5:7] == [
        "|  | A | B | B less A | 95 % interval |",
        "| --- | --- | --- | --- | --- |",
    ]
    assert lines[7].startswith("| step time | 20.0 ms | 23.9 ms | +3.97 ms | +")


def test_the_time_breakdown_stands_under_its_own_head(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "a0_cnn", "b0_cnn", "--runs-dir", str(folder)]) == 0

    names = [line[:15].strip() for line in capsys.readouterr().out.splitlines()]
    breakdown, epoch = names.index("time breakdown"), names.index("after epoch 1")
    assert names[breakdown - 2 : breakdown] == ["peak memory", "energy per step"]
    assert {"compute", "data wait", "host"} <= set(names[breakdown + 1 : epoch])
    assert names[epoch + 1] == "loss"


def test_runs_of_different_lengths_count_with_the_steps_in_common(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = noisy_rows(7, steps=1200)
    rows["compute_ms"][300:] *= 1.5
    record(folder / "long_cnn", rows)

    (found,) = compared(folder, capsys, "a0_cnn", "long_cnn")["comparisons"]

    assert found["answer"] in ("same", "unclear")
    assert found["steps"] < 300


def test_batch_sizes_are_compared_by_example(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(folder / "large_cnn", noisy_rows(8, 40.0), batch_size=64)

    (found,) = compared(folder, capsys, "a0_cnn", "large_cnn", "--by-example")["comparisons"]

    assert (found["per"], found["answer"]) == ("example", "unclear")
    assert found["figures"][0]["before"] == pytest.approx(20 / 32, rel=0.02)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        pytest.param(
            ["a0_cnn"],
            "give at least two runs, as: tfwatch compare A B, or A1,A2,A3 B1,B2,B3",
            id="one",
        ),
        pytest.param(["a0_cnn", "a0_cnn"], "a0_cnn is given twice: give two runs", id="twice"),
        pytest.param(
            ["a0_cnn,x", "a1_cnn"], "no run 'x' in {folder}: tfwatch runs lists them", id="unknown"
        ),
        pytest.param(
            ["a0_cnn,b0_cnn", "a1_cnn"],
            "a0_cnn and b0_cnn are on one side, but prefetch is off and 4",
            id="a side of two settings",
        ),
        pytest.param(["a0_cnn", ","], "',' names no run", id="a comma"),
    ],
)
def test_bad_input_is_one_sentence(
    words: list[str], sentence: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *words, "--runs-dir", str(folder)]) == 2
    assert capsys.readouterr() == ("", f"tfwatch: {sentence.format(folder=folder)}\n")
