"""A restart: from what the screen offers to the command that this process becomes, without TensorFlow."""

from __future__ import annotations

import signal
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.test_cli import _taken
from tests.commands.fakes import factories, order
from tests.commands.training.test_train import kill_at
from tfwatch import cli
from tfwatch.commands.factories import Factories
from tfwatch.commands.training import train as module
from tfwatch.commands.training.restart import WEIGHTS, Restart
from tfwatch.commands.training.train import train
from tfwatch.core.knobs import Knobs
from tfwatch.runs.control.requests import Control, Request
from tfwatch.runs.create import begin_run
from tfwatch.runs.library.finding import list_runs
from tfwatch.runs.reading.opened import open_run
from tfwatch.runs.writer import RunWriter
from tfwatch.training.request import Plan, TrainRequest
from tfwatch.workloads.workload import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tfwatch.core.start_knobs import RestartOffer


@pytest.fixture(autouse=True)
def _a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "why_no_screen", lambda _: "")


def turn(**values: str) -> Callable[[RestartOffer], None]:
    """Chooses values of knobs by what they show; the other knobs stay as they are."""

    def choose(restart: RestartOffer) -> None:
        words: list[str] = []
        for knob in restart.knobs():
            shown = values.get(knob.name.replace(" ", "_"))
            value = knob.values[knob.start]
            if shown is not None:
                value = next(value for value in knob.values if value.shown == shown)
            words += value.words
        restart.take(tuple(words))

    return choose


def trained(runs_dir: Path, app: str, **options: Any) -> tuple[int, list[Sequence[str]]]:
    """Trains with a screen that is left like this; the exit code and the commands that the process became."""
    became: list[Sequence[str]] = []
    ordered = options.pop("order", None) or order(runs_dir)
    return train(ordered, factories(app=app, exec_command=became.append, **options)), became


def after_a_step(choose: Callable[[RestartOffer], None]) -> Callable[[RestartOffer], None]:
    """Chooses once a step is done."""

    def later(restart: RestartOffer) -> None:
        deadline = time.monotonic() + 20
        while restart.knobs()[0].refused:
            assert time.monotonic() < deadline
        choose(restart)

    return later


LARGER = after_a_step(turn(batch_size="64"))


def test_the_run_ends_and_the_process_becomes_the_command(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, became = trained(tmp_path, "STOP", steps=10**6, choose=LARGER)

    (folder,) = list_runs(tmp_path)
    weights = folder / "last.weights.h5"
    head = ("train", "cnn", "--begin-with", str(weights), "--batch-size", "64")
    assert (code, became) == (0, [(*head, "--runs-dir", str(tmp_path), "--after", str(folder))])
    run = open_run(folder)
    assert run.ended
    assert run.ended.cause == "stopped"
    assert weights.read_text() == f"weights after {run.ended.steps} steps"
    out, err = capfd.readouterr()
    assert f"recorded in {folder}" in out
    assert err.rstrip().endswith(
        f"tfwatch train cnn --begin-with {weights} --batch-size 64 --runs-dir {tmp_path} --after {folder}"
    )


def test_weights_are_not_saved_where_the_model_is_re_initialized(tmp_path: Path) -> None:
    _, became = trained(
        tmp_path, "STOP", steps=10**6, choose=after_a_step(turn(weights_of="re-initialized"))
    )
    (folder,) = list_runs(tmp_path)
    assert became == [("train", "cnn", "--runs-dir", str(tmp_path), "--after", str(folder))]
    assert not (folder / "last.weights.h5").exists()


def test_a_run_that_is_over_is_restarted_too(tmp_path: Path) -> None:
    def once_it_is_over(restart: RestartOffer) -> None:
        deadline = time.monotonic() + 20
        while not open_run(list_runs(tmp_path)[0]).ended:
            assert time.monotonic() < deadline
        turn(optimizer="sgd")(restart)

    code, became = trained(tmp_path, "LEFT", steps=5, choose=once_it_is_over)
    (folder,) = list_runs(tmp_path)
    assert code == 0
    assert became[0][:6] == (
        "train",
        "cnn",
        "--begin-with",
        str(folder / "last.weights.h5"),
        "--optimizer",
        "sgd",
    )
    assert (folder / "last.weights.h5").read_text() == "weights after 5 steps"


def test_a_failed_run_is_reported_and_restarted(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _, became = trained(tmp_path, "LEFT", behaviour="fail", choose=LARGER)
    assert "--batch-size" in became[0]
    assert "ValueError: no" in capfd.readouterr().err


def test_in_a_stall_it_begins_at_once(tmp_path: Path) -> None:
    left: list[int] = []
    _, became = trained(tmp_path, "NOW", behaviour="hang", choose=LARGER, exit_now=left.append)
    assert "--batch-size" in became[0]
    assert open_run(list_runs(tmp_path)[0]).ended


def test_without_its_weights_it_is_not_restarted(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, became = trained(tmp_path, "STOP", behaviour="weightless", steps=10**6, choose=LARGER)
    assert (code, became) == (0, [])
    assert "no restart: the weights could not be saved: no space left" in capfd.readouterr().err


def test_a_signal_ends_it_and_restarts_nothing(tmp_path: Path) -> None:
    code, became = trained(
        tmp_path, "never", steps=10**6, choose=LARGER, after_step=kill_at({20: signal.SIGTERM})
    )
    assert (code, became) == (143, [])


def test_a_restart_that_was_called_off_is_none(tmp_path: Path) -> None:
    def choose(restart: RestartOffer) -> None:
        turn()(restart)
        restart.take(None)

    assert trained(tmp_path, "STOP", steps=10**6, choose=choose) == (0, [])


def test_a_command_that_cannot_start_has_a_reason(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def exec_command(_: Sequence[str]) -> None:
        raise OSError(7, "Argument list too long")

    assert (
        train(
            order(tmp_path),
            factories(app="STOP", steps=10**6, choose=LARGER, exec_command=exec_command),
        )
        == 1
    )
    assert capfd.readouterr().err.endswith(
        "tfwatch: the command cannot start: Argument list too long\n"
    )
    assert open_run(list_runs(tmp_path)[0]).ended


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[RunWriter]:
    made, _ = begin_run(tmp_path / "runs", "cnn")
    yield made
    made.close()


def test_all_that_was_ordered_and_turned_is_ordered_again(
    writer: RunWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(
        batch_size=48,
        image_size=96,
        steps=77,
        seed=5,
        data=tmp_path,
        device="cpu",
        mode="eager",
        mixed_precision=True,
        steps_per_execution=4,
        optimizer="sgd",
        learning_rate=0.02,
    )
    ordered = TrainRequest(
        Plan("cnn", settings, Knobs()),
        tmp_path / "runs",
        theme="light",
        keep_awake=True,
        gpu_sensor="none",
        autopilot=True,
        memory_bytes=1.5 * 2**30,
    )
    knobs = Knobs("auto", 3, 20.0, cache=True, shuffle=100)
    restart = Restart(ordered, writer, Control(knobs))
    turn()(restart.offer)
    orders = _taken(monkeypatch)
    assert cli.main(restart.command) == 0
    folder = str(writer.folder)
    assert orders == [replace(ordered, plan=Plan("cnn", settings, knobs), after=folder)]


def test_what_was_asked_for_last_and_not_obeyed_yet_is_ordered(
    writer: RunWriter, tmp_path: Path
) -> None:
    """An experiment that a restart ends asks for the better setting when no step is left to obey it."""
    control = Control(Knobs(workers="auto"))
    control.ask_if_no_user_request(Request("prefetch", 4, "experiment"), control.user_request_count)
    assert Restart(order(tmp_path), writer, control).command[2:6] == (
        "--prefetch",
        "4",
        "--workers",
        "auto",
    )


@pytest.mark.parametrize(
    ("chosen", "is_kept"),
    [
        ((), True),
        (("--device", "gpu"), True),
        (("--device", "cpu"), False),
        (("--steps-per-execution", "4"), False),
    ],
)
def test_a_restart_that_excludes_device_prefetch_begins_without(
    writer: RunWriter, tmp_path: Path, chosen: tuple[str, ...], is_kept: bool
) -> None:
    restart = Restart(order(tmp_path), writer, Control(Knobs(device_prefetch=2)))
    restart.chosen = chosen
    assert (restart.command[2:4] == ("--device-prefetch", "2")) is is_kept
    assert ("--device-prefetch" in restart.command) is is_kept


def test_weights_are_there_to_be_kept_once_a_step_is_done(
    writer: RunWriter, tmp_path: Path
) -> None:
    ordered = order(tmp_path)
    restart = Restart(ordered, writer, Control())
    assert restart.offer.knobs()[0].refused == "this run: no step is completed yet"
    writer.progress.append((32, 1, 0, 1, 1.0, 0.5))
    assert [value.shown for value in restart.offer.knobs()[0].values] == [
        "this run",
        "re-initialized",
    ]
    unrecorded = RunWriter(None, writer.manifest())
    assert (
        Restart(ordered, unrecorded, Control()).offer.knobs()[0].refused
        == "this run: nothing is recorded"
    )


def test_a_fast_pipeline_is_ordered_again(
    writer: RunWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(epochs=3, seed=1)
    ordered = TrainRequest(Plan("generator", settings, Knobs()), tmp_path)
    restart = Restart(ordered, writer, Control(Knobs(fast_pipeline=True)))
    turn(length="5 epochs")(restart.offer)
    orders = _taken(monkeypatch)
    assert cli.main(restart.command) == 0
    assert orders[0].plan == Plan(
        "generator", replace(settings, epochs=5), Knobs(fast_pipeline=True)
    )


class Keeps:
    """A training whose weights can be kept, or not."""

    def __init__(self, why: str = "") -> None:
        self._why = why

    def save_weights(self, path: Path) -> str:
        if not self._why:
            path.write_bytes(b"newer")
        return self._why


@pytest.mark.parametrize(
    ("why", "after", "stays"),
    [
        pytest.param("", "earlier", False, id="newer ones are whole"),
        pytest.param("a step is running", "earlier", True, id="newer ones could not be kept"),
        pytest.param("", None, True, id="a file of the user's choice"),
    ],
)
def test_of_a_chain_of_restarts_the_newest_weights_alone_are_kept(
    why: str, after: str | None, stays: bool, writer: RunWriter, tmp_path: Path
) -> None:
    (tmp_path / "earlier").mkdir()
    weights = tmp_path / "earlier" / WEIGHTS
    weights.write_bytes(b"older")
    plan = Plan("cnn", Settings(), Knobs(), start_weights=weights)
    ordered = TrainRequest(plan, tmp_path, after=after and str(tmp_path / after))
    restart = Restart(ordered, writer, Control())
    restart.chosen = ("--begin-with", "this run's")
    assert restart.keep(Keeps(why)) == why
    assert weights.exists() == stays
    assert writer.folder
    assert (writer.folder / WEIGHTS).exists() == (not why)


def test_what_tensorflow_sees_is_offered(
    writer: RunWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def device() -> str:
        restart = Restart(order(tmp_path), writer, Control())
        (knob,) = (knob for knob in restart.offer.knobs() if knob.name == "device")
        return "; ".join(reported.reason for value in knob.values for reported in value.constraints)

    writer.describe(device="GPU:0 METAL", accelerated=True)
    assert device() == ""
    writer.describe(device="CPU, 2 cores", accelerated=False)
    assert device() in ("no GPU", "TensorFlow sees none")


def test_a_program_is_started_again_with_other_words(monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[tuple[str, list[str]]] = []
    monkeypatch.setattr("os.execv", lambda path, words: began.append((path, words)))
    monkeypatch.setattr(sys, "orig_argv", ["python", "-X", "dev", "-m", "tfwatch", "train", "cnn"])
    monkeypatch.setattr(sys, "argv", ["/x/tfwatch/__main__.py", "train", "cnn"])
    Factories().exec_command(("train", "dense"))
    assert began == [
        (sys.executable, [sys.executable, "-X", "dev", "-m", "tfwatch", "train", "dense"])
    ]
