from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.analysis.steps import make_steps, plain, restart
from tests.runs.folders import FakeClock, write_run
from tfwatch.core.events import (
    DatasetReady,
    EpochEnded,
    EpochStarted,
    Event,
    Paused,
    PipelineSwitched,
    RecordingLost,
    RunEnded,
    SwitchAsked,
    TrainingFailed,
    ValidationEnded,
)
from tfwatch.core.rows import Flag, Rows
from tfwatch.report import document, text
from tfwatch.report.text import as_text
from tfwatch.runs.opened import Run, open_run, read_run

FINISHED = RunEnded(724_000_000_000, "finished", 200, "", 1.25, "ab" * 32)


def switched_run() -> Rows:
    rows = make_steps(np.repeat([10.0, 0.0], 100), compute=12.0, host=1.0, dispatch=2.0)
    rows["flags"][0] = Flag.COMPILE
    rows["compute_ms"][0] = 2400
    rows["flags"][100] = Flag.SWITCH
    return rows


SWITCH: tuple[Event, ...] = (
    SwitchAsked(0, "prefetch", "off", "4", 98, "command"),
    PipelineSwitched(0, "prefetch", "off", "4", 98, 101, 3.0, "command"),
)


def open_written(folder: Path, rows: Rows, *events: Event, **changes: Any) -> Run:
    write_run(folder, rows, *events, **changes)
    return open_run(folder, FakeClock(900).clock)


def text_of(run: Run, home: str = "/home/ada") -> list[str]:
    return as_text(run, Path(home)).splitlines()


@pytest.mark.parametrize(
    ("split", "told"),
    [
        ("exact", []),
        ("", []),
        ("in-graph timestamps, steps_per_execution=10", ["how the steps were told apart: in-graph timestamps, "]),
        ("none: not in a graph", ["the steps were not split: not in a graph"]),
    ],
)
def test_how_steps_were_told_apart_is_told_where_it_is_not_as_usual(
    split: str, told: list[str], tmp_path: Path
) -> None:
    run = open_written(tmp_path / "run", plain(30), FINISHED, split=split)

    lines = [line for line in text_of(run) if "steps were" in line]

    assert len(lines) == len(told)
    assert all(line.startswith(start) for line, start in zip(lines, told, strict=True))
    assert document.as_json(run)["split"] == (split or None)


def test_the_json_object_is_complete(tmp_path: Path) -> None:
    run = open_written(
        tmp_path / "run",
        switched_run(),
        *SWITCH,
        FINISHED,
        device="CPU",
        knobs={"prefetch": "off"},
        settings={"mode": "graph"},
    )

    found = document.as_json(run)

    assert list(found) == [
        *(
            "run",
            "workload",
            "device",
            "knobs",
            "settings",
            "steps",
            "split",
            "step_ms",
            "data_wait_ms",
            "compute_ms",
            "host_ms",
            "dispatch_ms",
        ),
        *(
            "data_wait_share",
            "verdict",
            "bound",
            "final_loss",
            "weights_sha256",
            "spikes_left_out",
            "spikes",
            "stalls",
            "restart",
            "switches",
            "autopilot",
            "experiments",
            "forecasts",
            "finding",
            "lost",
            "ledger",
            "pipeline",
            "keras_step_ms",
            "energy_j",
            "energy_per_step_j",
            "energy_starving_j",
            "energy_missing",
            "machine",
            "tensorflow_said",
        ),
    ]
    assert (found["run"], found["workload"], found["device"]) == ("2026-11-20T10-17-03_cnn", "cnn", "CPU")
    assert (found["knobs"], found["settings"], found["steps"]) == ({"prefetch": "off"}, {"mode": "graph"}, 200)
    assert found["step_ms"] == pytest.approx({"median": 18, "mean": 18, "p95": 23})
    assert found["data_wait_ms"] == pytest.approx({"median": 5, "mean": 5, "p95": 10})
    assert found["compute_ms"] == pytest.approx({"median": 12, "mean": 12, "p95": 12})
    assert found["host_ms"] == pytest.approx({"median": 1, "mean": 1, "p95": 1})
    assert found["data_wait_share"] == pytest.approx(5 / 18)
    assert (found["verdict"], found["bound"]) == ("HIGHLY input-bound", "input-bound")
    assert (found["final_loss"], found["weights_sha256"]) == (1.25, "ab" * 32)
    assert found["spikes"] == [{"step": 1, "extra_ms": 2388.0, "part": "compute", "cause": "compile", "detail": ""}]
    assert found["spikes_left_out"] == 2


def test_the_readme_names_every_key_of_the_json_object(tmp_path: Path) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    section = readme.partition("## `--json`")[2].partition("## ")[0]
    keys = document.as_json(open_written(tmp_path / "run", plain(30)))

    assert [key for key in keys if f"`{key}`" not in section] == []


def test_what_tensorflow_said_is_told_with_its_meaning(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    write_run(folder, plain(30), FINISHED)
    onednn = "I0000 00:00:1795263242.021949   29426 port.cc:153] oneDNN custom operations are on. You may"
    retraced = "WARNING:tensorflow:5 out of the last 5 calls to <f> triggered tf.function retracing."
    (folder / "log.txt").write_text(f"{onednn}\n{onednn}\nhello\n{retraced}\n")
    run = open_run(folder, FakeClock(900).clock)

    assert [line for line in text_of(run) if line.startswith("TensorFlow")] == [
        "TensorFlow: a function is traced again and again: give it tensors of the same shapes, not Python numbers",
        "TensorFlow said 1 more thing, harmless",
    ]
    assert [(one["name"], one["harmless"], one["lines"]) for one in document.as_json(run)["tensorflow_said"]] == [
        ("onednn", True, 2),
        ("retracing", False, 1),
    ]


def test_the_json_tells_each_switch_with_both_sides(tmp_path: Path) -> None:
    run = open_written(tmp_path / "run", switched_run(), *SWITCH, FINISHED)

    (switch,) = document.as_json(run)["switches"]

    assert {name: switch[name] for name in ("step_asked", "step_in_effect", "knob", "from", "to")} == {
        "step_asked": 98,
        "step_in_effect": 101,
        "knob": "prefetch",
        "from": "off",
        "to": "4",
    }
    assert (switch["before"]["steps"], switch["after"]["steps"]) == (99, 99)
    assert switch["before"]["data_wait_ms"]["median"] == pytest.approx(10)
    assert switch["after"]["step_ms"]["median"] == pytest.approx(13)
    assert switch["after"]["data_wait_share"] == 0


def test_what_was_foretold_is_told_against_what_came(tmp_path: Path) -> None:
    run = open_written(tmp_path / "run", switched_run(), *SWITCH, FINISHED)

    told = document.as_json(run)["forecasts"]
    (one,) = told["switches"]

    assert (one["step_asked"], one["knob"], one["from"], one["to"], one["measured"]) == (
        98,
        "prefetch",
        "off",
        "4",
        False,
    )
    assert one["came_ms"] == pytest.approx(13)
    assert one["low_ms"] <= one["step_ms"] <= one["high_ms"]
    assert one["step_ms"] == pytest.approx(13, rel=0.05)
    assert told["median_off"] < 0.05
    assert told["inside"] == 1
    assert "its forecast was 0 % off, in its range" in text_of(run)


@pytest.mark.parametrize(
    ("rows", "events"),
    [
        pytest.param(plain(0), (), id="killed before the first step"),
        pytest.param(plain(0), (RunEnded(5, "failed", 0, "no memory", math.nan),), id="failed before the first step"),
        pytest.param(plain(3), (RunEnded(5, "stopped", 3, "", math.inf),), id="diverged"),
        pytest.param(plain(3), (SwitchAsked(0, "prefetch", "off", "4", 2, "key"),), id="a switch asked"),
    ],
)
def test_the_json_has_null_for_what_is_missing(tmp_path: Path, rows: Rows, events: tuple[Event, ...]) -> None:
    found = document.as_json(open_written(tmp_path / "run", rows, *events))

    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert (found["verdict"], found["bound"]) == ("not enough data", None)
    assert found["final_loss"] is None
    assert found["weights_sha256"] is None
    assert (found["data_wait_share"] is None) is (not len(rows))


def test_damaged_rows_are_left_out(tmp_path: Path) -> None:
    rows = plain(100)
    rows["wait_ms"][50] = np.nan
    rows["compute_ms"][60] = -1

    found = document.as_json(open_written(tmp_path / "run", rows))

    assert found["data_wait_share"] == pytest.approx(0.1)
    json.dumps(found, allow_nan=False)


def test_a_cause_that_took_next_to_nothing_is_not_told(tmp_path: Path) -> None:
    rows = plain(200)
    rows["wait_ms"][30] = 45.0
    run = open_written(tmp_path / "runs" / "r1", rows, FINISHED)
    (line,) = (line for line in text_of(run, str(tmp_path)) if "left out" in line)
    assert line.endswith("; 1 step left out")


def test_the_text_of_a_finished_run(tmp_path: Path) -> None:
    rows = switched_run()
    rows["wait_ms"][30] = 41_000
    run = open_written(tmp_path / "runs" / "r1", rows, *SWITCH, FINISHED, device="GPU:0 Apple M2 Pro", accelerated=True)

    left_out = "; 3 steps left out: unexplained 41.0 s, compile 2.4 s"
    assert text_of(run, str(tmp_path)) == [
        "cnn on GPU:0 Apple M2 Pro: finished, 200 steps in 12:04",
        "the GPU waited for data 42.0 s of it (6 %)",
        f"a steady step waits 5.0 of 18.0 ms on average (28 %): HIGHLY input-bound{left_out}",
        "fed, it takes 11:22 at best",
        "prefetch off > 4 at step 101: 1.77 x faster, 23.0 ms to 13.0 ms a step over 99 steps",
        "its forecast was 0 % off, in its range",
        "longest stall: 41.0 s without data at step 31, unexplained",
        "next: nothing to gain from the pipeline: mixed precision or jit_compile cut compute (92 % of a step)",
        "edit: dataset = dataset.prefetch(4)  # the last stage: batches are made while a step runs",
        'edit: keras.mixed_precision.set_global_policy("mixed_float16")  # before the model is made',
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
def test_the_first_line_tells_how_it_ended(tmp_path: Path, rows: Rows, event: Event, first: str) -> None:
    assert text_of(open_written(tmp_path / "run", rows, event))[0] == first


def test_a_failed_run_tells_its_error_in_one_line(tmp_path: Path) -> None:
    failed = TrainingFailed(0, 12, "ValueError: shapes\x1b[31m differ\nand more", "Traceback ...")
    lines = text_of(open_written(tmp_path / "run", plain(11), failed, RunEnded(10**9, "failed", 11, "ValueError")))

    assert lines[:2] == ["cnn: failed, 11 steps in 1.0 s", "failed at step 12: ValueError: shapes [31m differ"]


def test_files_that_were_skipped_are_counted_and_named(tmp_path: Path) -> None:
    ready = DatasetReady(0, 108, 4, 300.0, ["a/empty.jpg", "a/cut.jpg", "b/text.jpg", "b/noise.jpg"])
    lines = text_of(open_written(tmp_path / "run", plain(11), ready))

    assert lines[1] == "skipped 4 files that cannot be read: a/empty.jpg, a/cut.jpg, b/text.jpg"


def test_a_killed_run_says_so(tmp_path: Path) -> None:
    run = open_written(tmp_path / "run", plain(50), pid=2**22 + 1)

    assert text_of(run)[0].startswith("cnn: ended without a word (killed, or out of memory), 50 steps in")


def test_a_run_that_goes_on_says_so(tmp_path: Path) -> None:
    clock = FakeClock()
    write_run(tmp_path / "run", plain(50), clock=clock)

    assert text_of(open_run(tmp_path / "run", clock.clock))[0].startswith("cnn: still running, 50 steps")


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
    run = open_written(tmp_path / "run", rows, ValidationEnded(end_ns + 4 * 10**9, 0, 4000.0), *events)

    assert text_of(run)[1:3] == [
        "the device waited for data 0.4 s of it (4 %), between epochs 5.0 s (45 %), compile 2.0 s (18 %)",
        "a steady step waits 2.0 of 20.0 ms on average (10 %): MODERATELY input-bound; 1 step left out: compile 2.0 s",
    ]
    assert text_of(run)[3].startswith(
        "Keras' progress bar reads 45.1 ms a step for the last epoch: it spreads validation"
    )
    found = document.as_json(run)
    assert found["keras_step_ms"] == pytest.approx(45.13, abs=0.01)
    assert found["ledger"]["total"]["wall_s"] == pytest.approx(11.0)
    assert found["ledger"]["epochs"][0]["validation_s"] == pytest.approx(4.0)
    assert found["ledger"]["start"]["epoch"] is None


FED, WAITS = (0.1, 12.0, 0.5), (9.0, 12.0, 0.5)


def of(wait: float, compute: float, host: float, dispatch: float = 2.0) -> Rows:
    return make_steps(np.full(100, wait), compute=compute, host=host, dispatch=dispatch)


@pytest.mark.parametrize(
    ("rows", "changes", "says"),
    [
        pytest.param(
            of(*WAITS), {"knobs": {"prefetch": "off"}, "switchable": ["prefetch"]}, ".prefetch(4) brings", id="off"
        ),
        pytest.param(of(*WAITS), {"knobs": {"prefetch": "4"}}, "prefetch cannot hide it: make batches", id="on"),
        pytest.param(of(*WAITS), {"knobs": {"prefetch": "default"}}, ".prefetch(tf.data.AUTOTUNE)", id="a script's"),
        pytest.param(of(*WAITS), {}, ".prefetch(tf.data.AUTOTUNE)", id="a loop's"),
        pytest.param(of(*FED), {}, "nothing to gain from the pipeline: a smaller model", id="compute on a CPU"),
        pytest.param(
            of(*FED), {"accelerated": True}, "nothing to gain from the pipeline: mixed", id="compute on a GPU"
        ),
        pytest.param(of(*FED, 11.0), {"accelerated": True}, "compile(steps_per_execution=8)", id="launching"),
        pytest.param(of(0.1, 12.0, 20.0), {}, "log and save less often", id="callbacks"),
    ],
)
def test_what_a_run_is_bound_by_has_its_own_next_step(
    tmp_path: Path, rows: Rows, changes: dict[str, Any], says: str
) -> None:
    lines = text_of(open_written(tmp_path / "run", rows, FINISHED, **changes))

    (told,) = [line for line in lines if line.startswith("next: ")]
    assert says in told


def test_a_callback_that_takes_most_is_named(tmp_path: Path) -> None:
    rows = of(0.1, 12.0, 20.0)
    ends = rows["start_ns"][1:20].tolist()
    pauses = [Paused(end, "callback", 19.0, "CSVLogger") for end in ends]
    lines = text_of(open_written(tmp_path / "run", rows, *pauses, FINISHED))

    assert any(
        line.endswith("compile(steps_per_execution=8): about 14.6 ms a step (CSVLogger takes most)") for line in lines
    )


def test_too_few_steps_have_no_next_step(tmp_path: Path) -> None:
    lines = text_of(open_written(tmp_path / "run", plain(10), FINISHED))

    assert not [line for line in lines if line.startswith("next: ")]


@pytest.mark.parametrize(
    ("flag", "says"), [(0, "no iterator is made anew"), (Flag.SHUFFLE_FILL, "smaller shuffle buffer")]
)
def test_what_lies_between_epochs_has_a_next_step(tmp_path: Path, flag: int, says: str) -> None:
    rows = np.concatenate([plain(100), plain(100)])
    rows["step"], rows["epoch"] = np.arange(1, 201), np.repeat([0, 1], 100)
    rows["wait_ms"][[0, 100]] = 3000
    rows["flags"][[0, 100]] = Flag.EPOCH_START | flag
    rows = restart(rows)
    ended = RunEnded(int(rows["start_ns"][-1]) + 10**8, "finished", 200)
    epochs = [EpochStarted(int(rows["start_ns"][at]), n, 2, 100) for n, at in enumerate((0, 100))]

    lines = text_of(open_written(tmp_path / "run", rows, *epochs, ended))

    assert any("of the epochs lay between their steps; next: longer epochs" in line and says in line for line in lines)


@pytest.mark.parametrize(
    ("accelerated", "says"), [(True, "NOT input-bound, launch-bound"), (False, "NOT input-bound, compute-bound")]
)
def test_what_binds_a_run_that_is_fed_is_named(tmp_path: Path, accelerated: bool, says: str) -> None:
    rows = make_steps(np.zeros(100), compute=4.0, host=0.1, dispatch=3.0)
    run = open_written(tmp_path / "run", rows, FINISHED, accelerated=accelerated)

    assert text_of(run)[2].endswith(says)
    assert document.as_json(run)["bound"] == says.split(", ")[1]


def test_what_python_takes_op_by_op_is_told(tmp_path: Path) -> None:
    rows = make_steps(np.zeros(100), compute=5.9, host=0.1, dispatch=5.1)
    run = open_written(tmp_path / "run", rows, FINISHED, op_by_op=True)

    lines = text_of(run)
    assert lines[2].endswith("NOT input-bound, launch-bound")
    assert "op by op: 5.1 of 6.0 ms of a steady step go to Python between the operations (85 %)" in lines
    assert "next: run the step as a graph: tf.function, or fit without run_eagerly (here: without --eager)" in lines
    assert document.as_json(run)["dispatch_ms"]["median"] == pytest.approx(5.1)


def test_stalls_are_told_by_their_kind(tmp_path: Path) -> None:
    rows = plain(400)
    rows["wait_ms"][20::20] += 60
    rows["wait_ms"][350] = 3000
    run = open_written(tmp_path / "run", restart(rows), FINISHED)

    hiccup, periodic = document.as_json(run)["stalls"]

    assert (hiccup["kind"], hiccup["step"], hiccup["steps"], hiccup["lost_ms"]) == ("hiccup", 351, 1, 3000)
    assert hiccup["start_s"] == pytest.approx(350 * 0.02 + 17 * 0.06)
    assert (periodic["kind"], periodic["period"], periodic["step"]) == ("periodic", 20, 21)
    assert any(line.startswith("every 20th step waits 60.0 ms longer from step 21 over") for line in text_of(run))


def test_many_switches_are_counted_and_the_text_stays_short(tmp_path: Path) -> None:
    switches = [PipelineSwitched(0, "prefetch", "off", "4", n, n, 1.0, "key") for n in range(40, 1000, 40)]
    rows = plain(1000)
    rows["wait_ms"][500] = 5000

    lines = text_of(open_written(tmp_path / "run", rows, *switches, FINISHED))

    assert len(lines) <= 12
    assert "and 21 more switches" in lines


def test_switches_that_cannot_be_compared_promise_nothing(tmp_path: Path) -> None:
    events = (
        PipelineSwitched(0, "prefetch", "off", "4", 49, 50, 1.0, "key"),
        SwitchAsked(0, "workers", "off", "2", 52, "key"),
    )
    lines = text_of(open_written(tmp_path / "run", plain(52), *events, FINISHED))

    assert "prefetch off > 4 at step 50: too few steps to compare" in lines
    assert "workers off > 2: asked, and not yet in effect at the last step" in lines
    assert "faster" not in "\n".join(lines)


def test_the_fast_form_is_called_by_its_name(tmp_path: Path) -> None:
    switch = PipelineSwitched(0, "fast_form", "off", "on", 49, 50, 1.0, "key")
    run = open_written(tmp_path / "run", plain(52), switch, FINISHED, settings={"fast_form": "tf.data"})

    assert "fast form (tf.data) off > on at step 50: too few steps to compare" in text_of(run)


def test_a_path_with_spaces_can_be_pasted(tmp_path: Path) -> None:
    lines = text_of(open_written(tmp_path / "my runs" / "r1", plain(30), FINISHED), str(tmp_path))

    assert lines[-2:] == ["recorded in ~/my runs/r1", "open it again:  tfwatch replay ~/'my runs/r1'"]


def test_a_run_in_the_usual_place_is_opened_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "default_runs_dir", lambda: tmp_path)

    assert text_of(open_written(tmp_path / "r1", plain(30), FINISHED))[-1] == "open it again:  tfwatch replay r1"


def test_a_run_without_a_folder_is_told_from_memory() -> None:
    run = read_run(write_run(None, plain(200), FINISHED), FakeClock(900).clock)

    assert len(run.steps) == 200
    assert text_of(run)[-1] == "nothing was recorded: no run folder could be made"
    assert document.as_json(run)["steps"] == 200


def test_what_was_not_recorded_is_told(tmp_path: Path) -> None:
    lines = text_of(open_written(tmp_path / "run", plain(30), RecordingLost(0, "disk full", 21), FINISHED))

    assert "not recorded since step 21: disk full" in lines
