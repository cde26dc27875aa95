"""The config file: values as their options read them, and errors in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tfwatch.config import VARIABLE, ConfigError, config_path, read_config, short_path
from tfwatch.runs.library import default_runs_dir, platform_runs_dir


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of a config file that is not there yet."""
    path = tmp_path / "config.toml"
    path.write_text("")
    monkeypatch.setenv(VARIABLE, str(path))
    return path


@pytest.mark.parametrize(
    ("text", "values"),
    [
        pytest.param("", {}, id="empty"),
        pytest.param("# nothing\n", {}, id="comment"),
        pytest.param(
            'theme = "light"\nnotify = true', {"theme": "light", "notify": True}, id="words"
        ),
        pytest.param("memory-limit = 1.5", {"memory-limit": 1.5 * 2**30}, id="memory"),
        pytest.param(
            "notify-command = \"/bin/sh -c 'a b'\"",
            {"notify-command": ("/bin/sh", "-c", "a b")},
            id="command",
        ),
    ],
)
def test_a_value_is_read_as_its_option_reads_it(
    config: Path, text: str, values: dict[str, Any]
) -> None:
    config.write_text(text)

    assert read_config().values == values


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param("zzz = 4", "no key 'zzz': there are theme, runs-dir, notify", id="unknown"),
        pytest.param(
            "[notify]\nafter = 3", "notify: {'after': 3} is not true or false", id="table"
        ),
        pytest.param("memory-limit = [1]", "memory-limit: [1] is not a number", id="list"),
        pytest.param(
            'theme = "blue"', "theme: 'blue' is not a theme: there are dark, light", id="theme"
        ),
        pytest.param('runs-dir = ""', "runs-dir: give a path", id="no path"),
        pytest.param(
            "runs-dir = 3",
            "runs-dir: 3 is not a text in quotes",
            id="a path without quotes",
        ),
        pytest.param(
            "notify-command = true", "notify-command: True is not a text", id="no command"
        ),
        pytest.param(
            'notify-command = "/no/such"',
            "notify-command: there is no program /no/such",
            id="program",
        ),
        pytest.param(
            'notify-command = "a \'b"',
            'notify-command: "a \'b" is not a command: No closing',
            id="quote",
        ),
        pytest.param(
            'theme = "dark"\nnotify true', "is not TOML: Expected '=' after a key", id="no TOML"
        ),
        pytest.param("memory-limit = " + "1" * 5000, "is not TOML: Exceeds the limit", id="number"),
        pytest.param('"\\u001b[2J" = 1', "no key '\\x1b[2J'", id="control characters"),
    ],
)
def test_what_cannot_be_used_is_a_sentence_with_file_and_key(
    config: Path, text: str, sentence: str
) -> None:
    config.write_text(text)

    with pytest.raises(ConfigError) as raised:
        read_config()
    assert str(raised.value).startswith(str(config))
    assert sentence in str(raised.value)
    assert str(raised.value).isprintable()


def test_an_error_of_toml_has_its_line(config: Path) -> None:
    config.write_text('theme = "dark"\nnotify true')

    with pytest.raises(ConfigError, match="line 2"):
        read_config()


def test_a_file_that_is_no_text_and_a_folder_are_refused(config: Path) -> None:
    config.write_bytes(b'theme = "dark"\n\xff')
    with pytest.raises(ConfigError, match="is not TOML"):
        read_config()
    config.unlink()
    config.mkdir()
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read_config()


def test_a_file_that_is_named_has_to_be_there(config: Path) -> None:
    config.unlink()

    with pytest.raises(ConfigError, match=f"there is no config file .*, which {VARIABLE} names"):
        read_config()


def test_without_a_file_there_are_no_values(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setattr("platformdirs.user_config_dir", lambda *_, **__: str(tmp_path / "none"))

    assert config_path() == tmp_path / "none" / "config.toml"
    assert read_config().values == {}


def test_a_file_that_changes_is_read_again(config: Path) -> None:
    assert read_config().values == {}
    config.write_text("notify = true")
    assert read_config().values == {"notify": True}


def test_the_runs_folder_is_that_of_every_run(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text('runs-dir = "~/own runs"')
    assert default_runs_dir() == Path.home() / "own runs"

    config.write_text("runs-dir = 7.5\nzzz = 1")
    assert default_runs_dir() == platform_runs_dir()
    assert default_runs_dir() == platform_runs_dir()
    assert capsys.readouterr().err.count("its runs folder is not used") == 1


def test_a_path_in_the_home_folder_is_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert short_path(Path("/home/ada/runs/one")) == "~/runs/one"
    assert short_path(Path("/data/one")) == "/data/one"
