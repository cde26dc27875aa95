"""A script without a screen: its end is noticed."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.runs.begun import begin_run
from tfwatch.cli.script.request import RunOptions
from tfwatch.cli.script.session import FollowedScript, UnseenRun, show_notice
from tfwatch.core.events import AUTOMATIC
from tfwatch.judge.profile import profiling
from tfwatch.judge.script_runs import ScriptRuns
from tfwatch.notices import NotifyOptions
from tfwatch.runs.requests import ProfileRequest, RequestFile
from tfwatch.runs.run import open_run
from tfwatch.runs.script_process import Announcements, announce, announce_in


def test_the_end_of_a_script_is_noticed_and_not_that_of_its_runs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    notify = NotifyOptions(in_terminal=True)
    options = RunOptions(["train.py"], tmp_path, headless=True, notify=notify)
    runs = ScriptRuns(Announcements(tmp_path / "announced").take)
    notices = FollowedScript(runs, options, show_notice)
    announce_in(str(tmp_path / "announced"))
    writer, _ = begin_run(tmp_path, "cnn")
    assert writer.folder
    announce(writer.folder)
    announce_in("")
    writer.end("finished")
    notices.start()
    notices.end("script ended, exit code 3")

    assert capfd.readouterr().err == "tfwatch: script ended, exit code 3\n"
    writer.close()


def test_a_run_without_a_screen_asks_once_for_the_profile_that_is_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, _ = begin_run(tmp_path, "cnn")
    assert writer.folder
    snapshot, requests = open_run(writer.folder), RequestFile(writer.folder)
    unseen, due = UnseenRun(writer.folder), [True, True, False]
    monkeypatch.setattr(profiling, "is_due", lambda view: due.pop())

    asked = []
    for now_s in (2.0, 3.0, 5.0, 6.0, 9.0):  # it is judged each 3 s
        unseen.look(replace(snapshot, now_s=now_s))
        asked.append([one.request for one in requests.read()])

    assert asked == [[], [], [], [ProfileRequest(AUTOMATIC)], []]
    assert due == [True]
    writer.close()
