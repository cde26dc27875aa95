"""A screen that decides shows few numbers: at most sixty at 120x40."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.screens.canned import COMPUTE_BOUND, N_A, STAGES, STARVING, Canned, usual
from tests.screens.showing import shown
from tests.screens.states import starving
from tfwatch.core import events as facts
from tfwatch.core.rows import Flag, Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.screens.canned import Split

MOST = 60
#: `10:17:21`, `1 678` and `13.9` are a number each.
NUMBER = re.compile(r"\d{1,3}(?: \d{3})+|\d+(?:[.:]\d+)*")


def epochs(split: Split) -> Canned:
    """Make a run of nine epochs whose stages are read, with a stall and a switch."""
    run = Canned(None, data="tf.data", epochs=100, steps_per_epoch=50)
    run.started()
    for epoch in range(9):
        run.staged(*STAGES, ("prefetch", "Prefetch", 1.8, N_A, 0.0, 2.0)).sample()
        run.steps(49, split)
        if epoch == 4:
            run.steps(1, (3000.0, 13.0, 0.8))
        metrics = {
            "loss": 1.31 - epoch / 10,
            "accuracy": 0.42,
            "val_loss": 1.4,
            "val_accuracy": 0.4,
        }
        run.event(facts.EpochEnded, epoch=run.epoch, step=run.step, metrics=metrics)
        run.pass_s(0.3).begin_epoch()
        run.steps(1, (22.0, 13.0, 0.8), int(Flag.EPOCH_START))
    return run.doing(Phase.COMPUTE, 0.004)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: starving(None), id="starving"),
        pytest.param(lambda: usual(None).staged(*STAGES), id="after a switch"),
        pytest.param(lambda: epochs(STARVING), id="epochs that starve"),
        pytest.param(lambda: epochs(COMPUTE_BOUND), id="epochs of compute"),
    ],
)
async def test_a_live_screen_has_at_most_sixty_numbers(make: Callable[[], Canned]) -> None:
    async with shown(make(), (120, 40)) as show:
        numbers = NUMBER.findall(show.text)
        assert 10 < len(numbers) <= MOST, show.text


@pytest.mark.parametrize(
    ("make", "shown_row", "hidden_row", "opens", "closes"),
    [
        pytest.param(
            lambda: epochs(STARVING), "E epoch 9", "E epoch 8:", "3", "escape", id="earlier epochs"
        ),
        pytest.param(
            lambda: starving(None), "1 more settings", "w workers", "1", "1", id="settings"
        ),
    ],
)
async def test_what_does_not_matter_now_is_behind_its_number(
    make: Callable[[], Canned], shown_row: str, hidden_row: str, opens: str, closes: str
) -> None:
    async with shown(make(), (120, 40)) as show:
        assert shown_row in show.words
        assert hidden_row not in show.words
        await show.press(opens)
        assert hidden_row in show.words
        await show.press(closes)
        assert hidden_row not in show.words


async def test_the_keys_of_the_footer_are_those_of_the_focused_pane() -> None:
    async with shown(usual(None), (120, 40)) as show:
        assert "f autopilot" in show.rows[-1]
        await show.press("3")
        assert "↑ ↓ rows" in show.rows[-1]
        assert "escape back" in show.rows[-1]
        assert "autopilot" not in show.rows[-1]
        await show.press("escape", "space")
        assert "←  → look" in show.rows[-1]
