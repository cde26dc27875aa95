"""A session from its start to its exit code, without TensorFlow and without drawing."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.commands.fakes import factories, order
from tfwatch.commands.factories import Factories
from tfwatch.commands.screen_host import ScreenHost
from tfwatch.commands.training import keep_awake
from tfwatch.commands.training import train as module
from tfwatch.commands.training.train import train
from tfwatch.core.errors import BadInputError
from tfwatch.core.events import Noted, RunEnded, SensorMissing
from tfwatch.core.knobs import Knobs
from tfwatch.doctor.packages import Installed
from tfwatch.doctor.quick_facts import GpuPresence
from tfwatch.runs.control.requests import Scheduled
from tfwatch.runs.library.finding import list_runs
from tfwatch.runs.reading.opened import Run, open_run
from tfwatch.runs.writer import RunWriter
from tfwatch.training.request import Plan
from tfwatch.workloads.workload import Settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tfwatch.runs.control.requests import Control


def the_run(runs_dir: Path) -> Run:
    (folder,) = runs_dir.iterdir()
    return open_run(folder)


def end_of(run: Run) -> tuple[str, str]:
    ended = next(event for event in run.events if isinstance(event, RunEnded))
    return ended.cause, ended.detail


def kill_at(steps: dict[int, int]) -> Callable[[int, Control], None]:
    """Sends this process a signal after some steps."""
    return lambda step, _: os.kill(os.getpid(), steps[step]) if step in steps else None


def test_a_headless_run_ends_with_a_summary(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert train(order(tmp_path, headless=True), factories(steps=60)) == 0
    out, err = capfd.readouterr()
    assert out.startswith("cnn: finished, 60 steps in")
    assert err.startswith("cnn")
    assert len(the_run(tmp_path).steps) == 60
    assert end_of(the_run(tmp_path)) == ("finished", "")


def test_a_disk_that_does_not_respond_at_the_end_gets_no_summary(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    close = RunWriter.close
    monkeypatch.setattr(RunWriter, "close", lambda writer: close(writer) and False)
    assert train(order(tmp_path, headless=True), factories(steps=60)) == 0
    out, err = capfd.readouterr()
    assert out == ""
    assert "no summary, and no end of this run in its record" in err


def test_a_named_runs_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(
        BadInputError, match=r"^nothing can be recorded in --runs-dir .*file is not a folder$"
    ):
        train(order(tmp_path / "file", headless=True), factories())


def test_what_the_training_prints_is_in_the_log_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    train(order(tmp_path, headless=True), factories())
    assert (list_runs(tmp_path)[0] / "log.txt").read_text() == "native code speaks\nPython prints\n"
    assert "speaks" not in "".join(capfd.readouterr())


def test_json_is_one_object_on_stdout(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert train(order(tmp_path, headless=True, as_json=True), factories()) == 0
    report = json.loads(capfd.readouterr().out)
    assert (report["workload"], report["steps"], report["whole_run"]["data_wait_ms"]["median"]) == (
        "cnn",
        20,
        4.0,
    )


def test_a_summary_that_a_full_disk_refuses_is_reported(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    stdout, full = os.dup(1), os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, 1)
    try:
        code = train(order(tmp_path, headless=True, as_json=True), factories())
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)
        os.close(full)
    assert code == 1
    assert (
        capfd.readouterr().err.splitlines()[-1]
        == "tfwatch: the output cannot be written: No space left on device"
    )
    assert end_of(the_run(tmp_path)) == ("finished", "")


def test_the_manifest_holds_the_request(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    train(order(tmp_path, headless=True), factories(steps=1))
    manifest = the_run(tmp_path).manifest
    pipeline = {"prefetch": "off", "workers": "off", "latency_ms": "off"}
    assert manifest.knobs == {**pipeline, "cache": "off", "shuffle": "auto"}
    assert manifest.switchable == ["prefetch", "workers", "cache", "shuffle"]
    assert manifest.settings["storage_latency_ms"] == 0.0
    assert (manifest.batch_size, manifest.epochs, manifest.pid) == (32, 20, os.getpid())


def test_the_manifest_names_the_weights_that_the_run_begins_with(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = tmp_path / "last.weights.h5"
    monkeypatch.setattr(module, "_check_weights", lambda _: None)
    plan = Plan("cnn", Settings(), Knobs(), start_weights=weights)

    train(order(tmp_path / "new", headless=True), factories(steps=1))
    train(replace(order(tmp_path / "kept", headless=True), plan=plan), factories(steps=1))

    assert the_run(tmp_path / "new").manifest.settings["begin_with"] is None
    assert the_run(tmp_path / "kept").manifest.settings["begin_with"] == str(weights)


def test_an_unusual_computation_of_steps_is_shown(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = Settings(mode="eager", mixed_precision=True, steps_per_execution=4)
    ordered = replace(order(tmp_path, headless=True), plan=Plan("cnn", settings, Knobs()))
    assert train(ordered, factories(steps=1)) == 0
    title = "cnn, eager, mixed_float16, steps_per_execution=4"
    assert the_run(tmp_path).manifest.title == title
    assert capfd.readouterr().out.startswith(f"{title}: finished")


def test_keeping_awake_is_noted_and_changes_nothing_else(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keep_awake, "tool_for", lambda _: [])
    assert train(order(tmp_path, headless=True, keep_awake=True), factories()) == 0

    sentence = "--keep-awake has no tool for this system: the machine may fall asleep"
    assert f"tfwatch: {sentence}\n" in capfd.readouterr().err
    run = the_run(tmp_path)
    assert sentence in [event.text for event in run.events if isinstance(event, Noted)]
    assert run.manifest.settings["keep_awake"] is True
    assert len(run.steps) == 20


def test_the_gpu_sensor_that_was_chosen_is_the_one_that_runs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    real = replace(factories(steps=1), sensors=Factories().sensors)
    assert train(order(tmp_path, headless=True, gpu_sensor="none"), real) == 0

    missing = [event for event in the_run(tmp_path).events if isinstance(event, SensorMissing)]
    assert [event.reason for event in missing if event.sensor == "GPU"] == [
        "switched off with --gpu-sensor none"
    ]


@pytest.mark.parametrize(
    ("signum", "code"),
    [
        pytest.param(signal.SIGTERM, 143, id="SIGTERM"),
        pytest.param(signal.SIGINT, 130, id="SIGINT"),
    ],
)
def test_a_signal_stops_at_the_next_batch(
    signum: int, code: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert (
        train(
            order(tmp_path, headless=True), factories(steps=10**6, after_step=kill_at({5: signum}))
        )
        == code
    )
    assert end_of(the_run(tmp_path)) == ("stopped", "")
    out, err = capfd.readouterr()
    assert "stopped" in out
    assert "stopping after the current batch" in err or len(the_run(tmp_path).steps) < 50


def test_a_second_signal_leaves_a_hung_loader_at_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    codes: list[int] = []

    def twice(_: int, control: Control) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        control.stop.wait()
        os.kill(os.getpid(), signal.SIGTERM)

    code = train(
        order(tmp_path, headless=True), factories("hang", after_step=twice, exit_now=codes.append)
    )
    assert (code, codes) == (143, [143])
    assert end_of(the_run(tmp_path)) == ("stopped", "left before the current batch ended")
    assert "stopped" in capfd.readouterr().out


def test_a_hangup_does_not_stop_a_headless_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert (
        train(order(tmp_path, headless=True), factories(after_step=kill_at({3: signal.SIGHUP})))
        == 0
    )
    assert len(the_run(tmp_path).steps) == 20


def test_a_failure_shows_its_traceback(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert train(order(tmp_path, headless=True), factories("fail")) == 1
    assert capfd.readouterr().err.endswith("Traceback\nValueError: no\n")
    assert end_of(the_run(tmp_path)) == ("failed", "ValueError: no")


def test_data_that_proves_unusable_is_bad_input(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert train(order(tmp_path, headless=True), factories("bad-input")) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.endswith("tfwatch: every file is broken\n")


def test_the_usual_folder_that_cannot_be_written_does_not_keep_from_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(module, "default_runs_dir", lambda: tmp_path / "file")
    assert train(order(tmp_path / "file", headless=True, as_json=True), factories()) == 0
    out, err = capfd.readouterr()
    assert "tfwatch: nothing is recorded: " in err
    assert json.loads(out)["steps"] == 20


def test_an_obstacle_stops_it_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="pip install tensorflow"):
        train(
            order(tmp_path, headless=True),
            factories(installed=lambda: Installed("linux", "x86_64")),
        )
    assert list_runs(tmp_path) == []


@pytest.mark.parametrize("switch", [True, False], ids=["switched", "at the start"])
@pytest.mark.parametrize(
    ("workload", "knob", "value", "sentence"),
    [
        ("dense", "cache", True, "dense takes no cache: its examples are in memory"),
        (
            "dense",
            "latency_ms",
            5.0,
            "dense takes no storage-latency: it reads no files while it trains",
        ),
        ("cnn", "fast_pipeline", True, "cnn takes no fast-pipeline: it has no fast pipeline"),
    ],
)
def test_a_knob_that_a_pipeline_lacks_is_bad_input(
    workload: str, knob: str, value: Any, sentence: str, switch: bool, tmp_path: Path
) -> None:
    knobs, switches = Knobs(), (Scheduled(5, knob, value),)
    plan = Plan(
        workload,
        Settings(),
        knobs if switch else knobs.with_value(knob, value),
        switches if switch else (),
    )
    with pytest.raises(BadInputError, match=f"^{sentence}"):
        train(replace(order(tmp_path / "runs", headless=True), plan=plan), factories())


def test_a_size_that_may_not_fit_is_reported_and_trains(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfwatch.doctor.quick_facts.free_bytes", lambda: 0)
    monkeypatch.setattr("tfwatch.commands.training.train.find_gpu", lambda: GpuPresence("no GPU"))
    assert train(order(tmp_path, headless=True), factories()) == 0
    said = "cnn needs about 0.1 GB of memory and 0.0 GB are free: it may swap, or the system may end it"
    assert said in capfd.readouterr().err
    assert said in (list_runs(tmp_path)[0] / "events.jsonl").read_text()


def test_a_hint_is_printed_and_recorded(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    mac = Installed("darwin", "arm64", (3, 13), {"tensorflow": "2.21.0"})
    assert train(order(tmp_path, headless=True), factories(installed=lambda: mac)) == 0
    assert "training runs on the CPU" in capfd.readouterr().err
    assert any(
        isinstance(event, Noted) and "CPU" in event.text for event in the_run(tmp_path).events
    )


# -- with a screen ------------------------------------------------------------------------------------


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Trains with a screen that acts; returns the exit code."""
    monkeypatch.setattr(module, "why_no_screen", lambda _: "")
    return lambda app, **options: train(order(tmp_path), factories(app=app, **options))


def test_stop_waits_for_the_current_batch(shown: Callable[..., int], tmp_path: Path) -> None:
    assert shown("STOP", steps=10**6) == 0
    assert end_of(the_run(tmp_path)) == ("stopped", "")


def test_now_does_not(shown: Callable[..., int], tmp_path: Path) -> None:
    codes: list[int] = []
    assert shown("NOW", behaviour="hang", exit_now=codes.append) == 0
    assert codes == [0]
    assert end_of(the_run(tmp_path)) == ("stopped", "left before the current batch ended")


def test_data_that_proves_unusable_ends_the_screen_too(
    shown: Callable[..., int], capfd: pytest.CaptureFixture[str]
) -> None:
    assert shown("stay", behaviour="bad-input") == 2
    assert capfd.readouterr().err.endswith("tfwatch: every file is broken\n")


def test_detached_it_trains_to_its_end(
    shown: Callable[..., int], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert shown("DETACH", steps=100) == 0  # a line of progress is looked for every 0.2 s
    assert end_of(the_run(tmp_path)) == ("finished", "")
    said = capfd.readouterr().err
    assert (
        "goes on without a screen, in the foreground: ctrl+c stops it, tfwatch attach shows it again\n"
        in said
    )
    assert "\ncnn  epoch 1/1" in said


@pytest.mark.parametrize(
    ("app", "words"), [("raise", "RuntimeError: the screen broke"), ("vanish", "")]
)
def test_a_screen_that_dies_leaves_the_training_alone(
    app: str,
    words: str,
    shown: Callable[..., int],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert shown(app) == 0
    assert end_of(the_run(tmp_path)) == ("finished", "")
    err = capfd.readouterr().err
    log = list_runs(tmp_path)[0] / "log.txt"
    assert (
        f"the screen failed; training goes on without it, ctrl+c stops it; the error is in {log}\n"
        in err
    )
    assert "Traceback" not in err
    assert words in log.read_text()


@pytest.mark.parametrize(
    ("signals", "code", "cause"),
    [
        pytest.param({5: signal.SIGTERM}, 143, "stopped", id="SIGTERM"),
        pytest.param({5: signal.SIGHUP}, 0, "finished", id="SIGHUP"),
        pytest.param(
            {5: signal.SIGHUP, 9: signal.SIGTERM}, 143, "stopped", id="SIGHUP, then SIGTERM"
        ),
    ],
)
def test_signals_end_the_screen(
    signals: dict[int, int],
    code: int,
    cause: str,
    shown: Callable[..., int],
    tmp_path: Path,
    monkeypatch: Any,
) -> None:
    monkeypatch.setattr("tfwatch.terminal.capture.os.isatty", lambda _: True)
    assert shown("stay", steps=100, after_step=kill_at(signals)) == code
    assert end_of(the_run(tmp_path))[0] == cause


def test_a_signal_while_the_screen_is_loaded_shows_none(
    shown: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(ScreenHost):
        def __init__(self, *factories: Any) -> None:
            signal.raise_signal(signal.SIGINT)
            super().__init__(*factories)

    monkeypatch.setattr("tfwatch.commands.training.train_session.ScreenHost", Interrupted)
    assert shown("stay") == 130
    assert end_of(the_run(tmp_path)) == ("stopped", "left before it started")
