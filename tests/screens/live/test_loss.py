"""A loss that is not finite, on the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.screens.canned import COMPUTE_BOUND, Canned, usual
from tests.screens.showing import shown
from tfwatch.core.events import LossDiverged, LossRecovered

if TYPE_CHECKING:
    from pathlib import Path


def diverged(folder: Path) -> Canned:
    run = usual(folder)
    return run.event(LossDiverged, step=451, loss="NaN", finite_step=450).steps(50, COMPUTE_BOUND)


async def test_it_is_an_event_and_leaves_the_banner_when_it_is_over(tmp_path: Path) -> None:
    run = diverged(tmp_path).event(LossRecovered, step=502).steps(30, COMPUTE_BOUND)
    async with shown(run) as show:
        assert "loss is NaN" not in "".join(show.rows[:4])
        assert "! loss is NaN since step 451" in show.text
        assert "! loss is finite again, from step 502 on" in show.text
