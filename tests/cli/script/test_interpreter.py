"""The interpreter that `tfwatch run --python` takes, and those that it refuses."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tfwatch.cli.script.interpreter import check_interpreter
from tfwatch.core.errors import BadInputError

if TYPE_CHECKING:
    from pathlib import Path


def program(folder: Path, text: str) -> str:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return str(path)


def test_this_interpreter_is_taken() -> None:
    check_interpreter(sys.executable)


def test_one_without_the_packages_is_refused_with_the_command_that_installs_them(
    tmp_path: Path,
) -> None:
    bare = program(tmp_path, f'exec {sys.executable} -I -S "$@"')
    with pytest.raises(BadInputError) as refused:
        check_interpreter(bare)
    packages = "keras, msgspec, numpy, psutil"
    assert (
        str(refused.value)
        == f"{bare} lacks {packages}: install with {bare} -m pip install keras msgspec numpy psutil"
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("echo tfwatch 3 9", " is Python 3.9, and tfwatch needs 3.10 or newer"),
        ("echo usage: cat FILE", " is not a Python interpreter"),
        ("exit 1", " is not a Python interpreter"),
    ],
)
def test_what_is_no_interpreter_for_it_is_a_sentence(
    text: str, sentence: str, tmp_path: Path
) -> None:
    python = program(tmp_path, text)
    with pytest.raises(BadInputError) as refused:
        check_interpreter(python)
    assert str(refused.value) == python + sentence


def test_a_missing_one_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="cannot be started: No such file or directory"):
        check_interpreter(str(tmp_path / "python"))
