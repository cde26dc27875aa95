"""The command that installs tfwatch again names its source."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from tfwatch.doctor.crash_reasons import pip_install

_REPOSITORY = (
    '{"url": "https://example.org/tfwatch.git", "vcs_info": {"vcs": "git", "commit_id": "ab12"}}'
)


class _Distribution:
    def __init__(self, text: str | None) -> None:
        self._text = text

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return self._text


@pytest.mark.parametrize(
    ("text", "command"),
    [
        pytest.param(None, "pip install 'tfwatch[nvidia]'", id="an index"),
        pytest.param(
            '{"url": "file:///home/a%20b/tfwatch", "dir_info": {}}',
            "pip install '/home/a b/tfwatch[nvidia]'",
            id="a folder",
        ),
        pytest.param(
            '{"url": "file:///src/tfwatch", "dir_info": {"editable": true}}',
            "pip install -e '/src/tfwatch[nvidia]'",
            id="a folder that is edited",
        ),
        pytest.param(
            _REPOSITORY,
            "pip install 'tfwatch[nvidia] @ git+https://example.org/tfwatch.git'",
            id="a repository",
        ),
        pytest.param(
            '{"url": "file:///d/tfwatch-0.1.0-py3-none-any.whl", "archive_info": {}}',
            "pip install 'tfwatch[nvidia] @ file:///d/tfwatch-0.1.0-py3-none-any.whl'",
            id="a wheel",
        ),
        pytest.param("[]", "pip install 'tfwatch[nvidia]'", id="no source"),
        pytest.param("{", "pip install 'tfwatch[nvidia]'", id="a damaged file"),
    ],
)
def test_the_command_names_the_source_of_this_installation(
    text: str | None, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: _Distribution(text))

    assert pip_install("nvidia") == command


def test_a_checkout_that_is_not_installed_is_its_own_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)

    assert pip_install() == f"pip install {Path(__file__).parents[2]}"
