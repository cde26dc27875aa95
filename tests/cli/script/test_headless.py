"""A script without a screen: its end is noticed."""

from pathlib import Path

import pytest

from tests.runs.begun import begin_run
from tfwatch.cli.script.request import RunOptions
from tfwatch.cli.script.session import FollowedScript, show_notice
from tfwatch.judge.script_runs import ScriptRuns
from tfwatch.notices import NotifyOptions
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
