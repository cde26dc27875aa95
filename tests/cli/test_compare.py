"""`tfwatch compare`: text, JSON and refusals."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.commands import Done, typed
from tests.cli.recorded import FINISHED, noisy_rows, record
from tests.runs.folders import HOST
from tfwatch.core.events import RunEnded, StagesFound
from tfwatch.core.rows import STAGE
from tfwatch.judge.comparing.run_to_compare import arguments_by_name


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three runs of 20 ms, and three of 24 ms with prefetch, in turn."""
    for n in range(3):
        record(tmp_path / f"a{n}_cnn", noisy_rows(n, 20 + 0.05 * n), start_s=20 * n)
        rows = noisy_rows(10 + n, 24 + 0.05 * n)
        record(tmp_path / f"b{n}_cnn", rows, start_s=20 * n + 10, knobs={"prefetch": "4"})
    return tmp_path


def compare(folder: Path, *words: str) -> Done:
    return typed("compare", *words, "--runs-dir", folder)


def lines_of(folder: Path, *words: str) -> list[str]:
    done = compare(folder, *words)
    assert done.code == 0
    return done.out.splitlines()


def compared(folder: Path, *words: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads("\n".join(lines_of(folder, *words, "--json")))
    return document


def test_a_slower_run_is_found_and_the_setting_that_differs_is_named(folder: Path) -> None:
    found = compared(folder, "a0_cnn", "b0_cnn")

    assert found["answer"] == "slower"
    assert found["speedup_low"] < 20 / 24 < found["speedup_high"] < 1
    assert found["spread"]["source"] == "assumed"
    assert found["changes"] == [{"kind": "setting", "name": "prefetch", "from": "off", "to": "4"}]
    step = found["figures"][0]
    assert (step["name"], step["is_clear"]) == ("step time", True)
    assert step["low"] < step["difference"] < step["high"]


def test_the_name_of_a_script_is_its_newest_run(folder: Path) -> None:
    record(folder / "c0_cnn_small", noisy_rows(3, 9), start_s=90)
    assert "b2_cnn" in "\n".join(lines_of(folder, "a0_cnn", "cnn"))


def test_runs_in_turn_measure_the_spread(folder: Path) -> None:
    found = compared(folder, "a0_cnn,a1_cnn,a2_cnn", "b0_cnn,b1_cnn,b2_cnn")

    assert found["answer"] == "slower"
    assert found["spread"]["source"] == "measured"
    assert [figure["is_clear"] for figure in found["losses"]] == [False]
    assert found["loss_epoch"] == 0


def test_runs_of_two_scripts_are_compared_and_their_names_differ(folder: Path) -> None:
    record(folder / "c_cnn", noisy_rows(5))
    record(folder / "c_mnist", noisy_rows(5, 10.0), workload="mnist")

    found = compared(folder, "c_cnn", "c_mnist")

    assert found["answer"] == "faster"
    assert [(one["name"], one["from"], one["to"]) for one in found["changes"]] == [
        ("workload", "cnn", "mnist"),
    ]


def test_the_arguments_of_a_workload_are_settings_by_name() -> None:
    words = "--seed 1 --eager --batch-size=64"
    assert arguments_by_name(words) == {"seed": "1", "eager": "on", "batch_size": "64"}


def test_runs_of_one_side_may_differ_in_the_seed(folder: Path) -> None:
    for seed in "12":
        arguments = {"arguments": f"--seed {seed}"}
        record(folder / f"d{seed}_cnn", noisy_rows(int(seed)), settings=arguments)

    found = compared(folder, "d1_cnn,d2_cnn", "b0_cnn")

    assert found["answer"] == "slower"


@pytest.mark.parametrize(
    ("words", "code", "outcome"),
    [
        pytest.param(["a0_cnn", "b0_cnn", "--max-slower", "5"], 4, "failed", id="slower"),
        pytest.param(["a0_cnn", "b0_cnn", "--max-slower", "20"], 3, "inconclusive", id="open"),
        pytest.param(["a0_cnn", "b0_cnn", "--max-slower", "50"], 0, "passed", id="within"),
        pytest.param(["b0_cnn", "a0_cnn", "--max-slower", "0"], 0, "passed", id="faster"),
        pytest.param(["b0_cnn", "killed_cnn", "--max-slower", "50"], 4, "failed", id="killed"),
    ],
)
def test_a_limit_is_decided_by_the_whole_interval(
    words: list[str], code: int, outcome: str, folder: Path
) -> None:
    record(folder / "killed_cnn", noisy_rows(4), RunEnded(9, "failed", 300))

    done = compare(folder, *words)
    assert done.code == code
    assert done.out.splitlines()[-1].startswith(f"{outcome}: step time of B ")


def test_the_text_begins_with_the_sides_and_the_answer(folder: Path) -> None:
    lines = lines_of(folder, "a0_cnn", "b0_cnn")
    assert lines[:3] == ["A  a0_cnn (cnn, 1 run)", "B  b0_cnn (cnn, 1 run)", ""]
    assert lines[3].startswith("B is 1.20 x slower than A (1.0")
    assert lines[3].endswith("): 20.0 → 23.9 ms a step, 6.0 s → 7.2 s in all")
    assert lines[4:7] == [
        "Differs: prefetch off → 4",
        "The same: versions, machine",
        "Not recorded: script of A, pipeline of A, script of B, pipeline of B",
    ]
    assert lines[8].split() == ["A", "B", "difference", "95", "%", "interval"]
    assert [line for line in lines if line.startswith("Equal runs differ by about 3.")]


def record_script(folder: Path, text: str, name: str = "train.py") -> None:
    (folder / "sources.json").write_text(json.dumps({name: text, "data.py": "SIZE = 1\n"}))


def test_the_lines_and_stages_that_differ_are_shown_also_of_scripts_with_two_names(
    folder: Path,
) -> None:
    for name, stages in (("old_cnn", ["map(load)"]), ("new_cnn", ["map(load)", "prefetch(4)"])):
        record(folder / name, noisy_rows(5), StagesFound(1, 0, stages, stages), FINISHED)
        reading = np.zeros(len(stages), dtype=STAGE)
        reading["at_ns"], reading["stage"] = 1, range(len(stages))
        (folder / name / "stages.bin").write_bytes(reading.tobytes())
    record_script(folder / "old_cnn", "import data\nds = ds.map(load)\nfit(ds)\n")
    record_script(
        folder / "new_cnn", "import data\nds = ds.map(load).prefetch(4)\nfit(ds)\n", "b.py"
    )

    lines = lines_of(folder, "old_cnn", "new_cnn")
    assert lines[4:9] == [
        "Differs: pipeline + prefetch(4)",
        "The same: settings, versions, machine",
        "    # b.py:2",
        "    - ds = ds.map(load)",
        "    + ds = ds.map(load).prefetch(4)",
    ]


def test_scripts_with_the_same_text_are_the_same(folder: Path) -> None:
    for name in ("a0_cnn", "a1_cnn"):
        record_script(folder / name, "fit(ds)\n")

    lines = lines_of(folder, "a0_cnn", "a1_cnn")
    assert lines[4] == "The same: script, settings, versions, machine"


def test_a_name_alone_compares_its_newest_run_with_the_one_before(folder: Path) -> None:
    found = compared(folder, "b")

    sides = [run["run"] for side in found["sides"] for run in side["runs"]]
    assert sides == ["b1_cnn", "b2_cnn"]


def test_markdown_has_the_answer_and_the_table_and_names_are_no_markup(folder: Path) -> None:
    record(folder / "c_*cnn*", noisy_rows(20, 24))

    lines = lines_of(folder, "a0_cnn", "c_*cnn*", "--markdown")
    assert lines[:2] == [r"* A: a0\_cnn (cnn, 1 run)", r"* B: c\_\*cnn\* (cnn, 1 run)"]
    assert lines[3].startswith("**B is 1.20 x slower than A (1.0")
    assert lines[8:10] == [
        "|  | A | B | difference | 95 % interval |",
        "| --- | --- | --- | --- | --- |",
    ]
    assert lines[10].startswith("| step time | 20.0 ms | 23.9 ms | +3.97 ms | +")


def test_runs_of_different_lengths_count_with_the_steps_in_common(folder: Path) -> None:
    rows = noisy_rows(7, steps=1200)
    rows["compute_ms"][300:] *= 1.5
    record(folder / "long_cnn", rows)

    found = compared(folder, "a0_cnn", "long_cnn")

    assert found["answer"] in ("same", "unclear")
    assert found["steps"] < 300


def test_batch_sizes_are_compared_by_example(folder: Path) -> None:
    record(folder / "large_cnn", noisy_rows(8, 40.0), batch_size=64)

    found = compared(folder, "a0_cnn", "large_cnn")

    assert (found["per"], found["answer"]) == ("example", "unclear")
    assert found["figures"][0]["before"] == pytest.approx(20 / 32, rel=0.02)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
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
        pytest.param(
            ["a0_cnn", "b"],
            "3 runs match 'b': give one of b2_cnn, b1_cnn, b0_cnn",
            id="a part of several names",
        ),
        pytest.param(
            ["a0"], "1 run of 'a0' in {folder}: a comparison needs two", id="a name with one run"
        ),
        pytest.param(
            ["a0_cnn", "unknown_cnn"],
            "the batch size of unknown_cnn is unknown: its steps may be other work",
            id="no batch size",
        ),
        pytest.param(
            ["a0_cnn", "far_cnn"],
            "a0_cnn ({host}, 4 cores, 16 GB, CPU) and far_cnn (eve, 2 cores, CPU) are different"
            " machines: their step times cannot be compared",
            id="another machine",
        ),
        pytest.param(
            ["a0_cnn", "short_cnn"],
            "short_cnn has 40 steady steps with its last setting: a comparison needs 45",
            id="a short run",
        ),
    ],
)
def test_bad_input_is_one_sentence(words: list[str], sentence: str, folder: Path) -> None:
    record(folder / "unknown_cnn", noisy_rows(1), batch_size=None)
    record(folder / "far_cnn", noisy_rows(1), machine={"host": "eve", "cores": 2})
    record(folder / "short_cnn", noisy_rows(1, steps=40))

    why = sentence.format(folder=folder, host=HOST)
    assert compare(folder, *words) == (2, "", f"tfwatch: {why}\n")
