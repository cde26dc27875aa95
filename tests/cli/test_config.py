"""The command line over the config file: an option overrides a key, and bad keys are one
sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.commands import exit_code, trainings_asked
from tests.cli.recorded import noisy_rows, record
from tfwatch.config import VARIABLE
from tfwatch.notices import NotifyOptions
from tfwatch.tuner.driver import Autopilot

if TYPE_CHECKING:
    from pathlib import Path

    from tfwatch.cli.script.request import RunOptions


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty config file."""
    path = tmp_path / "config.toml"
    path.write_text("")
    monkeypatch.setenv(VARIABLE, str(path))
    return path


def requested(monkeypatch: pytest.MonkeyPatch, *words: str) -> RunOptions:
    """The request that a command line and the config file make."""
    orders = trainings_asked(monkeypatch)
    assert exit_code("train", "cnn", *words) == 0
    return orders[0]


def test_the_config_file_sets_what_no_option_sets(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = config.parent / "runs"
    config.write_text(
        'theme = "light"\nnotify = true\nnotify-command = "/bin/sh -c x"\nmemory-limit = 5\n'
        f'runs-dir = "{runs}"\n'
    )
    found = requested(monkeypatch)

    assert (found.theme, found.runs_dir, found.memory_bytes) == ("light", runs, 5 * 2**30)
    assert found.notify == NotifyOptions(True, ("/bin/sh", "-c", "x"))


def test_each_preference_of_a_training_has_a_key_and_an_option_that_undoes_it(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text("memory-limit = 2\nquiet = true\n")
    asked = trainings_asked(monkeypatch)
    undo = ["--no-quiet", "--memory-limit", "1"]
    for words in ([], undo):
        assert exit_code("train", "dense", "--autopilot", *words) == 0
    kept, undone = asked

    assert (kept.quiet, undone.quiet) == (True, False)
    assert (kept.job, undone.job) == (Autopilot(2 * 2**30), Autopilot(2**30))


def test_the_config_file_sets_scripts(
    config: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config.write_text(f'python = "{tmp_path}"\nquiet = true')
    taken: list[Any] = []

    def take(given: Any) -> int:
        taken.append(given)
        return 0

    monkeypatch.setattr("tfwatch.cli.script.run.run", take)
    assert exit_code("run", "train.py") == 0
    (script,) = taken
    assert (script.python, script.quiet) == (tmp_path, True)


@pytest.mark.parametrize(("option", "is_redacted"), [([], True), (["--no-redact"], False)])
def test_the_config_file_redacts_reports(
    option: list[str], is_redacted: bool, config: Path, tmp_path: Path
) -> None:
    config.write_text("redact = true")
    record(tmp_path / "run_of_a_name", noisy_rows(1))
    page = tmp_path / "page.html"

    words = ["report", str(tmp_path / "run_of_a_name"), "-o", str(page), *option]
    assert exit_code(*words) == 0
    assert is_redacted == ("run_of_a_name" not in page.read_text(encoding="utf-8"))


def test_an_option_overrides_the_config_file(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text(
        'theme = "light"\nnotify = true\nnotify-command = "/bin/sh"\nmemory-limit = 5\n'
    )
    words = [
        "--theme",
        "dark",
        "--no-notify",
        "--memory-limit",
        "2",
        "--runs-dir",
        "x",
    ]
    found = requested(monkeypatch, *words)

    assert (found.theme, found.memory_bytes) == ("dark", 2 * 2**30)
    assert found.notify == NotifyOptions()


@pytest.mark.parametrize("words", [["runs"], ["train", "cnn"], ["doctor"], ["replay"]])
def test_a_bad_config_file_is_one_sentence(
    config: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text("run-dir = 4")

    assert exit_code(*words) == 2
    assert capsys.readouterr().err.startswith(f"tfwatch: {config}: no key 'run-dir': there are")


def test_help_works_with_a_bad_config_file(config: Path) -> None:
    config.write_text("=")

    assert exit_code("train", "--help") == 0


@pytest.mark.parametrize(
    ("line", "words"),
    [
        pytest.param("tfwatch ser", {"serve"}, id="command"),
        pytest.param("tfwatch train cn", {"cnn", "cnn-loop"}, id="workload"),
        pytest.param("tfwatch runs remove ", {"2026-11-20_cnn"}, id="run"),
        pytest.param("tfwatch train cnn --theme ", {"dark", "light"}, id="the values of an option"),
    ],
)
def test_a_shell_completes(line: str, words: set[str], config: Path, tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "2026-11-20_cnn"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("{}")
    config.write_text(f'runs-dir = "{folder.parent}"')
    out = tmp_path / "out"
    shell = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_SHELL": "fish",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(out),
    }
    asked = {
        **os.environ,
        **shell,
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "_ARGCOMPLETE_IFS": "\n",
    }

    # argcomplete takes descriptors of its process.
    subprocess.run([sys.executable, "-m", "tfwatch"], env=asked, check=True, timeout=60)

    assert {word.split("\t")[0].strip() for word in out.read_text().split("\n") if word} == words
