"""Preferences in the environment: an option overrides them, and a bad one is one sentence."""

from pathlib import Path

import pytest

from tests.cli.commands import exit_code, trainings_asked, typed
from tfwatch.notices import NotifyOptions


def test_the_environment_sets_what_no_option_sets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TFWATCH_RUNS_DIR", "~/own runs")
    monkeypatch.setenv("TFWATCH_THEME", "light")
    monkeypatch.setenv("TFWATCH_NOTIFY_COMMAND", "/bin/sh -c x")
    asked = trainings_asked(monkeypatch)
    options = ["--theme", "dark", "--notify-command", "/bin/sh", "--runs-dir", "x"]
    for words in ([], options):
        assert exit_code("train", "cnn", *words) == 0
    kept, changed = asked

    assert (kept.theme, kept.runs_dir) == ("light", tmp_path / "own runs")
    assert kept.notify == NotifyOptions(False, ("/bin/sh", "-c", "x"))
    assert (changed.theme, str(changed.runs_dir)) == ("dark", "x")
    assert changed.notify.command == ("/bin/sh",)


def test_a_bad_theme_of_the_environment_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFWATCH_THEME", "red")

    why = "tfwatch: --theme: 'red' is not a theme: there are dark, light\n"
    assert typed("replay") == (2, "", why)
