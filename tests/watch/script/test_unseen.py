"""A script does not see the threads of tfwatch, nor a debugger its frames."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tfwatch.runs.script_process import Launch
from tfwatch.watch.script import bootstrap
from tfwatch.watch.script.unseen import hide_own_threads


def test_a_script_that_waits_for_all_its_threads_does_not_wait_for_those_of_tfwatch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("enumerate", "active_count"):
        monkeypatch.setattr(threading, name, getattr(threading, name))
    before, done = set(threading.enumerate()), threading.Event()
    threads = [threading.Thread(target=done.wait, name=name) for name in ("tfwatch-x", "mine")]
    hide_own_threads()
    for thread in threads:
        thread.start()

    assert set(threading.enumerate()) - before == {threads[1]}
    assert threading.active_count() == len(threading.enumerate())
    done.set()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("how", ["file", "module"])
def test_a_debugger_shows_the_frames_of_the_script_alone(tmp_path: Path, how: str) -> None:
    script = tmp_path / "script.py"
    script.write_text("import pdb\ndef inner():\n    pdb.set_trace()\n    return 1\ninner()\n")
    words = [str(script)] if how == "file" else ["-m", "script"]
    own = [str(bootstrap.__file__), Launch().to_text(), "", ""]

    bare, watched = (_debugged([*before, *words], tmp_path) for before in ([], own))
    assert "script.py(5)<module>" in bare
    assert watched == bare


def _debugged(words: list[str], folder: Path) -> str:
    return subprocess.run(
        [sys.executable, *words],
        input="w\nup\nup\nup\nw\ndown\np 1\nc\n",
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
