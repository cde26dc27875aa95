"""Output of commands where the reader is gone or nothing can be written."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.judge.step_rows import plain
from tests.runs.folders import write_run

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["full", "gone"])
def output(request: pytest.FixtureRequest) -> Iterator[tuple[int, str, int]]:
    """A descriptor that takes nothing, the sentence on it, and the exit code."""
    if request.param == "gone":
        reader, fd = os.pipe()
        os.close(reader)
        reported = ("", 0)
    elif os.path.exists("/dev/full"):
        fd = os.open("/dev/full", os.O_WRONLY)
        reported = ("tfwatch: the output cannot be written: No space left on device\n", 1)
    else:
        pytest.skip("this system has no /dev/full")
    yield fd, *reported
    os.close(fd)


COMMANDS = ["runs --runs-dir .", "report run --runs-dir . --json"]


@pytest.mark.parametrize("words", COMMANDS)
def test_an_output_that_is_gone_or_full_is_no_traceback(
    tmp_path: Path, words: str, output: tuple[int, str, int]
) -> None:
    write_run(tmp_path / "run", plain(30))
    command = [sys.executable, "-m", "tfwatch", *words.split()]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    fd, says, code = output
    done = subprocess.run(
        command,
        stdout=fd,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        cwd=tmp_path,
        env=environ,
    )

    assert (done.stderr, done.returncode) == (says, code)


@pytest.mark.parametrize("words", ["runs --runs-dir .", "report run --runs-dir . -o -"])
def test_a_closed_output_is_no_traceback(tmp_path: Path, words: str) -> None:
    write_run(tmp_path / "run", plain(30))
    command = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "tfwatch", *words.split()]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, stderr=subprocess.PIPE, text=True, check=False, cwd=tmp_path, env=environ
    )

    assert (done.stderr, done.returncode) == (
        "tfwatch: the output cannot be written: it is closed\n",
        1,
    )
