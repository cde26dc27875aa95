"""Finding the run before a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from tests.screens.canned import usual
from tfwatch.runs.library.finding import find_earlier

if TYPE_CHECKING:
    from pathlib import Path

    from tfwatch.runs.format import Manifest


@pytest.fixture
def manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Manifest:
    """Return the manifest of the run `later`, next to the run `first`, which is in the user's home too."""
    monkeypatch.setenv("HOME", str(tmp_path))
    usual(tmp_path / "runs" / "first").ended().writer.close()
    return usual(None).writer.manifest()


@pytest.mark.parametrize("after", ["first", "~/runs/first", "{}/runs/first"])
def test_the_earlier_run_is_found_by_name_or_path(
    after: str, manifest: Manifest, tmp_path: Path
) -> None:
    after = after.format(tmp_path)
    found = find_earlier(replace(manifest, after=after), tmp_path / "runs" / "later")
    assert found
    assert found.path == tmp_path / "runs" / "first"


@pytest.mark.parametrize(
    "after", ["", "none", "..", "~nobody-of-this-name/x", "/dev/null", "a\0b", "x" * 5000]
)
def test_a_missing_earlier_run_is_none(after: str, manifest: Manifest, tmp_path: Path) -> None:
    assert find_earlier(replace(manifest, after=after), tmp_path / "runs" / "later") is None


def test_a_run_without_a_folder_has_no_earlier_run(manifest: Manifest) -> None:
    assert find_earlier(replace(manifest, after="first"), None) is None
