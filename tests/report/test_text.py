"""The summary of canned runs."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.judge.step_rows import make_steps, plain, restart
from tests.report.written_runs import FINISHED, SWITCH, open_written, switched_run, text_of
from tests.runs.folders import FakeClock, read_back, write_run
from tfwatch.core.events import (
    EpochEnded,
    EpochStarted,
    Event,
    OthersTrained,
    RecordingLost,
    RunEnded,
    TrainingFailed,
    ValidationEnded,
)
from tfwatch.core.refusals import NotTimed
from tfwatch.core.rows import Flag, Phase, Rows
from tfwatch.report import document, text
from tfwatch.runs.format import MANIFEST, Pulse
from tfwatch.runs.run import open_run

if TYPE_CHECKING:
    from pathlib import Path

    from tfwatch.core.events import Event


@pytest.mark.parametrize(
    ("split", "told"),
    [
        ("exact", []),
        ("", []),
        (
            "in-graph timestamps, steps_per_execution=10",
            ["the parts of a step were separated by in-graph timestamps, "],
        ),
    ],
)
def test_how_steps_were_told_apart_is_told_where_it_is_not_as_usual(
    split: str, told: list[str], tmp_path: Path
) -> None:
    run = open_written(tmp_path / "run", plain(30), FINISHED, split=split)

    lines = [line for line in text_of(run) if "parts of a step" in line]

    assert len(lines) == len(told)
    assert all(line.startswith(start) for line, start in zip(lines, told, strict=True))
    assert document.as_json(run)["split"] == (split or None)


def test_why_the_parts_of_a_step_were_not_separated_is_told(tmp_path: Path) -> None:
    run = open_written(tmp_path / "run", plain(30), FINISHED, not_split="not in a graph")

    assert any("step were not separated: not in a graph" in line for line in text_of(run))


def test_what_tensorflow_said_is_told_with_its_meaning(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    write_run(folder, plain(30), FINISHED)
    onednn = (
        "I0000 00:00:1795263242.021949   29426 port.cc:153] oneDNN custom operations are on."
        " You may"
    )
    retraced = (
        "WARNING:tensorflow:5 out of the last 5 calls to <f> triggered tf.function retracing."
    )
    (folder / "log.txt").write_text(f"{onednn}\n{onednn}\nhello\n{retraced}\n")
    run = open_run(folder, FakeClock(900).clock)

    assert [line for line in text_of(run) if line.startswith("TensorFlow")] == [
        (
            "TensorFlow: a function is traced repeatedly: pass tensors of the same shapes, not"
            " Python numbers"
        ),
        "TensorFlow logged 1 more message, harmless",
    ]
    assert [
        (one["name"], one["harmless"], one["lines"])
        for one in document.as_json(run)["tensorflow_log"]
    ] == [
        ("onednn", True, 2),
        ("retracing", False, 1),
    ]


def test_a_cause_that_took_next_to_nothing_is_not_told(tmp_path: Path) -> None:
    rows = plain(200)
    rows["wait_ms"][30] = 45.0
    run = open_written(tmp_path / "runs" / "r1", rows, FINISHED)
    (line,) = (line for line in text_of(run, str(tmp_path)) if "excluded" in line)
    assert line.endswith("; 1 step excluded")


def test_the_text_of_a_finished_run(tmp_path: Path) -> None:
    rows = switched_run()
    rows["wait_ms"][30] = 41_000
    run = open_written(
        tmp_path / "runs" / "r1",
        rows,
        *SWITCH,
        FINISHED,
        device="GPU:0 Apple M2 Pro",
        accelerated=True,
    )

    left_out = "; 3 steps excluded: unexplained 41.0 s, compile 2.4 s"
    assert text_of(run, str(tmp_path)) == [
        "cnn on GPU:0 Apple M2 Pro: finished, 200 steps in 12:04",
        "the GPU waited 42.0 s for data (6 % of the run)",
        f"over the whole run mean steady step: 5.0 of 18.0 ms is data wait (28 %){left_out}",
        (
            "since step 101 mean steady step: 0.0 of 13.0 ms is data wait (0 %): NOT input-bound,"
            " compute-bound"
        ),
        "without data wait: 11:22 at best",
        (
            "prefetch off → 4 at step 101: 1.77 x faster (1.77 to 1.77) over 99 steps, 23.0 → 13.0"
            " ms/step"
        ),
        "1 forecast: error 0 %, within the 90 % prediction interval",
        "longest stall: 41.0 s without data at step 31, unexplained",
        (
            "next: the input pipeline is not the limit: 92 % of the step is compute. "
            "Mixed precision or jit_compile would shorten it."
        ),
        "code: dataset = dataset.prefetch(4)  # the last stage: prepares batches while a step runs",
        (
            'code: keras.mixed_precision.set_global_policy("mixed_float16")  # before the model is'
            " made"
        ),
        "recorded in ~/runs/r1",
        "open it again:  tfwatch replay ~/runs/r1",
    ]


@pytest.mark.parametrize(
    ("rows", "event", "first"),
    [
        (plain(200), FINISHED, "cnn: finished, 200 steps in 12:04"),
        (plain(1), RunEnded(2_400_000_000, "stopped", 1), "cnn: stopped, 1 step in 2.4 s"),
        (plain(0), RunEnded(2_400_000_000, "stopped", 0), "cnn: stopped, no step was trained"),
    ],
)
def test_the_first_line_tells_how_it_ended(
    tmp_path: Path, rows: Rows, event: Event, first: str
) -> None:
    assert text_of(open_written(tmp_path / "run", rows, event))[0] == first


def test_a_failed_run_tells_its_error_in_one_line(tmp_path: Path) -> None:
    failed = TrainingFailed(0, 12, "ValueError: shapes\x1b[31m differ\nand more", "Traceback ...")
    lines = text_of(
        open_written(
            tmp_path / "run", plain(11), failed, RunEnded(10**9, "failed", 11, "ValueError")
        )
    )

    assert lines[:2] == [
        "cnn: failed, 11 steps in 1.0 s",
        "failed at step 12: ValueError: shapes [31m differ",
    ]


def test_a_killed_run_says_so(tmp_path: Path) -> None:
    run = open_written(tmp_path / "run", plain(50), pid=2**22 + 1)

    assert text_of(run)[0].startswith("cnn: killed (no end record; out of memory?), 50 steps in")


def test_a_run_whose_end_the_disk_did_not_take_is_not_called_killed(tmp_path: Path) -> None:
    killed = open_written(tmp_path / "run", plain(50), pid=2**22 + 1)
    run = replace(killed, pulse=Pulse(0, 0, Phase.ENDED, 0, 51, 0))

    assert text_of(run)[0].startswith("cnn: ended (the disk took no end record), 50 steps in")


def test_a_run_that_goes_on_says_so(tmp_path: Path) -> None:
    clock = FakeClock()
    write_run(tmp_path / "run", plain(50), clock=clock)

    assert text_of(open_run(tmp_path / "run", clock.clock))[0].startswith(
        "cnn: still running, 50 steps"
    )


def test_the_time_between_short_fits_is_named_so(tmp_path: Path) -> None:
    starts = [
        EpochStarted(second * 10**9, epoch, 1, 100, epoch + 1)
        for epoch, second in enumerate((0, 5))
    ]
    ended = EpochEnded(2 * 10**9, 0, 100, {"loss": 1.0})
    over = RunEnded(7 * 10**9, "finished", 200)
    rows = plain(200, 0.1)
    rows["start_ns"][100:] += 3 * 10**9
    rows["epoch"][100:] = 1
    run = open_written(tmp_path / "run", rows, *starts, ended, over)

    assert "between epochs 3.0 s (43 %: between fits 3.0 s)" in text_of(run)[1]


def test_what_else_was_lost_and_keras_own_figure_are_told(tmp_path: Path) -> None:
    rows = plain(200, 0.1)
    rows["compute_ms"][0] += 2000
    rows["flags"][0] = Flag.COMPILE
    rows = restart(rows)
    end_ns = 6 * 10**9
    events = (
        EpochStarted(0, 0, 1, 200),
        EpochEnded(11 * 10**9, 0, 200, {"loss": 1.0}),
        RunEnded(11 * 10**9, "finished", 200),
    )
    run = open_written(
        tmp_path / "run", rows, ValidationEnded(end_ns + 4 * 10**9, 0, 4000.0), *events
    )

    between = "between epochs 5.0 s (45 %: validation 4.0 s, epoch ends 1.0 s)"
    assert text_of(run)[1:3] == [
        f"the device waited 0.4 s for data (4 % of the run), {between}, compile 2.0 s (18 %)",
        (
            "mean steady step: 2.0 of 20.0 ms is data wait (10 %): MODERATELY input-bound; 1 step"
            " excluded: compile 2.0 s"
        ),
    ]
    assert text_of(run)[3].startswith(
        "Keras' progress bar shows 45.1 ms/step for the last epoch: it includes validation"
    )
    found = document.as_json(run)
    assert found["keras_step_ms"] == pytest.approx(45.13, abs=0.01)
    assert found["time_breakdown"]["total"]["wall_s"] == pytest.approx(11.0)
    assert found["time_breakdown"]["epochs"][0]["validation_s"] == pytest.approx(4.0)
    assert found["time_breakdown"]["start"]["epoch"] is None


def test_what_other_loops_trained_meanwhile_is_told_and_is_no_loss(tmp_path: Path) -> None:
    ended = EpochEnded(4 * 10**9, 0, 200, {}), RunEnded(8 * 10**9, "finished", 200)
    run = open_written(tmp_path / "run", plain(200, 0.1), OthersTrained(7 * 10**9, 3000.0), *ended)

    told = text_of(run)[1]
    assert "between epochs 1.0 s" in told
    assert told.endswith(", plus 3.0 s in which other loops and fits trained")


def test_a_last_epoch_quicker_than_the_run_explains_keras_own_figure(tmp_path: Path) -> None:
    rows = plain(400, 0.1)
    rows["compute_ms"][:200] += 40
    rows["epoch"][200:] = 1
    rows = restart(rows)
    events = (
        EpochStarted(0, 0, 2, 200),
        EpochEnded(12 * 10**9, 0, 200, {"loss": 1.0}),
        EpochStarted(12 * 10**9, 1, 2, 200),
        EpochEnded(16 * 10**9, 1, 400, {"loss": 0.5}),
        RunEnded(16 * 10**9, "finished", 400),
    )

    told = [
        line
        for line in text_of(open_written(tmp_path / "run", rows, *events))
        if line.startswith("Keras")
    ]

    quicker = "its steps were faster than those of the whole run"
    assert told == [f"Keras' progress bar shows 20.0 ms/step for the last epoch: {quicker}"]


def test_a_path_with_spaces_can_be_pasted(tmp_path: Path) -> None:
    lines = text_of(open_written(tmp_path / "my runs" / "r1", plain(30), FINISHED), str(tmp_path))

    assert lines[-2:] == [
        "recorded in ~/my runs/r1",
        "open it again:  tfwatch replay ~/'my runs/r1'",
    ]


def test_a_run_in_the_usual_place_is_opened_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "default_runs_dir", lambda: tmp_path)

    assert (
        text_of(open_written(tmp_path / "r1", plain(30), FINISHED))[-1]
        == "open it again:  tfwatch replay r1"
    )


def test_a_run_without_a_folder_is_told_from_memory() -> None:
    run = read_back(write_run(None, plain(200), FINISHED), FakeClock(900).clock)

    assert len(run.steps) == 200
    assert text_of(run)[-1] == "not recorded: the run folder could not be created"
    assert document.as_json(run)["steps"] == 200


def test_what_was_not_recorded_is_told(tmp_path: Path) -> None:
    lines = text_of(
        open_written(tmp_path / "run", plain(30), RecordingLost(0, "disk full", 21), FINISHED)
    )

    assert "not recorded since step 21: disk full" in lines


def test_a_folder_that_a_full_disk_left_without_its_manifest_is_not_to_be_opened_again(
    tmp_path: Path,
) -> None:
    run = open_written(
        tmp_path / "run", plain(30), RecordingLost(0, "No space left on device", 0), FINISHED
    )
    (tmp_path / "run" / MANIFEST).unlink()

    lines = text_of(run)

    assert lines[-1] == "not recorded since step 0: No space left on device"
    assert not any(line.startswith(("recorded in", "open it again")) for line in lines)


@pytest.mark.parametrize(
    ("events", "last"),
    [
        pytest.param(
            (RecordingLost(0, "its folder is gone", 21),),
            "not recorded since step 21: its folder is gone",
        ),
        pytest.param((), "no record is left: ~/run no longer exists"),
    ],
)
def test_a_folder_that_is_gone_is_not_to_be_opened_again(
    tmp_path: Path, events: tuple[Event, ...], last: str
) -> None:
    run = open_written(tmp_path / "run", plain(30), *events, FINISHED)
    shutil.rmtree(tmp_path / "run")

    lines = text_of(run, str(tmp_path))

    assert lines[-1] == last
    assert not any(line.startswith(("recorded in", "open it again")) for line in lines)


@pytest.mark.parametrize(
    ("copy", "changes", "says"),
    [
        (
            4.0,
            {"copied_bytes": {"uint8": 20 * 2**20}},
            "takes 4.0 of 13.0 ms of a steady step: 20 MB at 5.2 GB/s",
        ),
        (np.nan, {"copy_not_timed": "unified memory"}, "is n/a: unified memory"),
        *(
            (np.nan, {"copy_not_timed": why.value}, f"is n/a: {why.value}")
            for why in (NotTimed.OWN_LOOP, NotTimed.IN_GRAPH, NotTimed.SPREAD)
        ),
    ],
)
def test_the_copy_to_a_gpu_has_its_line(
    tmp_path: Path, copy: float, changes: dict[str, Any], says: str
) -> None:
    rows = make_steps(np.zeros(100), compute=12.0, host=1.0, copy=copy)

    run = open_written(tmp_path / "run", rows, FINISHED, accelerated=True, **changes)
    lines = text_of(run)

    assert any(line.endswith(says) for line in lines)
    as_json = document.as_json(run)
    assert as_json["copy"]["not_timed"] == changes.get("copy_not_timed")
    total = as_json["time_breakdown"]["total"]
    assert total["copy_s"] == (None if np.isnan(copy) else pytest.approx(0.4))
    assert total["compute_s"] == pytest.approx(1.2 - np.nan_to_num(copy) / 10)
    assert any("copy to the GPU 0.4 s" in line for line in lines) is not np.isnan(copy)
