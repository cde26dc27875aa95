"""A screen that decides shows few numbers: at most sixty at 120x40."""

import re
from collections.abc import Callable

import pytest

from tests.screens.canned import COMPUTE_BOUND, N_A, STAGES, STARVING, Canned, Split, usual
from tests.screens.showing import shown
from tests.screens.states import starving
from tfwatch.core import events as facts
from tfwatch.core.rows import Flag, Phase

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


def stalls() -> Canned:
    """Make a run with a stall at one line in each epoch, and a callback that holds it up."""
    run = Canned(None, data="tf.data", epochs=10, steps_per_epoch=50).started()
    for _ in range(5):
        run.staged(*STAGES, ("prefetch", "Prefetch", 1.8, N_A, 2.0, 2.0)).sample()
        run.steps(25, COMPUTE_BOUND)
        where = {"place": "stalls.py:13 in read", "thread": "generator", "stage": "map(load)"}
        since_ns = round(run.at_s * 1e9)
        run.event(facts.StallLocated, step=run.step + 1, since_ns=since_ns, **where)
        run.steps(1, (3000.0, 13.0, 0.8)).steps(23, COMPUTE_BOUND)
        at = {"place": "stalls.py:29 in on_train_batch_end"}
        run.event(facts.Paused, cause="callback", took_ms=1600.0, detail="Log", **at)
        metrics = {"loss": 1.31, "accuracy": 0.3347, "val_loss": 1.4}
        run.event(facts.EpochEnded, epoch=run.epoch, step=run.step, metrics=metrics)
        run.begin_epoch()
    return run.steps(40, COMPUTE_BOUND).doing(Phase.COMPUTE, 0.004)


def traced_again() -> Canned:
    """Make a run whose step is traced for each length of its texts."""
    run = Canned(None, data="tf.data", epochs=10, steps_per_epoch=500).started()
    for traces in range(1, 30):
        run.staged(*STAGES).sample().steps(5, COMPUTE_BOUND)
        change = f"words: shape (8, {traces}, 6) -> (8, {traces + 1}, 6)"
        run.event(facts.Traced, step=run.step, took_ms=900.0, traces=traces, change=change)
        run.pass_s(0.9)
    return run.doing(Phase.COMPUTE, 0.004)


def layers() -> Canned:
    """Make a run with a switch and epochs, whose step is compute and was profiled."""
    run = usual(None).staged(*STAGES)
    for _ in range(2):
        run.steps(200, COMPUTE_BOUND)
        metrics = {"val_loss": 0.7134, "loss": 0.6666, "accuracy": 0.6065}
        run.event(facts.EpochEnded, epoch=run.epoch, step=run.step, metrics=metrics)
        run.event(facts.ValidationEnded, epoch=run.epoch, took_ms=400.0)
        run.begin_epoch()
    parts = [
        facts.OperationTime("forward", f"conv2d_{n}", "Conv2D", "Conv2D", 15.1 / n)
        for n in range(1, 12)
    ]
    known = {"step_ms": 40.0, "cost_ms": 60.2, "operations": tuple(parts), "small_ms": 2.0}
    run.event(facts.StepProfiled, step=run.step, steps=3, **known)
    return run.steps(100, COMPUTE_BOUND).doing(Phase.COMPUTE, 0.004)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(stalls, id="stalls"),
        pytest.param(traced_again, id="traced again"),
        pytest.param(layers, id="layers after a switch"),
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
            *(traced_again, "words: shape (8, 29, 6)", "words: shape (8, 28, 6)"),
            *("3", "escape"),
            id="earlier traces",
        ),
        pytest.param(
            *(layers, "E epoch 3: val_loss 0.7134", "E epoch 3: val_loss 0.7134, loss 0.6666"),
            *("3", "escape"),
            id="further figures of an epoch",
        ),
        pytest.param(
            layers, "CPU: █ forward", "15.1 ms 32 %", "e", "2", id="the times of a step's parts"
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
