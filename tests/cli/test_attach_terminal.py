"""`tfwatch attach` in a terminal, beside a process whose fits write runs without TensorFlow."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.pseudo import ROOT, Pseudo
from tests.runs.processes import wait_until
from tfwatch.runs.library import list_runs

pytestmark = pytest.mark.terminal

_FITS = """
import os, sys, time
from tests.cli.fake_fits import fit
fit(10**6, until=lambda: os.path.exists(sys.argv[2]))
fit()
"""


@contextmanager
def trained(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a process with two fits; the first ends once the file `next` exists."""
    command = [sys.executable, "-c", _FITS, str(folder / "runs"), str(folder / "next")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            wait_until(lambda: list_runs(folder / "runs"))
            yield process
        finally:
            process.kill()


def attached(folder: Path) -> Pseudo:
    """Attach to the newest training."""
    environ = {"XDG_CONFIG_HOME": str(folder / "config"), "COLUMNS": "120", "LINES": "40"}
    return Pseudo(
        "-m",
        "tfwatch",
        "attach",
        "--runs-dir",
        str(folder / "runs"),
        columns=120,
        rows=40,
        **environ,
    )


def test_it_follows_the_fits_sends_keys_and_leaves_the_training_alone(tmp_path: Path) -> None:
    with trained(tmp_path) as process, attached(tmp_path) as terminal:
        terminal.wait_for("ATTACHED")
        (tmp_path / "next").touch()
        terminal.wait_for("fit 2")
        assert process.stdout
        terminal.press("p")
        assert process.stdout.readline() == "switch prefetch by key\n"
        terminal.answer("d")
        assert terminal.wait() == 0
        assert terminal.state == terminal.before
        assert process.poll() is None
