"""The command line, and the trainings that it asks for."""

import pytest

from tfwatch import cli
from tfwatch.cli.script.request import RunOptions


def exit_code(*words: str) -> int:
    """Return the exit code of a command, whether it is returned or raised by argparse."""
    try:
        return cli.main(words)
    except SystemExit as end:
        return int(end.code or 0)


def trainings_asked(monkeypatch: pytest.MonkeyPatch) -> list[RunOptions]:
    """Return the trainings that are asked for from here on, none of them carried out."""
    asked: list[RunOptions] = []

    def run(options: RunOptions) -> int:
        asked.append(options)
        return 0

    monkeypatch.setattr("tfwatch.cli.script.run.run", run)
    return asked
