"""The summary of canned runs."""

import shutil
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from tests.judge.profiles import PROFILE
from tests.judge.step_rows import plain, restart
from tests.report.hostile import hostile_run
from tests.report.written_runs import FINISHED, SWITCH, open_written, switched_run, text_of
from tests.runs.folders import FakeClock, read_back, write_run
from tfwatch.core.events import (
    AutopilotBegan,
    AutopilotEnded,
    EpochEnded,
    EpochStarted,
    Event,
    LossDiverged,
    Noted,
    RecordingLost,
    RecordingResumed,
    RunEnded,
    TrainingFailed,
    ValidationEnded,
)
from tfwatch.core.rows import Flag, Phase, Rows
from tfwatch.judge.findings.finding import Finding
from tfwatch.judge.judged_run import JudgedRun
from tfwatch.judge.steps.time_breakdown import TimeSpent
from tfwatch.report import text as summary
from tfwatch.report.run_facts import as_json
from tfwatch.report.text import CODE, loss_text, time_bar, wrapped
from tfwatch.runs import library
from tfwatch.runs.format import MANIFEST, Pulse
from tfwatch.runs.run import open_run
from tfwatch.runs.snapshot import Snapshot


def starving_run(folder: Path, *events: Event) -> list[str]:
    """The summary of a run with two epochs that starve, and validation."""
    return text_of(starving(folder, *events))


def starving(folder: Path, *events: Event) -> Snapshot:
    rows = plain(400, 0.5)
    rows["compute_ms"][0] += 2000
    rows["flags"][0] = Flag.COMPILE
    rows["epoch"][200:] = 1
    rows = restart(rows)
    half_ns, end_ns = int(rows["start_ns"][200]), 12 * 10**9
    rows["start_ns"][200:] += 3 * 10**9
    epochs = (
        EpochStarted(0, 0, 2, 200),
        ValidationEnded(half_ns + 2 * 10**9, 0, 2000.0),
        EpochEnded(half_ns + 3 * 10**9, 0, 200, {"loss": 1.5}),
        EpochStarted(half_ns + 3 * 10**9, 1, 2, 200),
        EpochEnded(end_ns, 1, 400, {"loss": 0.3125}),
        RunEnded(end_ns, "finished", 400),
    )
    return open_written(folder, rows, *epochs, *events)


def rows_of(lines: list[str]) -> int:
    """Return the rows of a terminal of 80 columns."""
    return len(wrapped("\n".join(lines), 80).split("\n"))


def test_a_summary_says_what_happened_and_what_to_do(tmp_path: Path) -> None:
    lines = starving_run(tmp_path / "run")

    assert lines[0] == "cnn finished: 2 epochs, 400 steps in 12.0 s, loss 0.3125"
    assert lines[1].startswith("compute 31 %, data wait 31 %, validation 15 %")
    assert rows_of(lines) <= 12
    assert sum(line.startswith(CODE) for line in lines) <= 4
    assert not any("n/a" in line for line in lines)


@pytest.mark.parametrize(("columns", "kept"), [(80, ["1."]), (120, ["1.", "2."])])
def test_the_losses_and_the_lines_to_change_are_left_out_last(
    tmp_path: Path, columns: int, kept: list[str]
) -> None:
    """Many warnings, a long error and a profile take their room from what is less important."""
    diverged = LossDiverged(1, 21, "NaN", 20)
    by_itself = msgspec.structs.replace(PROFILE, by="automatic")
    run = starving(tmp_path / "run", by_itself, diverged, *SWITCH)

    lines = text_of(run, str(tmp_path), columns)

    assert len(wrapped("\n".join(lines), columns).split("\n")) <= 10
    assert "lines to change:" in lines
    assert [line[:2] for line in lines if line[:2] in ("1.", "2.")] == kept


def test_the_seconds_since_a_switch_say_so(tmp_path: Path) -> None:
    rows = switched_run()
    rows["wait_ms"][100:] = 20
    run = open_written(
        tmp_path / "run", restart(rows), *SWITCH, RunEnded(8 * 10**9, "finished", 200)
    )
    (first,) = (line for line in text_of(run) if line.startswith("1. "))
    assert " s avoidable since the last switch: each step waits " in first


def test_a_summary_of_more_than_ten_rows_keeps_the_verdict(tmp_path: Path) -> None:
    refused = Noted(0, "A/B test ended before it began: the run is over", is_refusal=True)
    diverged, long = LossDiverged(1, 21, "NaN", 20), TrainingFailed(0, 12, "E: " + "x y " * 99, "")
    usual = starving_run(tmp_path / "usual", PROFILE, diverged)
    lines = starving_run(tmp_path / "run", PROFILE, diverged, refused, long, *SWITCH)

    assert rows_of(usual) <= 10
    assert rows_of(lines) <= 10
    assert [line for line in lines if line[:2] in ("1.", "2.", "3.")] == [
        line for line in usual if line.startswith("1.")
    ]
    assert lines[1].startswith("failed at step 12: E: x y x y")
    assert lines[-1].startswith("recorded")


# -- what happened ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "event", "first"),
    [
        (plain(200), FINISHED, "cnn finished: 200 steps in 12:04"),
        (plain(1), RunEnded(2_400_000_000, "stopped", 1), "cnn stopped: 1 step in 2.4 s"),
        (plain(0), RunEnded(2_400_000_000, "stopped", 0), "cnn stopped: no step was trained"),
    ],
)
def test_the_first_line_says_how_it_ended(
    tmp_path: Path, rows: Rows, event: Event, first: str
) -> None:
    assert text_of(open_written(tmp_path / "run", rows, event))[0] == first


def test_a_failed_run_has_its_error_in_one_line(tmp_path: Path) -> None:
    failed = TrainingFailed(0, 12, "ValueError: shapes\x1b[31m differ\nand more", "Traceback ...")
    ended = RunEnded(10**9, "failed", 11, "ValueError")

    lines = text_of(open_written(tmp_path / "run", plain(11), failed, ended))

    assert lines[:2] == [
        "cnn failed: 11 steps in 1.0 s",
        "failed at step 12: ValueError: shapes [31m differ",
    ]
    assert sum("failed at step" in line for line in lines) == 1


@pytest.mark.parametrize(
    ("event", "first"),
    [
        (None, "cnn killed (no end record; out of memory?): 50 steps in"),
        (RunEnded(10**9, "stopped", 50, "KeyboardInterrupt"), "cnn stopped by you: 50 steps in"),
    ],
)
def test_an_end_from_outside_is_no_failure(event: Event | None, first: str, tmp_path: Path) -> None:
    events = [event] if event else []

    lines = text_of(open_written(tmp_path / "run", plain(50), *events, pid=2**22 + 1))

    assert lines[0].startswith(first)
    assert not any("KeyboardInterrupt" in line for line in lines)


def test_a_run_whose_end_the_disk_did_not_take_is_not_called_killed(tmp_path: Path) -> None:
    killed = open_written(tmp_path / "run", plain(50), pid=2**22 + 1)
    run = replace(killed, pulse=Pulse(0, 0, Phase.ENDED, 0, 51, 0))

    assert text_of(run)[0].startswith("cnn ended (the disk took no end record): 50 steps in")


def test_a_run_that_goes_on_says_so(tmp_path: Path) -> None:
    clock = FakeClock()
    write_run(tmp_path / "run", plain(50), clock=clock)

    lines = text_of(open_run(tmp_path / "run", clock.clock))

    assert lines[0].startswith("cnn still running: 50 steps")


def test_a_loss_that_is_nan_comes_before_the_time(tmp_path: Path) -> None:
    diverged = LossDiverged(1, 21, "NaN", 20)

    lines = text_of(open_written(tmp_path / "run", plain(30), diverged, FINISHED))

    assert lines[1] == "loss is NaN since step 21"


def test_parts_that_were_not_separated_are_explained(tmp_path: Path) -> None:
    run = open_written(tmp_path / "run", plain(30), FINISHED, not_split="not in a graph")

    assert "the parts of a step were not separated: not in a graph" in text_of(run)
    assert as_json(run)["split"] == "none: not in a graph"


def test_hostile_text_stays_in_its_line(tmp_path: Path) -> None:
    run = hostile_run(tmp_path / "run")

    assert all(line.isprintable() for line in text_of(run))


# -- where the time went ---------------------------------------------------------------------------


def percents(bar: str) -> list[int]:
    return [int(words.split()[-2]) for words in bar.partition("]")[2].split(", ")]


def test_the_bar_has_all_parts_from_2_percent_on_and_the_rest_and_sums_to_100() -> None:
    spent = TimeSpent(
        compute_s=41.0, data_wait_s=36.4, host_s=5.6, first_batch_s=10.0, epoch_end_s=5.0
    )

    spent = replace(spent, compile_s=1.2, asleep_s=0.8)

    wide, narrow = (time_bar(spent, columns) for columns in (110, 80))

    assert wide == (
        "[==========#########--....]  = compute 41 %, # data wait 36 %, - host 6 %,"
        " . between epochs 15 %, _ other 2 %"
    )
    assert len(wide) == 109
    words = "compute 41 %, data wait 36 %, host 6 %, between epochs 15 %, other 2 %"
    assert narrow == words
    assert sum(percents(wide)) == sum(percents(f"]{narrow}")) == 100
    assert time_bar(TimeSpent(), 80) == ""


def test_validation_is_a_part_of_its_own() -> None:
    spent = TimeSpent(compute_s=38.0, first_batch_s=8.0, validation_s=42.0, epoch_end_s=12.0)

    assert time_bar(spent, 80).endswith(
        "  = compute 38 %, : validation 42 %, . between epochs 20 %"
    )


def test_a_part_of_next_to_nothing_is_not_in_the_bar() -> None:
    bar = time_bar(TimeSpent(compute_s=100.0, data_wait_s=0.1), 80)

    assert percents(bar) == [100]
    assert "compute 100 %" in bar


# -- losses ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("finding", "line"),
    [
        pytest.param(
            Finding("x", "X", "map(load) is serial", lost_s=27.0, where="train.py:24"),
            "27.0 s avoidable: map(load) is serial (train.py:24)",
            id="its line",
        ),
        pytest.param(
            Finding("x", "X", "map(load) is serial", lost_s=27.0, where="map(load)"),
            "27.0 s avoidable: map(load) is serial",
            id="named already",
        ),
        pytest.param(Finding("x", "X", "compute-bound"), "compute-bound", id="no loss"),
    ],
)
def test_a_loss_has_its_seconds_and_its_place(finding: Finding, line: str) -> None:
    assert loss_text(finding) == line


def test_of_tensorflows_log_the_lines_that_cost_something_are_named(tmp_path: Path) -> None:
    open_written(tmp_path / "run", plain(60), FINISHED)
    no_gpu = "I0000 00:00:1795718676.18 2172 cudart_stub.cc:31] Could not find cuda drivers"
    traced = "WARNING:tensorflow:5 out of the last 5 calls to <f> triggered tf.function retracing"
    (tmp_path / "run" / "log.txt").write_text(f"{no_gpu}\n{traced}\n")

    lines = text_of(open_run(tmp_path / "run", FakeClock(900).clock))

    assert sum("traced repeatedly" in line for line in lines) == 1
    assert not any("GPU" in line for line in lines)


# -- what the switches did -------------------------------------------------------------------------


def test_a_refused_experiment_is_explained(tmp_path: Path) -> None:
    note = Noted(0, "A/B test ended before it began: the run is over", is_refusal=True)
    lines = starving_run(tmp_path / "run", PROFILE, note)

    assert [line for line in lines if line.startswith("A/B test")] == [note.text]


def test_the_answer_of_the_autopilot_is_left_out_last(tmp_path: Path) -> None:
    why = "no other switch is left to try (workers: map changes a variable or a table)"
    began = AutopilotBegan(0, 20)
    ended = AutopilotEnded(0, 190, "nothing_left", why, 170, knobs={"prefetch": "off"})
    failed = TrainingFailed(0, 12, "E: " + "x y " * 99, "")
    lines = starving_run(tmp_path / "run", PROFILE, failed, began, ended)

    assert f"switched: autopilot: nothing changed: {why}" in lines


# -- the record ------------------------------------------------------------------------------------


def test_a_path_with_spaces_can_be_pasted(tmp_path: Path) -> None:
    run = open_written(tmp_path / "my runs" / "r1", plain(30), FINISHED)

    last = text_of(run, str(tmp_path))[-1]

    assert last == "recorded: tfwatch replay ~/'my runs/r1'"


def test_a_run_in_the_usual_place_is_opened_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "default_runs_dir", lambda: tmp_path / "runs")
    run = open_written(tmp_path / "runs" / "r1", plain(30), FINISHED)

    assert text_of(run, str(tmp_path))[-1] == "recorded in ~/runs: tfwatch replay r1"


def test_a_run_without_a_folder_is_summed_up_from_memory() -> None:
    run = read_back(write_run(None, plain(200), FINISHED), FakeClock(900).clock)

    assert text_of(run)[0] == "cnn finished: 200 steps in 12:04"
    assert text_of(run)[-1] == "not recorded: the run folder could not be created"


def test_steps_that_were_not_recorded_are_named(tmp_path: Path) -> None:
    lost = RecordingLost(0, "disk full", 21)

    gone = open_written(tmp_path / "a", plain(30), lost, FINISHED)
    back = open_written(tmp_path / "b", plain(30), lost, RecordingResumed(1), FINISHED)

    assert "not recorded since step 21: disk full" in text_of(gone)
    assert not any("not recorded" in line for line in text_of(back))


def test_a_folder_without_its_manifest_is_not_to_be_opened_again(tmp_path: Path) -> None:
    lost = RecordingLost(0, "No space left on device", 0)
    run = open_written(tmp_path / "run", plain(30), lost, FINISHED)
    (tmp_path / "run" / MANIFEST).unlink()

    lines = text_of(run)

    assert lines[-1] == "not recorded since step 0: No space left on device"
    assert not any(line.startswith("recorded") for line in lines)


def test_a_folder_that_is_gone_is_not_to_be_opened_again(tmp_path: Path) -> None:
    run = open_written(tmp_path / "run", plain(30), FINISHED)
    shutil.rmtree(tmp_path / "run")

    assert text_of(run, str(tmp_path))[-1] == "no record is left: ~/run no longer exists"


def test_the_longest_parts_of_a_profiled_step_are_named_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary, "_MOST_ROWS", 99)
    starving = "\n".join(starving_run(tmp_path / "starving", PROFILE))
    parts = "body/conv2d (Conv2D) 50 %, metric auc (AUC) 20 %, optimizer adam (Adam) 15 %"
    assert f"a step by layer: {parts}; report has all" in starving
    assert "ms/step (20 % of compute by a profile of 3 steps)" in starving
    text = "\n".join(text_of(open_written(tmp_path / "run", switched_run(), PROFILE, FINISHED)))
    assert "; of compute, body/conv2d (Conv2D) 50 % and metric auc (AUC) 20 %" in text
    assert "a step by layer" not in text


def test_a_profile_that_was_asked_for_has_its_line_or_its_reason(tmp_path: Path) -> None:
    """Of the ten rows other losses leave none."""
    asked = "\n".join(starving_run(tmp_path / "asked", PROFILE))
    assert "a step by layer: body/conv2d (Conv2D) 50 %" in asked
    lost = msgspec.structs.replace(PROFILE, operations=(), missing="another profiler began")
    missing = "\n".join(starving_run(tmp_path / "lost", lost))
    assert "no profile of the step: another profiler began" in missing
    other = EpochStarted(2, 1, 2, 200, model=2)
    before = "\n".join(starving_run(tmp_path / "before", PROFILE, other))
    assert "no profile of the step: the one that there is belongs to a model" in before
    by_itself = msgspec.structs.replace(lost, by="automatic")
    assert "no profile" not in "\n".join(starving_run(tmp_path / "automatic", by_itself))


def test_a_long_comment_to_paste_is_not_cut_to_nothing() -> None:
    place = "# train.py:24, " + ", ".join(f"train.py:{at}" for at in range(25, 35))
    long = f"dataset = dataset.map(a_function, num_parallel_calls=4)  # {'why ' * 20}"

    head, comment, line = summary._code(f"{place}\n{long}", 80)

    assert (head, comment) == ("lines to change:", f"{CODE}{place}")
    assert line == f"{CODE}dataset = dataset.map(a_function, num_parallel_calls=4)"


def test_the_lines_of_another_loss_than_the_first_stand_below_it_or_are_left_out_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [
        Finding("stall", "", "3 stalls", lost_s=2.0),
        Finding("a", "", "a callback", code="x", lost_s=1.0),
    ]
    monkeypatch.setattr(JudgedRun, "losses", found)
    run = open_written(tmp_path / "run", plain(30), FINISHED)
    lines = text_of(run, str(tmp_path))
    assert lines[lines.index("2. 1.0 s avoidable: a callback") + 1 :][:2] == [
        "lines to change:",
        "    x",
    ]
    monkeypatch.setattr(summary, "_MOST_ROWS", 4)
    assert text_of(run, str(tmp_path))[2] == "2. 1.0 s avoidable: a callback"
    assert "lines to change:" not in text_of(run, str(tmp_path))


def test_the_losses_that_are_shown_are_numbered_without_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`3.` stood below `1.` where the second loss had no room."""
    sentences = ("3 stalls", "a callback " * 60, "host time")
    found = [Finding("x", "", one, lost_s=2.0) for one in sentences]
    monkeypatch.setattr(JudgedRun, "losses", found)
    lines = text_of(open_written(tmp_path / "run", plain(30), FINISHED), str(tmp_path))
    assert [line[:2] for line in lines if line[1:3] == ". "] == ["1.", "2."]
