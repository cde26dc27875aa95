"""A disk that does not respond: the screen goes on, the keys work, and the disk is named."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.screens.canned import STARVING, Canned, usual
from tests.screens.showing import Shown, shown
from tfwatch.runs.folder import RunFolder
from tfwatch.runs.run import Run

WAIT_S = 10.0


class HangingFolder(RunFolder):
    """A run folder on a disk that responds while `responds` is set. reads: the files that it was
    asked for."""

    def __init__(self, run: Canned) -> None:
        assert run.writer.folder
        super().__init__(run.writer.folder, run.clock)
        self.responds = threading.Event()
        self.responds.set()
        self.reads: list[str] = []

    def _read(self, name: str, offset: int, limit: int) -> bytes:
        self.reads.append(name)
        assert self.responds.wait(WAIT_S)
        return super()._read(name, offset, limit)


@pytest.fixture
def run(tmp_path: Path) -> Canned:
    return usual(tmp_path)


@pytest.fixture
def disk(run: Canned) -> Iterator[HangingFolder]:
    """The disk of the run; it responds again when the test ends."""
    run.writer.flush()
    source = HangingFolder(run)
    yield source
    source.responds.set()


async def frame_until(show: Shown, words: str) -> None:
    """Draw frames until the screen shows some words: an answer comes in a thread."""
    for _ in range(200):
        await show.frame()
        if words in show.words:
            return
    raise AssertionError(show.text)


async def test_a_disk_that_hangs_is_named_with_its_seconds_and_holds_up_no_key(
    run: Canned, disk: HangingFolder
) -> None:
    reader = Run(disk, run.clock, patience_s=WAIT_S)
    async with shown(run, live=False, reader=reader) as show:
        assert "DISK NOT RESPONDING" not in show.text
        reader._frames.patience_s = 0.01
        disk.responds.clear()
        run.steps(50, STARVING)
        await show.frame()
        assert "DISK NOT RESPONDING" not in show.text
        run.at_s += 41.0
        await show.frame()
        assert "DISK NOT RESPONDING" in show.text
        assert "the disk has not responded for 41" in show.words
        reads = len(disk.reads)
        await show.press("question_mark")
        assert type(show.app.screen).__name__ == "TextScreen"
        await show.press("escape", "1", "space", "z", "left", "2")
        assert len(disk.reads) == reads  # nobody waits for an answer, so nobody asks
        disk.responds.set()
        await frame_until(show, "STEP 501 RUNS")
        assert "DISK NOT RESPONDING" not in show.text


async def test_the_thread_of_the_screen_never_asks_the_disk(
    run: Canned, disk: HangingFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen, asked, place = (
        threading.get_ident(),
        list[str](),
        str(run.writer.folder and run.writer.folder.parent),
    )

    def watch(name: str) -> None:
        function = getattr(os, name)

        def watched(path: Any = ".", *args: Any, **named: Any) -> Any:
            if (
                threading.get_ident() == screen
                and not isinstance(path, int)
                and place in os.fspath(path)
            ):
                asked.append(f"{name} {path}")
            return function(path, *args, **named)

        monkeypatch.setattr(os, name, watched)

    monkeypatch.setattr(run.writer, "flush", lambda: None)
    reader = Run(disk, run.clock, patience_s=WAIT_S)
    for name in ("stat", "lstat", "open", "listdir", "scandir", "mkdir"):
        watch(name)
    async with shown(run, live=False, reader=reader, is_attached=True) as show:
        for key in "1234567899yzS[]e?":
            show.app.live.frame()
            await show.press(key, "escape")
    assert asked == []
