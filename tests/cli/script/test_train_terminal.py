"""`tfwatch train` in a terminal: a script in a thread under the live screen. Its fit writes a run
without TensorFlow."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.pseudo import Pseudo
from tests.runs.processes import wait_until
from tfwatch.core.events import PipelineSwitched
from tfwatch.runs.library import list_runs
from tfwatch.runs.liveness import Life
from tfwatch.runs.run import open_run

if TYPE_CHECKING:
    from pathlib import Path

    from tfwatch.runs.snapshot import Snapshot

pytestmark = pytest.mark.terminal

LEFT_SCREEN = "\x1b[?1049l"
#: The import of Keras is what the screen waits for.
FIT = (
    "import os, keras\nfrom tests.cli.fake_fits import fit\nprint('a line', flush=True)\n"
    "fit(until=lambda: os.path.exists(__file__ + '.enough'))\nprint('after', flush=True)\n"
)
HANGS = (
    FIT
    + "import time\nwhile True:\n    try:\n        time.sleep(9)\n    except KeyboardInterrupt:\n  "
    "      pass\n"
)


def session(folder: Path, script: str = FIT) -> Pseudo:
    """Start a script whose Keras is a module without a `fit`."""
    (folder / "train.py").write_text(script)
    (folder / "keras.py").write_text("__version__ = '2.0'\n")
    environ = {
        "XDG_CONFIG_HOME": str(folder / "config"),
        "TMPDIR": str(folder),
        "COLUMNS": "120",
        "LINES": "40",
    }
    words = (
        "-m",
        "tests.cli.script.in_thread",
        str(folder / "train.py"),
        str(folder / "runs"),
    )
    return Pseudo(*words, columns=120, rows=40, **environ)


def the_run(folder: Path) -> Snapshot:
    (run,) = list_runs(folder / "runs")
    return open_run(run)


def trains(folder: Path) -> bool:
    return any(len(open_run(run).steps) > 5 for run in list_runs(folder / "runs"))


def let_it_finish(folder: Path) -> None:
    """Wait until the training goes on, and end it."""
    had = len(the_run(folder).steps)
    wait_until(lambda: len(the_run(folder).steps) > had)
    (folder / "train.py.enough").touch()


def log_of(folder: Path) -> str:
    (run,) = list_runs(folder / "runs")
    return (run / "log.txt").read_text()


def end_of(run: Snapshot) -> str:
    return run.ended.cause if run.ended else str(run.life)


def test_a_key_reaches_the_training_and_a_stop_ends_it_and_its_run(tmp_path: Path) -> None:
    with session(tmp_path) as terminal:
        terminal.wait_for("recording")
        terminal.press("p")
        terminal.read_until(lambda: "switch prefetch by key\n" in log_of(tmp_path))
        terminal.answer("y")
        assert terminal.wait() == 0
        assert terminal.state == terminal.before
        reported = terminal.output.decode()
    after = reported[reported.rindex(LEFT_SCREEN) :]
    assert "train on CPU stopped" in after
    assert "a line" not in after
    assert end_of(the_run(tmp_path)) == "stopped"
    assert "a line\n" in log_of(tmp_path)


def test_leave_and_train_on_until_ctrl_c(tmp_path: Path) -> None:
    with session(tmp_path) as terminal:
        terminal.read_until(lambda: trains(tmp_path))
        terminal.answer("d")
        terminal.wait_for("runs on without a screen, in the foreground")
        had = len(the_run(tmp_path).steps)
        wait_until(lambda: len(the_run(tmp_path).steps) > had)
        terminal.press("\x03")
        assert terminal.wait() == 130
        assert terminal.state == terminal.before
    assert end_of(the_run(tmp_path)) == "stopped"


def test_sigterm_stops_a_training_and_restores_the_terminal(tmp_path: Path) -> None:
    with session(tmp_path) as terminal:
        terminal.read_until(lambda: trains(tmp_path))
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.wait() == 143
        assert terminal.state == terminal.before
        reported = terminal.output.decode()
    assert "stopping after the current batch" in reported[reported.rindex(LEFT_SCREEN) :]
    assert end_of(the_run(tmp_path)) == "stopped"


def test_a_second_signal_leaves_a_script_that_hangs(tmp_path: Path) -> None:
    with session(tmp_path, HANGS) as terminal:
        terminal.read_until(lambda: trains(tmp_path))
        (tmp_path / "train.py.enough").touch()
        terminal.process.send_signal(signal.SIGTERM)
        terminal.wait_for("stopping after the current batch")
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.wait() == 143
        assert terminal.state == terminal.before


def test_a_hangup_takes_the_screen_and_not_the_training(tmp_path: Path) -> None:
    with session(tmp_path) as terminal:
        terminal.read_until(lambda: trains(tmp_path))
        terminal.hang_up()
        let_it_finish(tmp_path)
        assert terminal.process.wait(timeout=20) == 0
    assert end_of(the_run(tmp_path)) == "finished"


def test_a_killed_relay_of_the_output_holds_no_training(tmp_path: Path) -> None:
    script = f"{FIT}for n in range(200):\n    print('x' * 1000, flush=True)\nfit(20)\n"
    with session(tmp_path, script) as terminal:
        terminal.read_until(lambda: trains(tmp_path))
        psutil.Process(terminal.process.pid).children()[0].kill()
        (tmp_path / "train.py.enough").touch()
        terminal.read_until(lambda: end_of(open_run(list_runs(tmp_path / "runs")[0])) == "finished")
        terminal.wait_for("finished")
        terminal.press("q")
        assert terminal.wait() == 0
        assert terminal.state == terminal.before


def test_a_process_that_dies_leaves_a_sane_terminal(tmp_path: Path) -> None:
    with session(tmp_path) as terminal:
        terminal.read_until(lambda: trains(tmp_path))
        terminal.process.send_signal(signal.SIGKILL)
        reported = terminal.wait_for("killed or crashed")
        assert terminal.wait() == -signal.SIGKILL
        assert terminal.state == terminal.before
    assert LEFT_SCREEN in reported
    assert the_run(tmp_path).life is Life.KILLED


def test_a_script_that_fails_leaves_the_screen_usable_and_prints_its_traceback(
    tmp_path: Path,
) -> None:
    script = FIT.replace("fit(until", "fit(30, until") + "raise ValueError('no')\n"
    with session(tmp_path, script) as terminal:
        terminal.wait_for("after")
        wait_until(lambda: end_of(the_run(tmp_path)) == "finished")
        terminal.press("q")
        assert terminal.wait() == 1
        reported = terminal.output.decode()
    assert "ValueError: no" in reported[reported.rindex(LEFT_SCREEN) :]


def test_wrong_arguments_are_the_scripts_sentence_without_a_screen(tmp_path: Path) -> None:
    script = "import argparse\nargparse.ArgumentParser('own').parse_args()\nimport keras\n"
    with session(tmp_path, script) as terminal:
        assert terminal.wait() == 2
        reported = terminal.output.decode()
    assert "own: error: unrecognized arguments:" in reported
    assert "no step" not in reported
    assert LEFT_SCREEN not in reported


@pytest.mark.tensorflow
def test_cnn_trains_on_the_screen_and_is_switched_by_a_key(tmp_path: Path) -> None:
    small = ("--batch-size", "16", "--image-size", "16")
    words = ("-m", "tfwatch", "train", "cnn", "--runs-dir", str(tmp_path / "runs"), *small)
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "COLUMNS": "120", "LINES": "40"}
    with Pseudo(*words, columns=120, rows=40, **environ) as terminal:
        terminal.read_until(lambda: trains(tmp_path), timeout_s=120)
        terminal.press("p")
        terminal.read_until(
            lambda: any(isinstance(one, PipelineSwitched) for one in the_run(tmp_path).events),
            timeout_s=60,
        )
        terminal.answer("y")
        assert terminal.wait(timeout_s=60) == 0
        assert terminal.state == terminal.before
    assert end_of(the_run(tmp_path)) == "stopped"
