"""Notices and limits around a whole training, without TensorFlow."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.runs.folders import write_run
from tests.screens.canned import usual
from tests.screens.showing import Shown, shown
from tfwatch.app import TfwatchApp
from tfwatch.commands.script.script_notices import ScriptNotices
from tfwatch.core.clock import SYSTEM
from tfwatch.core.events import LossDiverged, RunEnded
from tfwatch.core.rows import STEP
from tfwatch.live.notices import Notifier
from tfwatch.runs.announcements import announce, announce_in
from tfwatch.runs.create import begin_run
from tfwatch.runs.library import removal
from tfwatch.runs.library.removal import RunsToKeep, start_pruning
from tfwatch.terminal.notification import NotifyOptions

if TYPE_CHECKING:
    import pytest

NO_STEPS = np.empty(0, dtype=STEP)


def test_the_runs_of_a_script_are_noticed_and_its_end(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    notices = ScriptNotices(NotifyOptions(in_terminal=True), SYSTEM)
    announce_in(str(notices.announced))
    writer, _ = begin_run(tmp_path, "cnn")
    writer.event(LossDiverged(writer.now_ns(), 9, "NaN", 8))
    writer.flush()
    assert writer.folder
    announce(writer.folder)
    announce_in("")
    notices.start()
    deadline_s = time.monotonic() + 20
    err = ""
    while "NaN" not in err:
        assert time.monotonic() < deadline_s
        err += capfd.readouterr().err
    notices.end("script ended, exit code 3")

    assert err == "tfwatch: cnn: loss is NaN since step 9\n"
    assert capfd.readouterr().err == "tfwatch: script ended, exit code 3\n"
    assert not notices.announced.parent.exists()
    writer.close()


def messages(show: Shown) -> list[str]:
    return [message.message for message in show.app._notifications]


async def test_a_key_turns_the_notices_on_and_off(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    monkeypatch.setattr(TfwatchApp, "_write_to_terminal", lambda _, text: written.append(text))
    async with shown(
        usual(None), notifier=Notifier(NotifyOptions(), environ={"TERM": "foot"})
    ) as show:
        await show.press("N")
        await show.frame()
        assert messages(show) == [
            "notices by the bell and the desktop: starving or without a batch for 30 s, loss NaN, the end"
        ]
        await show.press("N", "N")
        show.run.event(LossDiverged, step=260, finite_step=259, loss="NaN").writer.flush()
        await show.frame()
        assert [text for text in written if "777" in text] == [
            "\a\x1b]777;notify;tfwatch;cnn: loss is NaN since step 260\x1b\\"
        ]
        await show.press("N")
        assert messages(show) == ["notices are off"]


def test_the_limit_is_kept_by_a_process_beside_the_training(tmp_path: Path) -> None:
    names = [f"2026-11-20T10-17-0{number}_cnn" for number in range(5)]
    for name in names:
        write_run(tmp_path / name, NO_STEPS, RunEnded(10**9, "finished", 0, ""))
    writer, _ = begin_run(tmp_path, "cnn")
    assert writer.folder

    start_pruning(tmp_path, RunsToKeep(count=1))
    (process,) = removal._newest
    words: Any = process.args
    assert Path(words[3], "tfwatch", "cli").is_dir(), "it runs this tfwatch"
    start_pruning(tmp_path, RunsToKeep(count=1))
    assert removal._newest == [process], "a second one does the same"

    deadline_s = time.monotonic() + 60
    while len(list(tmp_path.iterdir())) > 2:
        assert time.monotonic() < deadline_s
        time.sleep(0.05)  # another process removes them
    assert {path.name for path in tmp_path.iterdir()} == {names[4], writer.folder.name}
    while process.returncode is None:  # a thread waits for it: no other wait for a child finds it
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    assert process.returncode == 0
    writer.close()
