"""The knobs that wait for an epoch."""

from pathlib import Path
from typing import Any

import pytest

from tests.screens.canned import STARVING, Canned
from tests.screens.showing import shown
from tfwatch.core.events import SwitchAsked
from tfwatch.core.rows import Phase

KNOBS = {"prefetch": "off", "workers": "off", "cache": "off"}
GB = 2**30


def cnn(folder: Path | None, **changes: Any) -> Canned:
    values = {"knobs": KNOBS, "switchable": [*KNOBS], "cache_bytes": round(1.2 * GB)}
    return (
        Canned(folder, **{**values, **changes})
        .started()
        .steps(150, STARVING)
        .doing(Phase.COMPUTE, 0.001)
    )


def asked(run: Canned, knob: str, old: str, new: str) -> Canned:
    return run.event(SwitchAsked, knob=knob, old=old, new=new, step=run.step, by="key")


async def test_the_cache_shows_its_size_and_its_first_epoch(tmp_path: Path) -> None:
    run = cnn(tmp_path)
    async with shown(run) as show:
        await show.press("1")
        (row,) = (row for row in show.rows if "c cache off next: on" in " ".join(row.split()))
        assert "gain not sure" in row
        await show.press("c")
        assert show.asked() == [("cache", "on")]
        asked(run, "cache", "off", "on").steps(30, STARVING)
        await show.frame()
        assert "c cache off next: on requested, from epoch 3" in show.words
        assert "cache off → on requested, after an epoch has filled it" in show.text
        await show.press("c")
        assert show.asked() == [("cache", "off")]


@pytest.mark.parametrize(
    ("epochs", "words"), [(2, "too late, from epoch 3"), (3, "requested, from epoch 3")], ids=str
)
async def test_a_cache_that_fills_in_the_last_epoch_is_too_late(epochs: int, words: str) -> None:
    run = asked(cnn(None, epochs=epochs), "cache", "off", "on").steps(5, STARVING)
    async with shown(run) as show:
        assert f"c cache off next: on {words}" in show.words


async def test_a_cache_that_does_not_fit_is_greyed_with_its_figures(tmp_path: Path) -> None:
    async with shown(cnn(tmp_path, cache_bytes=round(4.1 * GB))) as show:
        await show.press("1")
        assert "needs 4.1 GB, 6.2 GB are free" in show.text


async def test_a_workload_without_the_knob_asks_nothing(tmp_path: Path) -> None:
    async with shown(cnn(tmp_path, knobs={"prefetch": "off"}, switchable=["prefetch"])) as show:
        await show.press("c")
        assert show.asked() == []
        (message,) = [note.message for note in show.app._notifications]
        assert message.startswith("cache: its examples are in memory")
