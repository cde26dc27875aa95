"""Notices and limits around a whole training, without TensorFlow."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.commands.fakes import factories, order
from tests.runs.folders import write_run
from tests.screens.canned import usual
from tests.screens.showing import Shown, shown
from tfwatch.app import TfwatchApp
from tfwatch.commands.script.script_notices import ScriptNotices
from tfwatch.commands.training.restart import _live, _notify_words
from tfwatch.commands.training.train import train
from tfwatch.core.clock import SYSTEM
from tfwatch.core.events import LossDiverged, RunEnded
from tfwatch.core.knobs import Knobs
from tfwatch.core.rows import STEP
from tfwatch.live.notices import Notifier
from tfwatch.runs.announcements import announce, announce_in
from tfwatch.runs.create import begin_run
from tfwatch.runs.library import removal
from tfwatch.runs.library.removal import RunsToKeep, start_pruning
from tfwatch.terminal.notification import NotifyOptions

if TYPE_CHECKING:
    import pytest

_WRITES = "import os, sys; open(sys.argv[1], 'a').write(os.environ['TFWATCH_CAUSE'] + ' ' + sys.argv[2] + '\\n')"
NO_STEPS = np.empty(0, dtype=STEP)


def writes_to(path: Path) -> tuple[str, ...]:
    return sys.executable, "-c", _WRITES, str(path)


def test_the_end_of_a_training_without_a_screen_is_noticed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    notify = NotifyOptions(in_terminal=True, command=writes_to(out))

    assert train(order(tmp_path / "runs", headless=True, notify=notify), factories(steps=20)) == 0

    assert out.read_text().startswith("end cnn: FINISHED: ")
    assert "tfwatch: cnn: FINISHED: " in capfd.readouterr().err


def test_a_command_that_fails_or_hangs_costs_the_training_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfwatch.live.notices.END_S", 0.2)
    notify = NotifyOptions(command=("/bin/sh", "-c", "exec sleep 5"))
    began_s = time.monotonic()

    assert train(order(tmp_path / "hangs", headless=True, notify=notify), factories(steps=5)) == 0
    assert time.monotonic() - began_s < 5
    assert (
        train(
            order(tmp_path / "fails", headless=True, notify=NotifyOptions(command=("/no",))),
            factories(),
        )
        == 0
    )
    assert "FINISHED" in capfd.readouterr().err


def test_quiet_prints_no_progress(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert train(order(tmp_path, headless=True, quiet=True), factories(steps=20)) == 0

    out, err = capfd.readouterr()
    assert "20 steps" in out
    assert "ms/step" not in err


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


def test_a_restart_begins_with_what_was_in_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configured = Knobs(prefetch=4, cache=True)
    assert _live(Knobs(), configured) == ("--prefetch", "off", "--cache", "off")
    assert _live(configured, configured) == ()

    config = tmp_path / "config.toml"
    config.write_text("notify = true")
    monkeypatch.setenv("TFWATCH_CONFIG", str(config))
    assert _notify_words(NotifyOptions()) == ["--no-notify"]
    asked = NotifyOptions(in_terminal=False, after_s=9, command=("a", "b c"))
    assert _notify_words(asked) == [
        "--no-notify",
        "--notify-command",
        "a 'b c'",
        "--notify-after",
        "9",
    ]


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
