"""A script in a thread: its exit code, its stops, and what it prints. Its fits write runs without
TensorFlow."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

import pytest

from tests.runs.processes import wait_until
from tfwatch.cli.script.script_thread import ScriptThread
from tfwatch.core.clock import SYSTEM
from tfwatch.runs.library import list_runs
from tfwatch.runs.run import open_run
from tfwatch.runs.script_process import Launch, announce_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FIT = "import sys\nfrom tests.cli.fake_fits import fit\nfit()\n"


@pytest.fixture(autouse=True)
def _no_announcements() -> Iterator[None]:
    yield
    announce_in("")


def started(folder: Path, text: str) -> ScriptThread:
    """Start a script in a thread of its own: `start` waits for an import of Keras that does not
    come."""
    path = folder / "train.py"
    path.write_text(text)
    words = [str(path), str(folder / "runs")]
    script = ScriptThread(words, Launch(str(folder / "runs")), folder / "announced", SYSTEM)
    threading.Thread(target=script.start, daemon=True).start()
    return script


def trains(folder: Path) -> bool:
    return any(len(open_run(run).steps) > 3 for run in list_runs(folder / "runs"))


@pytest.mark.parametrize(
    ("text", "code", "printed"),
    [
        pytest.param("", 0, "", id="its end"),
        pytest.param("raise SystemExit(3)", 3, "", id="a number"),
        pytest.param("raise SystemExit('no data')", 1, "no data\n", id="a text"),
        pytest.param("raise ValueError('no')", 1, "ValueError: no\n", id="an exception"),
        pytest.param(
            "import argparse; argparse.ArgumentParser('own').parse_args()",
            2,
            "own: error: unrecognized arguments: ",
            id="arguments",
        ),
    ],
)
def test_its_exit_code_is_that_of_a_process(
    text: str, code: int, printed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = started(tmp_path, text)
    assert script.wait(20)
    assert (script.code, script.is_hung) == (code, False)
    assert printed in capsys.readouterr().err


def test_its_arguments_and_its_folder_are_those_of_a_script(tmp_path: Path) -> None:
    (tmp_path / "own_part.py").write_text("value = 5\n")
    text = (
        "import sys, own_part\nassert (__name__, own_part.value, len(sys.argv)) == ('__main__', 5,"
        " 2)\n"
    )
    script = started(tmp_path, text)
    assert script.wait(20)
    assert script.code == 0


@pytest.mark.parametrize(
    ("signum", "code"), [(None, 0), (signal.SIGTERM, 143)], ids=["from the screen", "signal"]
)
def test_a_stop_ends_its_training_and_its_run(
    signum: int | None, code: int, tmp_path: Path
) -> None:
    script = started(tmp_path, FIT)
    wait_until(lambda: trains(tmp_path))
    if signum:
        script.send(signum)
    else:
        script.interrupt()
    assert script.wait(20)
    assert script.code == code
    run = open_run(list_runs(tmp_path / "runs")[0])
    assert run.ended
    assert run.ended.cause == "stopped"


def test_the_second_signal_leaves_a_script_that_does_not_stop(tmp_path: Path) -> None:
    text = (
        "import os, time\n"
        "open(__file__ + '.begun', 'w')\n"
        "while not os.path.exists(__file__ + '.end'):\n"
        "    try:\n        time.sleep(0.01)\n"
        "    except KeyboardInterrupt:\n        pass\n"
    )
    script = started(tmp_path, text)
    wait_until(lambda: (tmp_path / "train.py.begun").exists())
    script.send(signal.SIGINT)
    assert not script.wait(0.3)
    script.send(signal.SIGINT)
    assert script.wait(0.0)
    assert (script.code, script.is_hung) == (130, True)
    (tmp_path / "train.py.end").touch()
    wait_until(lambda: script.has_ended)
