"""Damaged run folders in every command; `python -m tests.bench.damaged` has more."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.damaged import DAMAGED, failures, make_folder, templates
from tfwatch.cli import set as set_command
from tfwatch.runs import format as layout

#: Folders of a test.
_EACH = 6


@pytest.fixture(scope="module", autouse=True)
def _templates() -> Iterator[None]:
    yield
    shutil.rmtree(templates()[0].parent)
    templates.cache_clear()


@pytest.fixture(autouse=True)
def _nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(set_command, "_LONGEST_S", 0)


@pytest.mark.parametrize("first", range(0, 24, _EACH))
def test_a_damaged_folder_is_read_or_refused_in_a_sentence(first: int, tmp_path: Path) -> None:
    found: list[str] = []
    for number in range(first, first + _EACH):
        (tmp_path / str(number)).mkdir()
        done = make_folder(number, tmp_path / str(number))
        found += [f"{done}: {one}" for one in failures(tmp_path / str(number))]

    assert found == []


def test_thousands_of_equal_switches_are_read_in_time(tmp_path: Path) -> None:
    make_folder(0, tmp_path)
    shutil.rmtree(tmp_path / DAMAGED)
    shutil.copytree(templates()[-1], tmp_path / DAMAGED)
    events = tmp_path / DAMAGED / layout.EVENTS
    switches = [line for line in events.read_text().splitlines() if "PipelineSwitched" in line]
    with events.open("a") as file:
        file.write(f"{switches[0]}\n" * 2500)

    assert list(failures(tmp_path)) == []
