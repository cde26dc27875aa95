"""The time of a training over its restarts, on the screen of one of its runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.restarts import write_restart
from tests.screens.canned import usual
from tests.screens.live.test_whole_run import replayed
from tests.screens.showing import rows_of, shown
from tfwatch.screens.dialogs.overlays import GoodputScreen

if TYPE_CHECKING:
    from pathlib import Path

    from textual.pilot import Pilot


async def when_read(pilot: Pilot[Any]) -> None:
    """Wait until the runs are read and shown."""
    screen = pilot.app.screen
    assert isinstance(screen, GoodputScreen)
    screen.reading.join(60)
    for _ in range(100):
        await pilot.pause()
        if any(" of one training" in row for row in rows_of(screen)):
            return
    pytest.fail("the restarts are not shown")


async def test_a_run_that_goes_on_with_another_shows_the_training_over_its_restarts(
    tmp_path: Path,
) -> None:
    first, second = tmp_path / "2026-01-01T10-00-00_train", tmp_path / "2026-01-01T10-10-00_train"
    end_s = write_restart(first, 0.0, 0, 350, "failed")
    write_restart(second, end_s + 20, 2, 400, "finished")
    async with replayed(second, (80, 24)) as show:
        assert "G goodput" in rows_of(show.app.screen)[-1]
        await show.pilot.press("G")
        await when_read(show.pilot)
        assert "cnn: 2 runs of one training, 1 restart" in show.text
        assert "trained twice" in show.text
        (row,) = (line for line in show.text.splitlines() if "failed" in line)
        assert row.split()[2:4] == ["Jan", "08:00"], "a run is one line at 80 columns"
        assert row.split()[4:] == ["failed", "1", "350", "150", "20.0", "s", "│"]
        await show.pilot.press("escape")
        assert not isinstance(show.app.screen, GoodputScreen)


async def test_a_run_without_a_folder_gives_the_reason() -> None:
    async with shown(usual(None)) as show:
        assert "goodput" not in show.rows[-1], "a first run offers none"
        await show.press("G")
        assert [note.message for note in show.app._notifications] == ["this run is not recorded"]
