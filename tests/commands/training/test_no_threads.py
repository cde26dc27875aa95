"""The system refuses a thread that a training stands on, at its very start."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from tests.commands.fakes import factories, order
from tfwatch.commands.training import train as module
from tfwatch.commands.training.train import train
from tfwatch.core.events import RunEnded
from tfwatch.runs.library.finding import list_runs
from tfwatch.runs.reading.opened import open_run

if TYPE_CHECKING:
    from pathlib import Path

REFUSED = "can't start new thread"


@pytest.fixture(params=["tfwatch-writer", "tfwatch-tuner", "training"])
def refused(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        of_training = repr(getattr(thread, "_target", None)).startswith("<bound method FakeTrainer")
        if request.param == ("training" if of_training else thread.name):
            raise RuntimeError(REFUSED)
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", start)


@pytest.mark.usefixtures("refused")
@pytest.mark.parametrize("headless", [True, False])
def test_it_is_a_sentence_and_the_run_is_recorded_as_failed(
    headless: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(module, "why_no_screen", lambda _: "")

    assert train(order(tmp_path, headless=headless), factories(app="stay")) == 1

    out, err = capfd.readouterr()
    assert (out, err) == ("", f"tfwatch: the training cannot start: {REFUSED}\n")
    assert list_runs(tmp_path) == []  # a failed start is no run
    (folder,) = tmp_path.iterdir()
    (ended,) = (event for event in open_run(folder).events if isinstance(event, RunEnded))
    assert ended.cause == "failed"
    assert REFUSED in ended.detail
