"""The settings of a `PyDataset` on the live screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.screens.canned import STARVING, Canned
from tests.screens.showing import shown

if TYPE_CHECKING:
    from pathlib import Path


async def test_its_keys_ask_for_the_next_epoch(tmp_path: Path) -> None:
    run = Canned(
        tmp_path,
        knobs={"prefetch": "default", "workers": "off", "multiprocessing": "off"},
        switchable=["prefetch", "workers", "multiprocessing"],
        workers_from_epoch=True,
    )
    run.begin_epoch().steps(60, STARVING)
    async with shown(run, (120, 40)) as show:
        await show.press("w", "m")
        assert show.asked() == [("workers", "auto"), ("multiprocessing", "on")]
        await show.frame()
        assert "w workers off next: auto requested" in show.words
        assert "m multiprocessing off next: on requested" in show.words
