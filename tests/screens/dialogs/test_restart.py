"""The restart form, and the card that compares the run before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.screens.canned import COMPUTE_BOUND, STARVING, Canned, usual
from tests.screens.showing import rows_of, shown
from tests.screens.states import failed, importing, stalled
from tfwatch.analysis.tuning.restarts import Earlier, Start, earlier_run
from tfwatch.core.start_knobs import Constraint, RestartOffer, StartKnob, Value
from tfwatch.screens.dialogs.leave import Leave, LeaveScreen
from tfwatch.screens.dialogs.restart import RestartScreen

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WEIGHTS = StartKnob(
    "weights of",
    (Value("this run", ("--begin-with", "w.h5")), Value("re-initialized")),
    0,
    "or re-initialized",
)
BATCH = StartKnob(
    "batch size", (Value("32"), Value("64", ("--batch-size", "64"))), 0, "examples a step"
)
DEVICE = StartKnob(
    "device", (Value("cpu"), Value("gpu", (), (Constraint("no GPU"),))), 0, "what computes"
)


class Taken:
    """The knobs that a form offers, and the arguments selected in it."""

    def __init__(self, *knobs: StartKnob) -> None:
        self.words: list[tuple[str, ...] | None] = []
        self.offer = RestartOffer(lambda: knobs or (WEIGHTS, BATCH, DEVICE), self.words.append)


async def test_the_form_shows_current_and_invalid_values(tmp_path: Path) -> None:
    async with shown(usual(tmp_path), restart=Taken().offer) as show:
        for size in ((60, 18), (80, 24), (120, 40)):
            await show.resize(size)
            await show.press("r")
            assert isinstance(show.app.screen, RestartScreen)
            assert "restart with" in show.text
            assert "weights of    < this run >" in show.text
            assert "batch size    < 32 >" in show.text
            assert "device          cpu" in show.text
            assert "gpu: no GPU" in show.text
            assert "no changes yet; the run stops at the next batch, then restarts" in show.words
            assert "enter restart" in show.text
            await show.press("down", "right")
            assert "batch size 32 → 64" in show.text
            await show.press("escape")


async def test_a_tiny_window_shows_the_keys_of_the_form() -> None:
    async with shown(usual(None), (40, 10), restart=Taken().offer) as show:
        await show.press("r")
        assert "enter restart < > change escape cancel" in show.text


async def test_enter_stops_the_training_and_quits_when_it_has_ended(tmp_path: Path) -> None:
    taken = Taken()
    async with shown(usual(tmp_path), restart=taken.offer) as show:
        await show.press("r", "down", "right", "enter")
        assert taken.words == [("--begin-with", "w.h5", "--batch-size", "64")]
        assert show.control
        assert show.control.stop.is_set()
        assert "STOPPING" in show.rows[1]
        for key in "rs":
            show.app.clear_notifications()
            await show.press(key)
            assert show.app.screen is show.live
            assert [note.message for note in show.app._notifications] == [
                "the run is already stopping; y quits without waiting for the current batch"
            ]
        show.run.ended("stopped")
        await show.frame()
        assert show.app.return_value is Leave.STOP


async def test_escape_cancels_the_restart(tmp_path: Path) -> None:
    taken = Taken()
    async with shown(usual(tmp_path), restart=taken.offer) as show:
        for keys in (["escape"], ["r"], ["q"], ["down", "right", "escape"]):
            await show.press("r")
            assert isinstance(show.app.screen, RestartScreen)
            await show.press(*keys)
            assert show.app.screen_stack[-1] is show.live
            assert show.control
            assert not show.control.stop.is_set()
            assert taken.words == []


@pytest.mark.parametrize(
    "state",
    [
        pytest.param(importing, id="before the first step"),
        pytest.param(stalled, id="in a stall"),
        pytest.param(usual, id="in the middle"),
    ],
)
async def test_r_s_and_q_ask_whatever_the_training_does(
    state: Callable[[Path], Canned], tmp_path: Path
) -> None:
    taken = Taken()
    async with shown(state(tmp_path), restart=taken.offer) as show:
        await show.press("r", "enter")
        assert len(taken.words) == 1
        assert "STOPPING" in show.rows[1]
        assert "y restarts without waiting for it" in next(
            note.message for note in show.app._notifications
        )
        await show.press("y")
        assert show.app.return_value is Leave.NOW
    if state is usual:
        return  # for s and q, see `test_leave.py`
    async with shown(state(tmp_path / "s")) as show:
        await show.press("s", "y")
        assert "STOPPING" in show.rows[1]
    async with shown(state(tmp_path / "q")) as show:
        await show.press("q", "d")
        assert show.app.return_value is Leave.DETACH


@pytest.mark.parametrize(
    "state",
    [pytest.param(failed, id="failed"), pytest.param(lambda p: usual(p).ended(), id="finished")],
)
async def test_a_finished_run_restarts_immediately(
    state: Callable[[Path], Canned], tmp_path: Path
) -> None:
    taken = Taken()
    async with shown(state(tmp_path), restart=taken.offer) as show:
        await show.press("r")
        assert "no changes yet; the run restarts now" in show.text
        await show.press("enter")
        assert taken.words == [("--begin-with", "w.h5")]
        assert show.app.return_value is Leave.LEFT


async def test_quitting_cancels_the_restart(tmp_path: Path) -> None:
    taken = Taken()
    async with shown(usual(tmp_path), restart=taken.offer) as show:
        await show.press("r", "enter", "q")
        assert isinstance(show.app.screen, LeaveScreen)
        await show.press("y")
        assert taken.words[-1] is None


async def test_a_read_only_run_explains_why_it_cannot_restart(tmp_path: Path) -> None:
    async with shown(usual(tmp_path), live=False) as show:
        await show.press("r")
        assert show.app.screen is show.live
        assert [note.message for note in show.app._notifications] == [
            "restart the run in the terminal that trains it"
        ]
        show.run.ended()
        await show.frame()
        await show.press("r")
        assert [note.message for note in show.app._notifications] == [
            "a recorded run cannot restart: tfwatch train starts a new run"
        ]


async def test_conflicting_values_start_nothing(tmp_path: Path) -> None:
    jit = Value("jit", ("--jit",), (Constraint("no XLA on Metal", where=("device", ("auto",))),))
    mode = StartKnob("mode", (Value("graph"), jit), 1, "of a step")
    device = StartKnob(
        "device", (Value("auto"), Value("cpu", ("--device", "cpu"))), 0, "what computes"
    )
    taken = Taken(device, mode)
    async with shown(usual(tmp_path), restart=taken.offer) as show:
        await show.press("r", "enter")
        assert "mode jit: no XLA on Metal" in show.text
        assert taken.words == []
        await show.press("right", "enter")
        assert taken.words == [("--device", "cpu", "--jit")]


async def test_the_form_works_by_mouse(tmp_path: Path) -> None:
    taken = Taken()
    async with shown(usual(tmp_path), restart=taken.offer) as show:
        await show.press("r")
        row = next(row for row in show.rows if "enter restart" in row)
        await show.pilot.click(offset=(row.index("enter restart"), show.rows.index(row)))
        await show.until(lambda: taken.words)
        assert taken.words == [("--begin-with", "w.h5")]


async def test_without_unicode_it_is_ascii(tmp_path: Path) -> None:
    async with shown(usual(tmp_path), restart=Taken().offer, colour=False, unicode=False) as show:
        await show.press("r")
        assert "\n".join(rows_of(show.app.screen)).isascii()


# -- the card -------------------------------------------------------------------------------------------


def before(batch_size: int, **settings: Any) -> Earlier:
    run = Canned(None).started().steps(150, STARVING)
    knobs = {"prefetch": "off", "workers": "off", "latency_ms": "off"}
    start = Start({"batch_size": batch_size, **settings}, knobs, batch_size)
    return earlier_run("2026-11-20T10-17-03_cnn", start, run.snapshot().steps, [])


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=str)
async def test_the_card_spans_the_restart(size: tuple[int, int]) -> None:
    run = Canned(None, settings={"batch_size": 64}, batch_size=64)
    async with shown(run, size, earlier=before(32)) as show:
        await show.press("6")
        run.started().steps(150, COMPUTE_BOUND)
        await show.frame()
        assert "batch_size 32   " in show.text
        assert "batch_size 64   " in show.text
        assert "3.37 x faster per example (" in show.text
        assert "restarted: batch_size 32 → 64" in show.text
        run.switched("prefetch", "off", "4").steps(100, COMPUTE_BOUND)
        await show.frame()
        assert "prefetch 4" in show.text
        assert "batch_size 32 → 64: 3.37 x faster per example (" in show.text


async def test_a_folders_name_is_never_markup() -> None:
    settings = {"batch_size": 32, "data": "[red]x[/nope]"}
    run = Canned(None, settings=settings).started().steps(150, COMPUTE_BOUND)
    async with shown(run, (200, 60), earlier=before(32, data="[@click=app.quit]y")) as show:
        assert "restarted: data [@click=app.quit]y → [red]x[/nope]" in show.text
