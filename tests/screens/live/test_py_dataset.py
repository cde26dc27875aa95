"""The settings of a `PyDataset` on the live screen: its keys, and the epoch from which they
count."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.screens.canned import STARVING, Canned, usual
from tests.screens.showing import shown
from tfwatch.core.events import SwitchAsked

if TYPE_CHECKING:
    from pathlib import Path

_KNOBS = ("workers", "multiprocessing", "queue_size")


def reading_py_dataset(folder: Path) -> Canned:
    """Return a run in its first epoch, which reads a `PyDataset` without workers."""
    knobs = {"prefetch": "default", "workers": "off", "multiprocessing": "off", "queue_size": "10"}
    known = {"knobs": knobs, "switchable": ["prefetch", *_KNOBS], "workers_from_epoch": True}
    return Canned(folder, **known).begin_epoch().steps(60, STARVING)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_its_keys_ask_for_the_next_epoch(size: tuple[int, int], tmp_path: Path) -> None:
    run = reading_py_dataset(tmp_path)
    async with shown(run, size) as show:
        for words in (
            "w workers off next: auto",
            "m multiprocessing off next: on",
            "k queue size 10 next: 20",
        ):
            assert words in show.words
        await show.press("w", "m", "k")
        assert show.asked() == [
            ("workers", "auto"),
            ("multiprocessing", "on"),
            ("queue_size", "20"),
        ]
        run.event(
            SwitchAsked, knob="workers", old="off", new="auto", step=run.step, by="key", epochs=1
        )
        await show.frame()
        assert "w workers off next: auto requested" in show.words


async def test_without_one_its_keys_say_so(tmp_path: Path) -> None:
    async with shown(usual(tmp_path)) as show:
        assert "multiprocessing" not in show.text
        await show.press("m")
        assert show.asked() == []
        assert [note.message for note in show.app._notifications] == [
            "multiprocessing: its data is not a PyDataset"
        ]
