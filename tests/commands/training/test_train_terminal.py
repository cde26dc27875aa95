"""`tfwatch train` and `tfwatch replay` as a user sees them: in a pseudo terminal, with the real screen."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.pseudo import Pseudo
from tests.runs.processes import wait_until
from tests.screens.canned import usual
from tfwatch.core.events import PipelineSwitched, TrainingFailed
from tfwatch.core.rows import STEP
from tfwatch.runs.library.finding import list_runs
from tfwatch.runs.reading.liveness import Life
from tfwatch.runs.reading.opened import Run, open_run
from tfwatch.terminal.guard import LEAVE_SCREEN

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.terminal

#: Stands on the live screen from its first paint on.
PAINTED = "q quit"
LEFT_SCREEN = "\x1b[?1049l"


def session(runs_dir: Path, behaviour: str = "train", steps: int = 10**6, **environ: str) -> Pseudo:
    """A session with the real screen and a training without TensorFlow."""
    settings = {"XDG_CONFIG_HOME": str(runs_dir / "config")}
    words = ("-m", "tests.commands.fakes", str(runs_dir), behaviour, str(steps))
    return Pseudo(*words, columns=120, rows=40, **settings, **environ)


def the_run(runs_dir: Path) -> Run:
    (folder,) = list_runs(runs_dir)
    return open_run(folder)


def trains(runs_dir: Path) -> bool:
    """True once a run has some steps on disk."""
    return any(
        (run / "steps.bin").stat().st_size > 20 * STEP.itemsize for run in list_runs(runs_dir)
    )


def trains_a_step(runs_dir: Path) -> bool:
    """Return whether the first step, after which a training that hangs does, is on disk."""
    return bool(len(the_run(runs_dir).steps))


def let_it_finish(runs_dir: Path) -> None:
    """Wait until the training goes on, and end it."""
    had = len(the_run(runs_dir).steps)
    wait_until(lambda: len(the_run(runs_dir).steps) > had)
    (runs_dir / "enough").touch()


def end_of(run: Run) -> str:
    return run.ended.cause if run.ended else str(run.life)


def test_ctrl_z_and_a_stopped_process_leave_a_sane_terminal_after_a_stop(tmp_path: Path) -> None:
    with session(tmp_path) as terminal:
        process = psutil.Process(terminal.process.pid)
        terminal.wait_for(PAINTED)
        wait_until(lambda: trains(tmp_path))
        terminal.press("\x1a")
        terminal.wait_for("ctrl+z is disabled")
        assert process.status() != psutil.STATUS_STOPPED
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: process.status() == psutil.STATUS_STOPPED)
        process.send_signal(signal.SIGCONT)
        terminal.press("q")
        terminal.wait_for("Quit?")
        terminal.press("y")
        reported = terminal.wait_for("tfwatch replay")
        assert terminal.wait() == 0
        assert terminal.state == terminal.before
    assert "cnn: stopped" in reported[reported.rindex(LEFT_SCREEN) :]
    assert end_of(the_run(tmp_path)) == "stopped"


def leave_the_screen(terminal: Pseudo) -> None:
    """Quit, and let the training go on."""
    terminal.press("q")
    terminal.wait_for("Quit?")
    terminal.press("d")
    terminal.wait_for("training goes on without a screen")


def test_leave_and_train_on(tmp_path: Path) -> None:
    with session(tmp_path) as terminal:
        terminal.wait_for(PAINTED)
        leave_the_screen(terminal)
        let_it_finish(tmp_path)
        terminal.wait_for("cnn: finished")
        assert terminal.wait() == 0
        assert terminal.state == terminal.before
    assert end_of(the_run(tmp_path)) == "finished"


def test_ctrl_c_after_leaving_stops_at_the_next_batch(tmp_path: Path) -> None:
    with session(tmp_path) as terminal:
        terminal.wait_for(PAINTED)
        leave_the_screen(terminal)
        terminal.press("\x03")
        terminal.wait_for("cnn: stopped")
        assert terminal.wait() == 130
    assert end_of(the_run(tmp_path)) == "stopped"


def test_y_twice_leaves_a_hung_loader(tmp_path: Path) -> None:
    with session(tmp_path, "hang") as terminal:
        terminal.wait_for(PAINTED)
        wait_until(lambda: trains_a_step(tmp_path))
        terminal.press("q")
        terminal.wait_for("Quit?")
        terminal.press("y")
        terminal.wait_for("STOPPING")
        terminal.press("y")
        assert terminal.wait() == 0
        assert terminal.state == terminal.before
    assert end_of(the_run(tmp_path)) == "stopped"


def test_sigterm_stops_a_training_and_a_replay_that_follows_it_and_restores_the_terminal(
    tmp_path: Path,
) -> None:
    with session(tmp_path) as terminal:
        terminal.wait_for(PAINTED)
        wait_until(lambda: trains(tmp_path))
        with replay(tmp_path) as follower:
            follower.wait_for("FOLLOWING")
            follower.process.send_signal(signal.SIGTERM)
            assert follower.wait() == 143
            assert follower.state == follower.before
        assert the_run(tmp_path).life is Life.RUNNING, "the end of a replay ends no training"
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.wait() == 143
        assert terminal.state == terminal.before
        reported = terminal.output.decode()
    assert "cnn: stopped" in reported[reported.rindex(LEFT_SCREEN) :]
    assert end_of(the_run(tmp_path)) == "stopped"


def test_a_second_sigterm_leaves_a_hung_loader(tmp_path: Path) -> None:
    with session(tmp_path, "hang") as terminal:
        terminal.wait_for(PAINTED)
        wait_until(lambda: trains_a_step(tmp_path))
        terminal.process.send_signal(signal.SIGTERM)
        terminal.wait_for("stopping after the current batch")
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.wait() == 143
        assert terminal.state == terminal.before
    assert end_of(the_run(tmp_path)) == "stopped"


def test_a_hangup_takes_the_screen_and_not_the_training(tmp_path: Path) -> None:
    with session(tmp_path) as terminal:
        terminal.wait_for(PAINTED)
        wait_until(lambda: trains(tmp_path))
        terminal.hang_up()
        let_it_finish(tmp_path)
        assert terminal.process.wait(timeout=20) == 0
    assert end_of(the_run(tmp_path)) == "finished"


def test_a_hangup_leaves_a_terminal_that_lives_on_as_it_was(tmp_path: Path) -> None:
    with session(tmp_path) as terminal:
        terminal.wait_for(PAINTED)
        terminal.read_until(lambda: trains(tmp_path))
        terminal.process.send_signal(signal.SIGHUP)
        let_it_finish(tmp_path)
        assert terminal.wait() == 0
        assert terminal.state == terminal.before
        reported = terminal.output
    assert reported.count(LEAVE_SCREEN) == 1
    assert not re.search(rb"\x1b\[\?[0-9]+h", reported.partition(LEAVE_SCREEN)[2])
    assert end_of(the_run(tmp_path)) == "finished"


@pytest.mark.parametrize(
    ("behaviour", "signum"),
    [
        pytest.param("train", signal.SIGKILL, id="SIGKILL"),
        pytest.param("abort", signal.SIGABRT, id="abort"),
    ],
)
def test_a_process_that_dies_leaves_a_sane_terminal(
    behaviour: str, signum: int, tmp_path: Path
) -> None:
    with session(tmp_path, behaviour) as terminal:
        terminal.wait_for(PAINTED)
        if signum == signal.SIGKILL:
            wait_until(lambda: trains(tmp_path))
            terminal.process.send_signal(signum)
        reported = terminal.wait_for("killed or crashed")
        assert terminal.wait() == -signum
        assert terminal.state == terminal.before
    assert LEFT_SCREEN in reported
    assert the_run(tmp_path).life is Life.KILLED


def test_a_training_that_fails_leaves_the_screen_usable_and_prints_its_traceback(
    tmp_path: Path,
) -> None:
    with session(tmp_path, "fail") as terminal:
        terminal.wait_for("FAILED")
        terminal.press("q")
        assert terminal.wait() == 1
        reported = terminal.output.decode()
    assert "Traceback\r\nValueError: no" in reported[reported.rindex(LEFT_SCREEN) :]
    assert any(isinstance(event, TrainingFailed) for event in the_run(tmp_path).events)


def test_the_screen_is_drawn_on_the_terminal_though_stderr_is_a_file(tmp_path: Path) -> None:
    script = "import os, sys; os.dup2(os.open(sys.argv.pop(1), os.O_CREAT | os.O_WRONLY), 2); "
    script += "import runpy; runpy.run_module('tests.commands.fakes', run_name='__main__', alter_sys=True)"
    words = ("-c", script, str(tmp_path / "err"), str(tmp_path), "train", "100")
    with Pseudo(*words, columns=120, rows=40, XDG_CONFIG_HOME=str(tmp_path)) as terminal:
        terminal.wait_for(PAINTED)
        terminal.wait_for("FINISHED")
        terminal.press("q")
        assert terminal.wait() == 0
    assert "\x1b" not in (tmp_path / "err").read_text()


# -- replay ---------------------------------------------------------------------------------------------


def replay(runs_dir: Path) -> Pseudo:
    return Pseudo("-m", "tfwatch", "replay", "--runs-dir", str(runs_dir), columns=120, rows=40)


def test_replay_shows_a_run_that_ended(tmp_path: Path) -> None:
    usual(tmp_path / "2026-11-20T10-17-03_cnn").ended().writer.close()
    with replay(tmp_path) as terminal:
        terminal.wait_for("REPLAY")
        terminal.wait_for("FINISHED")
        terminal.press("q")
        assert terminal.wait() == 0
        assert terminal.state == terminal.before


# -- the real thing -------------------------------------------------------------------------------------


@pytest.mark.tensorflow
def test_cnn_trains_on_the_screen_and_is_switched_by_a_key(tmp_path: Path) -> None:
    small = ("--batch-size", "16", "--image-size", "32")
    words = ("-m", "tfwatch", "train", "cnn", "--runs-dir", str(tmp_path), *small)
    with Pseudo(*words, columns=120, rows=40, XDG_CONFIG_HOME=str(tmp_path / "config")) as terminal:
        terminal.wait_for("importing TensorFlow")
        terminal.wait_for("STARVING", timeout_s=120)
        terminal.press("p")
        wait_until(
            lambda: any(isinstance(event, PipelineSwitched) for event in the_run(tmp_path).events),
            timeout_s=60,
        )
        terminal.press("q")
        terminal.wait_for("Quit?")
        terminal.press("y")
        assert terminal.wait(timeout_s=60) == 0
        assert terminal.state == terminal.before
        reported = terminal.output.decode()
    assert "cnn on" in reported[reported.rindex(LEFT_SCREEN) :]
    assert "tensorflow" not in reported[: reported.rindex(LEFT_SCREEN)]
    assert end_of(the_run(tmp_path)) == "stopped"


@pytest.mark.tensorflow
def test_cnn_trains_on_after_its_terminal_is_gone(tmp_path: Path) -> None:
    small = ("--batch-size", "16", "--image-size", "32", "--steps", "60")
    words = ("-m", "tfwatch", "train", "cnn", "--runs-dir", str(tmp_path), *small)
    with Pseudo(*words, columns=120, rows=40, XDG_CONFIG_HOME=str(tmp_path / "config")) as terminal:
        wait_until(lambda: trains(tmp_path), timeout_s=120)
        terminal.hang_up()
        assert terminal.process.wait(timeout=120) == 0
    run = the_run(tmp_path)
    assert (end_of(run), len(run.steps)) == ("finished", 60)
