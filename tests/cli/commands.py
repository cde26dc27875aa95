"""The command line, and the trainings that it asks for."""

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest

from tfwatch import cli
from tfwatch.cli.script.request import RunOptions


def exit_code(*words: str) -> int:
    """Return the exit code of a command, whether it is returned or raised by argparse."""
    try:
        return cli.main(words)
    except SystemExit as end:
        return int(end.code or 0)


class Done(NamedTuple):
    """The end of a command: its exit code, and what it printed."""

    code: int
    out: str
    err: str


def typed(*words: str | Path) -> Done:
    """Return the end of a command that a user types."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        code = exit_code(*map(str, words))
    for stream in (out, err):
        stream.seek(0)
    return Done(code, out.read(), err.read())


def trainings_asked(monkeypatch: pytest.MonkeyPatch) -> list[RunOptions]:
    """Return the trainings that are asked for from here on, none of them carried out."""
    asked: list[RunOptions] = []

    def run(options: RunOptions) -> int:
        asked.append(options)
        return 0

    monkeypatch.setattr("tfwatch.cli.script.run.run", run)
    return asked
