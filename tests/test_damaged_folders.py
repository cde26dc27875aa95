"""Damaged run folders in every command; `python -m tests.bench.damaged` has more."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.bench.damaged import Failure, templates, try_folder
from tfwatch.cli import set as set_command

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Folders of a test, and the numbers that the program has failed at: an events.jsonl of 2500 equal
#: switches.
_EACH, _FAILED = 6, (1297,)


@pytest.fixture(scope="module", autouse=True)
def _templates() -> Iterator[None]:
    yield
    shutil.rmtree(templates()[0].parent)
    templates.cache_clear()


@pytest.mark.parametrize("numbers", [*(range(n, n + _EACH) for n in range(0, 24, _EACH)), _FAILED])
def test_a_damaged_folder_is_read_or_refused_in_a_sentence(
    numbers: range, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(set_command, "_LONGEST_S", 0)
    failures: list[Failure] = []
    for number in numbers:
        (tmp_path / str(number)).mkdir()
        failures += try_folder(number, tmp_path / str(number))

    assert failures == []
