"""`tfwatch runs goodput`: the time of a training over its restarts."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.groups import write_group
from tests.restarts import CALLBACKS_S, COMPUTE, HOST, IMPORT_S, VALIDATION_S, WAIT, write_restart
from tests.runs.folders import ORIGIN_WALL_NS
from tests.schemas import errors
from tfwatch.cli import main
from tfwatch.runs.groups.group_file import GroupFile, folder_of_rank, write_group_file

if TYPE_CHECKING:
    from pathlib import Path

ONE, TWO, THREE = (
    "2026-01-01T10-00-00_train",
    "2026-01-01T10-10-00_train",
    "2026-01-01T10-20-00_train",
)


def goodput(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["runs", "goodput", *words, "--json", "--runs-dir", str(folder)]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert errors("goodput", document) == []
    return document


def names(document: dict[str, Any]) -> list[str]:
    return [run["run"] for run in document["runs"]]


@pytest.fixture
def restarted(tmp_path: Path) -> Path:
    """A training that fails in its fourth epoch, goes on with the third, is stopped there, and goes on to its end."""
    end_s = write_restart(tmp_path / ONE, 0.0, 0, 350, "failed")
    end_s = write_restart(tmp_path / TWO, end_s + 20, 2, 150, "stopped")
    write_restart(tmp_path / THREE, end_s + 4, 3, 300, "finished")
    return tmp_path


def test_steps_that_were_trained_again_are_lost(
    restarted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = goodput(restarted, capsys)

    assert [run["trained_twice_steps"] for run in document["runs"]] == [150, 50, 0]
    assert document["useful_steps"] == {"value": 600, "low": 600, "high": 600}
    assert [run["down_s"] for run in document["runs"]] == [
        pytest.approx(20.0),
        pytest.approx(4.0),
        None,
    ]
    assert document["useful_steps_per_s"] == pytest.approx(600 / document["wall_s"])
    assert document["goodput_share"]["value"] == pytest.approx(
        0.6 * (COMPUTE + HOST) / document["wall_s"]
    )


def test_the_parts_are_all_of_the_wall_clock_time(
    restarted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = goodput(restarted, capsys)

    parts = document["parts_s"]
    assert sum(parts.values()) == pytest.approx(document["wall_s"], abs=1e-3)
    assert parts["training_steps"] == pytest.approx(0.6 * (COMPUTE + HOST))
    assert parts["data_wait"] == pytest.approx(0.6 * WAIT)
    assert parts["validation"] == pytest.approx(6 * VALIDATION_S)
    assert parts["start"] == pytest.approx(3 * IMPORT_S)
    assert parts["between_epochs"] == pytest.approx(6 * CALLBACKS_S, abs=1e-3)
    assert parts["between_runs"] == pytest.approx(24.0)
    # The third epoch of the first run with its validation, the fourth of both, each without one.
    assert parts["trained_twice"] == pytest.approx(2.0 + VALIDATION_S + CALLBACKS_S)


def test_the_text_has_the_share_the_parts_and_a_line_a_run(
    restarted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", "goodput", "--runs-dir", str(restarted)]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("cnn: 3 runs of one training, 2 restarts, 35.")
    assert lines[1].startswith("goodput 14 %: 600 useful steps, ")
    assert next(line for line in lines if line.startswith("trained twice")).endswith("  200 steps")
    assert next(line for line in lines if line.startswith(TWO)).split()[-5:] == [
        "3",
        "150",
        "50",
        "4.0",
        "s",
    ]


@pytest.mark.parametrize("chosen", [ONE, TWO, THREE])
def test_any_run_of_the_training_finds_the_others(
    chosen: str, restarted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert names(goodput(restarted, capsys, chosen)) == [ONE, TWO, THREE]


def test_a_later_run_may_go_back_further_than_the_one_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    end_s = write_restart(tmp_path / ONE, 0.0, 0, 350, "failed")
    end_s = write_restart(tmp_path / TWO, end_s + 1, 3, 150, "failed")
    write_restart(tmp_path / THREE, end_s + 1, 1, 100, "stopped")

    document = goodput(tmp_path, capsys)

    assert [run["trained_twice_steps"] for run in document["runs"]] == [250, 150, 0]
    assert document["useful_steps"]["value"] == 200


def test_a_run_that_begins_with_epoch_0_again_leaves_the_loss_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    end_s = write_restart(tmp_path / ONE, 0.0, 0, 250, "failed")
    write_restart(tmp_path / TWO, end_s + 5, 0, 200, "finished")

    document = goodput(tmp_path, capsys)
    assert main(["runs", "goodput", "--runs-dir", str(tmp_path)]) == 0
    text = capsys.readouterr().out

    reason = f"{TWO} begins with epoch 0 again: whether it loaded a checkpoint is not recorded"
    assert document["lost_progress_not_known"] == reason
    assert document["useful_steps"] == {"value": None, "low": 200, "high": 450}
    assert document["goodput_share"]["value"] is None
    assert document["goodput_share"]["low"] == pytest.approx(0.2 * 8 / document["wall_s"])
    assert document["runs"][0]["trained_twice_steps"] is None
    assert document["runs"][0]["trained_twice_steps_high"] == 250
    assert f"lost progress: n/a, {reason}" in text
    assert "n/a, up to 250" in text


@pytest.mark.parametrize(
    ("settings", "useful"),
    [
        pytest.param({"begin_with": None}, 200, id="new weights"),
        pytest.param({"begin_with": "last.weights.h5"}, 450, id="weights of the run before"),
    ],
)
def test_a_workload_knows_the_weights_that_it_begins_with(
    settings: dict[str, Any], useful: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    end_s = write_restart(tmp_path / ONE, 0.0, 0, 250, "failed", settings={"begin_with": None})
    write_restart(tmp_path / TWO, end_s + 5, 0, 200, "finished", settings=settings)

    assert goodput(tmp_path, capsys)["useful_steps"]["value"] == useful


def test_a_killed_run_is_followed_by_its_restart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_restart(tmp_path / ONE, 0.0, 0, 250)
    write_restart(tmp_path / TWO, 30.0, 2, 100, "finished")

    document = goodput(tmp_path, capsys)

    assert [(run["state"], run["trained_twice_steps"]) for run in document["runs"]] == [
        ("killed", 50),
        ("finished", 0),
    ]


def test_fits_of_one_process_go_on_without_a_loss(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    end_s = write_restart(tmp_path / ONE, 0.0, 0, 200, "finished", pid=7)
    write_restart(tmp_path / TWO, end_s + 1, 0, 100, "finished", pid=7)

    assert goodput(tmp_path, capsys)["useful_steps"]["value"] == 300


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param({"cause": "finished"}, {}, id="the one before finished"),
        pytest.param({}, {"start_s": 200_000.0}, id="two days later"),
        pytest.param({"after_s": 100.0}, {"first_epoch": 2}, id="at the same time"),
        pytest.param({}, {"workload": "mlp"}, id="another workload"),
        pytest.param({}, {"batch_size": 64}, id="another batch size"),
        pytest.param({}, {"settings": {"mode": "eager"}}, id="another setting"),
        pytest.param({}, {"group": "g", "rank": 0, "group_size": 2}, id="a rank"),
    ],
)
def test_another_training_is_no_restart(
    first: dict[str, Any],
    second: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    usual: dict[str, Any] = {
        "start_s": 0.0,
        "first_epoch": 0,
        "steps": 250,
        "cause": "failed",
        "batch_size": 32,
    }
    write_restart(tmp_path / ONE, **{**usual, **first})
    write_restart(tmp_path / TWO, **{**usual, "start_s": 20.0, **second})

    assert names(goodput(tmp_path, capsys)) == [TWO]


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(
            {"start_s": 200_000.0, "first_epoch": 3}, id="with a later epoch, two days later"
        ),
        pytest.param({"after": ONE}, id="by name"),
        pytest.param({"settings": {"epochs": 3, "seed": 7}}, id="with another seed"),
    ],
)
def test_a_restart_is_found(
    second: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cause = "finished" if "after" in second else "failed"
    write_restart(tmp_path / ONE, 0.0, 0, 350, cause)
    write_restart(tmp_path / TWO, **{"start_s": 20.0, "first_epoch": 0, "steps": 100, **second})

    assert names(goodput(tmp_path, capsys)) == [ONE, TWO]


def test_runs_that_are_named_count_as_they_are(
    restarted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = goodput(restarted, capsys, f"{THREE},{ONE}")

    assert names(document) == [ONE, THREE]
    assert [run["trained_twice_steps"] for run in document["runs"]] == [50, 0]


def test_the_first_rank_stands_for_its_group(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, (start_s, first_epoch) in enumerate([(0.0, 0), (20.0, 1)], 1):
        folder = write_group(tmp_path / f"night-{number}", [1, 1])
        began_ns = ORIGIN_WALL_NS + round(start_s * 1e9)
        write_group_file(folder, GroupFile("night", "SLURM", began_ns / 1e9, began_ns, 2))
        for rank in (0, 1):
            shutil.rmtree(folder_of_rank(folder, rank))
            place = folder_of_rank(folder, rank)
            write_restart(
                place,
                start_s,
                first_epoch,
                150,
                "failed",
                group=folder.name,
                rank=rank,
                group_size=2,
            )

    document = goodput(tmp_path, capsys)

    assert names(document) == ["night-1/rank-0", "night-2/rank-0"]
    assert document["useful_steps"]["value"] == 250
    assert names(goodput(tmp_path, capsys, "night-1/rank-1")) == [
        "night-1/rank-1",
        "night-2/rank-1",
    ]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["none"], "no run 'none' in {runs}: tfwatch runs lists them"),
        ([f"{ONE},{ONE}"], "a run is named twice"),
        ([f"{ONE},none"], "no run 'none' in {runs}: tfwatch runs lists them"),
    ],
)
def test_bad_input_is_one_sentence(
    words: list[str], sentence: str, restarted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", "goodput", *words, "--runs-dir", str(restarted)]) == 2
    assert capsys.readouterr().err == f"tfwatch: {sentence.format(runs=restarted)}\n"
