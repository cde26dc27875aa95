"""`tfwatch check`, `compare`, `explain` and `export` of a group of ranks."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.commands.evidence.recorded import add_memory, noisy_rows, record
from tests.groups import write_group
from tests.schemas import errors
from tfwatch.cli import main
from tfwatch.core.events import PipelineSwitched, RunEnded
from tfwatch.runs.groups.group_file import folder_of_rank

if TYPE_CHECKING:
    from pathlib import Path

PASSED, BAD_INPUT, INCONCLUSIVE, FAILED = 0, 2, 3, 4


@pytest.fixture(scope="module")
def groups(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A group whose rank 2 waits 6 of 15 ms for data, one of 10 ms without a straggler, and a run."""
    runs_dir = tmp_path_factory.mktemp("runs")
    add_memory(folder_of_rank(write_group(runs_dir / "late", [1, 1, 6, 1]), 1), 2**30)
    write_group(runs_dir / "calm", [1, 1, 1, 1])
    record(runs_dir / "single_cnn", noisy_rows(1))
    return runs_dir


def tfwatch(groups: Path, *words: str) -> int:
    return main([*words, "--runs-dir", str(groups)])


@pytest.mark.parametrize(
    ("words", "code"),
    [
        pytest.param(["late", "--max-wait-share", "50"], PASSED, id="wait of the worst rank below"),
        pytest.param(["late", "--max-wait-share", "20"], FAILED, id="wait of the worst rank above"),
        pytest.param(
            ["late", "--max-wait-share", "40"],
            INCONCLUSIVE,
            id="wait of the worst rank at the limit",
        ),
        pytest.param(["late", "--max-step-ms", "18"], PASSED, id="the group's step below"),
        pytest.param(["late", "--max-step-ms", "12"], FAILED, id="the group's step above"),
        pytest.param(["late", "--max-straggler-share", "10"], FAILED, id="a straggler"),
        pytest.param(
            ["late", "--max-straggler-share", "40"], PASSED, id="a straggler below the limit"
        ),
        pytest.param(["calm", "--max-straggler-share", "10"], PASSED, id="no straggler"),
        pytest.param(["late", "--max-memory", "2"], INCONCLUSIVE, id="memory of one rank only"),
        pytest.param(
            ["late", "--baseline", "calm", "--max-slower", "10"],
            FAILED,
            id="slower than the baseline",
        ),
        pytest.param(
            ["calm", "--baseline", "late", "--max-slower", "10"],
            PASSED,
            id="faster than the baseline",
        ),
        pytest.param(
            ["single_cnn", "--max-straggler-share", "10"], BAD_INPUT, id="a run has no ranks"
        ),
    ],
)
def test_a_limit_on_a_group_is_one_on_its_slowest_rank(
    words: list[str], code: int, groups: Path
) -> None:
    assert tfwatch(groups, "check", *words) == code


def test_a_check_names_the_rank_that_decides(
    groups: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        tfwatch(
            groups,
            "check",
            "late",
            "--max-wait-share",
            "20",
            "--max-straggler-share",
            "10",
            "--json",
        )
        == FAILED
    )

    document = json.loads(capsys.readouterr().out)
    assert errors("check", document) == []
    end, wait, straggler = document["checks"]
    assert end["outcome"] == "passed"
    assert wait["sentence"].startswith("data wait share of rank 2 of late 40.0 %")
    assert straggler["sentence"].startswith("wait for rank 2, of a step 33.3 %")
    assert straggler["low"] < 1 / 3 < straggler["high"]


def test_all_equal_groups_count(groups: Path) -> None:
    assert tfwatch(groups, "check", "late,calm", "--max-straggler-share", "10") == INCONCLUSIVE


def test_a_rank_without_a_run_leaves_the_end_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_group(tmp_path / "one", [1, 1], size=3)

    assert tfwatch(tmp_path, "check", "one", "--max-step-ms", "50") == INCONCLUSIVE
    assert capsys.readouterr().out.startswith(
        "inconclusive  end of the run: rank 2 of one has no run\n"
    )


@pytest.mark.parametrize(
    ("waits", "changes", "reason"),
    [
        pytest.param([1], {}, "one: only one rank has a run", id="one rank"),
        pytest.param(
            [1, 1],
            {"not_split": "by Keras"},
            "one: the steps of rank 0 are not split: by Keras",
            id="split",
        ),
    ],
)
def test_a_figure_that_is_not_known_is_inconclusive(
    waits: list[float],
    changes: dict[str, Any],
    reason: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_group(tmp_path / "one", waits, **changes)

    assert (
        tfwatch(tmp_path, "check", "one", "--max-step-ms", "50", "--max-straggler-share", "10")
        == INCONCLUSIVE
    )
    _, step, straggler, _ = capsys.readouterr().out.splitlines()
    assert step == f"inconclusive  step time, limit 50.0 ms: {reason}"
    assert straggler == f"inconclusive  wait for the slowest rank, limit 10.0 %: {reason}"


def test_groups_are_compared_by_the_steps_of_their_last_ranks(
    groups: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tfwatch(groups, "compare", "late", "calm", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert tfwatch(groups, "compare", "late", "calm") == 0
    text = capsys.readouterr().out

    assert errors("compare", document) == []
    (found,) = document["comparisons"]
    figures = {one["name"]: one for one in found["figures"]}
    assert found["answer"] == "faster"
    assert (figures["step time"]["before"], figures["step time"]["after"]) == pytest.approx(
        (15.0, 10.0)
    )
    assert (figures["data wait"]["before"], figures["data wait"]["is_clear"]) == (
        pytest.approx(6.0),
        True,
    )
    assert (figures["compute"]["before"], figures["compute"]["is_clear"]) == (
        pytest.approx(8.0),
        False,
    )
    assert (
        figures["energy per step"]["missing"]
        == "ranks of one machine may share what its sensors measure"
    )
    assert [side["runs"][0]["ranks"] for side in document["sides"]] == [4, 4]
    assert text.startswith("A  late (cnn, 1 group of 4 ranks)\n")
    assert "A group counts as one run: its ranks share each step." in text


def test_only_the_steps_since_the_last_switch_of_any_rank_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_group(tmp_path / "one", [1, 1])
    folder = write_group(tmp_path / "two", [1, 1])
    switched = PipelineSwitched(1, "prefetch", "off", "4", 30, 30, 1.0, "user")
    record(
        folder_of_rank(folder, 1),
        noisy_rows(1, 9.0, steps=60),
        switched,
        RunEnded(9**9, "finished", 60),
    )

    assert tfwatch(tmp_path, "check", "two", "--max-step-ms", "50") == INCONCLUSIVE
    assert "two has 30 steady steps: 45 are needed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["compare", "late", "calm", "--by-example"],
            "late is a group: a rank knows the size of its own batches only",
        ),
        (
            ["export", "late", "--to", "csv"],
            "it is a group of ranks: name one of them, as late/rank-0",
        ),
    ],
)
def test_what_a_group_cannot_give_is_one_sentence(
    words: list[str], sentence: str, groups: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tfwatch(groups, *words) == BAD_INPUT
    assert capsys.readouterr().err.endswith(f"{sentence}\n")


def explained(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert tfwatch(folder, "explain", "--json") == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert errors("explain", document) == []
    return document


def test_the_straggler_is_a_finding_with_evidence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_group(tmp_path / "late", [1, 1, 6, 1])

    document = explained(tmp_path, capsys)
    straggler, own = document["findings"]

    assert (document["run"], document["ranks"], document["verdict"]) == (
        "late",
        4,
        "HIGHLY input-bound",
    )
    assert (straggler["kind"], straggler["rank"]) == ("straggler", None)
    assert straggler["finding"].startswith(
        "STRAGGLER rank 2, 33 %: the other ranks wait 5.0 of 15.0 ms"
    )
    evidence = {fact["name"]: fact["value"] for fact in straggler["evidence"]}
    assert (evidence["cause"], evidence["data_wait_of_the_rank"]) == (
        "data wait",
        pytest.approx(6.0),
    )
    assert evidence["group_step_without_it"] == pytest.approx(10.0)
    assert straggler["suggestion"].endswith("late/rank-2")
    assert (own["kind"], own["rank"]) == ("input-bound", 2)


def test_ranks_that_do_not_train_are_findings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_group(tmp_path / "one", [1, 1, 1], size=4)
    record(
        folder_of_rank(folder, 0),
        noisy_rows(1, 9.0, steps=20),
        RunEnded(9**9, "failed", 20, "no disk"),
    )

    document = explained(tmp_path, capsys)

    found = {one["kind"]: one for one in document["findings"]}
    assert document["state"] == "failed"
    assert found["rank-missing"]["finding"] == "RANKS: rank 3 of one has no run"
    assert (found["rank-state"]["rank"], found["no-straggler"]["confidence"]) == (0, "low")
    assert found["rank-state"]["finding"] == "RANK: failed at step 20, 40 steps behind"


def test_a_damaged_group_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_group(tmp_path / "one", [1])
    shutil.rmtree(folder_of_rank(folder, 0))

    for words in (
        ["explain", "one"],
        ["check", "one", "--max-step-ms", "5"],
        ["compare", "one", "one"],
    ):
        assert main([*words[:1], str(folder), *words[2:]]) == BAD_INPUT
        assert "no rank of the group has a run" in capsys.readouterr().err
