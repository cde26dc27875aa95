"""A file of the user's is written as a whole, or stays as it is."""

import os
import stat
import sys
from pathlib import Path

import pytest

from tfwatch.core.errors import BadInputError
from tfwatch.fix.user_file import NoPatchError, UserFile

LATER = sys.maxsize


def read(data: bytes) -> UserFile:
    Path("train.py").write_bytes(data)
    return UserFile.read("train.py", LATER)


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "data",
    [
        b"a = 1\nb = 2\n",
        b"a = 1\r\nb = 2\r\n",
        b"\xef\xbb\xbfa = 1\n",
        b"# coding: latin-1\na = '\xe4'",
        "a = 'ä'\n".encode(),
    ],
)
def test_the_encoding_and_the_line_ends_stay(data: bytes) -> None:
    file = read(data)

    assert "\r" not in file.text
    assert file.encoded(file.text) == data
    assert file.encoded(file.text.replace("a", "c")) == data.replace(b"a", b"c")


def test_a_file_keeps_its_permissions_and_its_link() -> None:
    Path("real.py").write_text("a = 1\n")
    Path("real.py").chmod(0o750)
    Path("train.py").symlink_to("real.py")
    UserFile.read("train.py", LATER).replace("a = 2\n")

    assert Path("train.py").is_symlink()
    assert Path("real.py").read_text() == "a = 2\n"
    assert stat.S_IMODE(Path("real.py").stat().st_mode) == 0o750
    assert sorted(os.listdir()) == ["real.py", "train.py"]


def test_a_file_that_changed_is_left_as_it_is() -> None:
    file = read(b"a = 1\n")
    Path("train.py").write_text("a = 3\n")

    with pytest.raises(BadInputError, match=r"train\.py changed since the run began"):
        file.replace("a = 2\n")
    assert Path("train.py").read_text() == "a = 3\n"
    assert os.listdir() == ["train.py"]


def test_a_write_that_is_interrupted_leaves_the_file_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = read(b"a = 1\n")

    def interrupt(fd: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        file.replace("a = 2\n")
    assert Path("train.py").read_text() == "a = 1\n"
    assert os.listdir() == ["train.py"]


def test_a_file_that_was_written_since_the_run_began_has_no_patch() -> None:
    Path("train.py").write_text("a = 1\n")

    with pytest.raises(NoPatchError, match=r"train\.py changed since the run began"):
        UserFile.read("train.py", Path("train.py").stat().st_mtime_ns - 1)


@pytest.mark.parametrize(
    ("data", "why"), [(b"a = 1\r\nb = 2\n", "both kinds of line ends"), (b"\xff\n", "be read")]
)
def test_a_file_that_cannot_be_written_back_has_no_patch(data: bytes, why: str) -> None:
    with pytest.raises(NoPatchError, match=why):
        read(data)
