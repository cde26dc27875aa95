"""`tfwatch train` in a terminal: a script in a thread under the live screen. The fit of most writes
a run without TensorFlow."""

import signal
from pathlib import Path

import psutil
import pytest

from tests.pseudo import Pseudo
from tests.runs.processes import wait_until
from tfwatch.core.events import PipelineSwitched
from tfwatch.runs.library import list_runs
from tfwatch.runs.run import open_run
from tfwatch.runs.snapshot import Snapshot

pytestmark = pytest.mark.terminal

LEFT_SCREEN = "\x1b[?1049l"
FIT = (
    "import os\nfrom tests.cli.fake_fits import fit\nprint('a line', flush=True)\n"
    "fit(until=lambda: os.path.exists(__file__ + '.enough'))\n"
)
HANGS = """
import time
while True:
    try:
        time.sleep(9)
    except KeyboardInterrupt:
        pass
"""
#: Runs a script as a workload.
TRAIN = """
import sys
from pathlib import Path
from tfwatch.cli.script.request import RunOptions
from tfwatch.cli.script.run import run
script, runs = sys.argv[1:]
sys.exit(run(RunOptions([script, runs], Path(runs), headless=False, is_workload=True)))
"""


def session(folder: Path, script: str = FIT) -> Pseudo:
    (folder / "train.py").write_text(script)
    environ = {"TMPDIR": str(folder), "COLUMNS": "120", "LINES": "40"}
    words = ("-c", TRAIN, str(folder / "train.py"), str(folder / "runs"))
    return Pseudo(*words, columns=120, rows=40, XDG_CONFIG_HOME=str(folder / "config"), **environ)


def end_of(run: Snapshot) -> str:
    return run.ended.cause if run.ended else str(run.life)


def the_run(folder: Path) -> Snapshot:
    (run,) = list_runs(folder / "runs")
    return open_run(run)


def trains(folder: Path) -> bool:
    return any(len(open_run(run).steps) > 5 for run in list_runs(folder / "runs"))


def test_a_key_reaches_the_thread_its_output_the_log_and_a_stop_its_run(tmp_path: Path) -> None:
    with session(tmp_path) as terminal:
        terminal.wait_for("recording")
        terminal.press("p")
        terminal.read_until(lambda: "switch prefetch by key" in the_run(tmp_path).log)
        terminal.answer("y")
        assert terminal.wait() == 130
        assert terminal.state == terminal.before
        reported = terminal.output.decode()
    after = reported[reported.rindex(LEFT_SCREEN) :]
    assert "train on CPU stopped" in after
    assert "a line" not in after
    assert end_of(the_run(tmp_path)) == "stopped"
    assert the_run(tmp_path).log[0] == "a line"


def test_a_second_signal_leaves_a_script_that_hangs(tmp_path: Path) -> None:
    with session(tmp_path, FIT + HANGS) as terminal:
        terminal.read_until(lambda: trains(tmp_path))
        (tmp_path / "train.py.enough").touch()
        terminal.process.send_signal(signal.SIGTERM)
        terminal.wait_for("stopping after the current batch")
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.wait() == 143
        assert terminal.state == terminal.before


def test_a_hangup_and_a_killed_relay_take_the_screen_and_not_the_training(tmp_path: Path) -> None:
    prints = "for n in range(200):\n    print('x' * 1000, flush=True)\nfit(20)\n"
    with session(tmp_path, FIT + prints) as terminal:
        terminal.read_until(lambda: trains(tmp_path))
        psutil.Process(terminal.process.pid).children()[0].kill()
        terminal.hang_up()
        had = len(the_run(tmp_path).steps)
        wait_until(lambda: len(the_run(tmp_path).steps) > had)
        (tmp_path / "train.py.enough").touch()
        assert terminal.process.wait(timeout=20) == 0
    assert [end_of(open_run(run)) for run in list_runs(tmp_path / "runs")] == ["finished"] * 2


@pytest.mark.tensorflow
def test_cnn_trains_on_the_screen_and_is_switched_by_a_key(tmp_path: Path) -> None:
    small = ("--batch-size", "16", "--image-size", "16")
    words = ("-m", "tfwatch", "train", "cnn", "--runs-dir", str(tmp_path / "runs"), *small)
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "COLUMNS": "120", "LINES": "40"}
    with Pseudo(*words, columns=120, rows=40, **environ) as terminal:
        terminal.wait_for("cnn runs, no fit yet")
        terminal.read_until(lambda: trains(tmp_path), timeout_s=120)
        terminal.press("p")
        terminal.read_until(
            lambda: any(isinstance(one, PipelineSwitched) for one in the_run(tmp_path).events),
            timeout_s=60,
        )
        terminal.answer("y")
        assert terminal.wait(timeout_s=60) == 128 + signal.SIGINT
        assert terminal.state == terminal.before
    run = the_run(tmp_path)
    assert (end_of(run), run.manifest.pid) == ("stopped", terminal.process.pid)
