"""The launcher over workloads and runs that are made up."""

from __future__ import annotations

import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.doctor.machines import linux
from tests.screens.showing import rows_of
from tests.screens.test_doctor import finding, until
from tfwatch.commands.doctor import check_up
from tfwatch.core.startknobs import StartKnob, Told, Value
from tfwatch.screens.doctor import DoctorScreen
from tfwatch.screens.launcher import Offer
from tfwatch.screens.launcher_app import LauncherApp
from tfwatch.screens.leave import Leave
from tfwatch.widgets.launching import PastRun, Trainable, ago

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator

    from textual.pilot import Pilot

PREFETCH = StartKnob(
    "prefetch", (Value("off"), Value("4", ("--prefetch", "4")), Value("auto", ("--prefetch", "auto"))), 0, "made ahead"
)
FORM = StartKnob("form", (Value("slow"), Value("tf.data", ("--fast-form",))), 0, "of the pipeline")
BATCH = StartKnob("batch size", (Value("16", ("--batch-size", "16")), Value("32")), 1, "examples a step")
WORKLOADS = (
    Trainable("cnn", "decode and augment starve it", (PREFETCH, BATCH), "cnn"),
    Trainable("generator", "fed by a slow Python generator", (PREFETCH, FORM, BATCH), "generator"),
    Trainable("large-images", "arithmetic enough", (BATCH,), "large-images"),
)
RUNS = (
    PastRun("2026-11-20T10-17-03_cnn", "cnn", 720.0, "finished", "5 000 steps, 52.6 s", 0.41),
    PastRun("/x/2026-11-19T10-17-03_[b]", "[b]x[/b]", 90_000.0, "killed", "3 steps, 1.0 s", None),
)


def own(path: str) -> Trainable:
    if not path.endswith(".py"):
        raise ValueError(f"there is no file {path} [red]")
    return Trainable("mine.py", "a file of your own", (BATCH,), path)


def offer(
    workloads: tuple[Trainable, ...] = WORKLOADS,
    machine: Callable[[], str] = lambda: "Apple M2 Pro, 16 GB",
    runs: Callable[[], Iterable[PastRun]] = lambda: RUNS,
) -> Offer:
    return Offer(workloads, own, machine, runs, finding(check_up(linux())))


@asynccontextmanager
async def launcher(
    shown: Offer | None = None, size: tuple[int, int] = (80, 24), **options: Any
) -> AsyncIterator[tuple[LauncherApp, Pilot[Leave]]]:
    app = LauncherApp(shown or offer(), **options)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        if shown is None:
            await until(pilot, lambda: size[0] < 60 or "1 day" in text(app))
        yield app, pilot


def text(app: LauncherApp) -> str:
    return "\n".join(rows_of(app.screen))


@pytest.mark.parametrize("size", [(60, 18), (80, 24), (120, 40), (200, 60)], ids=str)
@pytest.mark.parametrize("theme", ["dark", "light"])
async def test_it_shows_what_there_is(size: tuple[int, int], theme: str) -> None:
    async with launcher(size=size, theme=theme) as (app, _):
        rows = rows_of(app.screen)
        assert "Apple M2 Pro, 16 GB" in rows[0]
        assert "cnn           decode and augment starve it" in rows[2]
        assert "generator     fed by" in rows[3]
        assert "cnn starts with" in text(app)
        assert "prefetch      < off >" in text(app)
        assert "12 min  cnn" in text(app)
        assert ("made ahead" in rows[-3]) is (size[0] < 120)
        assert ("prefetch      < off >            made ahead" in text(app)) is (size[0] >= 120)
        assert ("%: starving" in rows[-3]) is (size[0] < 200)
        assert "41 %" in text(app)
        assert ("finished" in text(app)) is (size[0] >= 80)
        assert ("starving 41 %" in text(app)) is (size[0] >= 200)
        assert "tfwatch train cnn" in rows[-2]
        assert {len(row) for row in rows} == {size[0]}


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        pytest.param(["enter"], ("train", "cnn"), id="the first"),
        pytest.param(["down", "enter"], ("train", "generator"), id="the second"),
        pytest.param(["end", "up", "up", "enter"], ("train", "generator"), id="from the end"),
        pytest.param(["right", "right", "enter"], ("train", "cnn", "--prefetch", "4"), id="with a knob turned"),
        pytest.param(["right", *["right"] * 9, "enter"], ("train", "cnn", "--prefetch", "auto"), id="no further"),
        pytest.param(["right", "right", "left", "enter"], ("train", "cnn"), id="turned back"),
        pytest.param(
            ["down", "tab", "right", "down", "right", "down", "left", "escape", "enter"],
            ("train", "generator", "--prefetch", "4", "--fast-form", "--batch-size", "16"),
            id="with all knobs turned",
        ),
        pytest.param(
            ["right", "right", "escape", "down", "up", "enter"],
            ("train", "cnn", "--prefetch", "4"),
            id="a knob stays turned",
        ),
        pytest.param(["r", "enter"], ("replay", "2026-11-20T10-17-03_cnn"), id="a run"),
        pytest.param(["tab", "tab", "down", "enter"], ("replay", "/x/2026-11-19T10-17-03_[b]"), id="an older run"),
        pytest.param(["q"], (), id="q leaves"),
        pytest.param(["ctrl+c"], (), id="ctrl+c leaves"),
    ],
)
async def test_keys_choose_a_command(keys: list[str], words: tuple[str, ...]) -> None:
    async with launcher() as (app, pilot):
        await pilot.press(*keys)
    assert app.words == words
    assert app.return_value is Leave.LEFT


MODE = StartKnob(
    "mode",
    (Value("graph"), Value("jit", ("--jit",), (Told("no XLA on Metal", where=("device", ("auto",))),))),
    0,
    "of a step",
)
DEVICE = StartKnob("device", (Value("auto"), Value("cpu", ("--device", "cpu"))), 0, "what computes")
CALLS = StartKnob("steps a call", (Value("1"), Value("2", ("--spe", "2"))), 0, "fused", refused="one step at a time")
HALF = StartKnob(
    "precision", (Value("float32"), Value("mixed", ("--mixed",), (Told("slow", stops=False),))), 0, "of it"
)
GREYED = (Trainable("cnn", "starves", (DEVICE, MODE, CALLS, HALF), "cnn"),)


async def test_what_cannot_apply_is_said_and_not_turned_to() -> None:
    async with launcher(offer(GREYED), (120, 40)) as (app, pilot):
        assert "mode            graph            jit: no XLA on Metal" in text(app)
        assert "steps a call    1                one step at a time" in text(app)
        assert "precision     < float32 >        mixed: slow" in text(app)
        await pilot.press("right", "down", "right", "down", "right", "down", "right")
        await pilot.pause()
        assert "tfwatch train cnn --mixed" in rows_of(app.screen)[-2]
        assert "precision     < mixed >          slow" in text(app)


async def test_what_applies_no_more_after_another_turn_is_told_in_place_of_the_command() -> None:
    async with launcher(offer(GREYED)) as (app, pilot):
        await pilot.press("right", "right", "down", "right")
        await pilot.pause()
        assert "tfwatch train cnn --device cpu --jit" in rows_of(app.screen)[-2]
        await pilot.press("up", "left", "enter")
        await pilot.pause()
        assert "mode jit: no XLA on Metal" in rows_of(app.screen)[-2]
        assert app.is_running
        await pilot.press("down", "left", "enter")
    assert app.words == ("train", "cnn")


async def test_a_value_is_typed() -> None:
    def read(typed: str) -> Value:
        if not typed.isdigit():
            raise ValueError(f"{typed!r} is no number")
        return Value(typed, ("--seed", typed))

    seed = StartKnob("seed", (Value("none"), Value("1", ("--seed", "1"))), 0, "of it", read=read)
    async with launcher(offer((Trainable("cnn", "starves", (seed, BATCH), "cnn"),))) as (app, pilot):
        await pilot.press("right", "e", "x", "enter")
        await pilot.pause()
        assert "'x' is no number" in text(app)
        await pilot.press("backspace", "7", "enter")
        await pilot.pause()
        assert "tfwatch train cnn --seed 7" in rows_of(app.screen)[-2]
        await pilot.press("e", "8", "escape", "down", "e")
        await pilot.pause()
        assert "seed          < 7 >" in text(app)
        await pilot.press("up", "left", "left", "enter")
    assert app.words == ("train", "cnn")


async def test_a_file_of_ones_own_is_named_and_trained() -> None:
    async with launcher() as (app, pilot):
        await pilot.press("end", "enter", *"no", "enter")
        await pilot.pause()
        assert "there is no file no [red]" in text(app)
        await pilot.press(*".py", "enter")
        await pilot.pause()
        assert "mine.py       a file of your own" in text(app)
        assert "tfwatch train no.py" in rows_of(app.screen)[-2]
        await pilot.press("right", "left", "enter")
    assert app.words == ("train", "no.py", "--batch-size", "16")


async def test_the_file_is_asked_for_from_its_empty_knobs_too() -> None:
    async with launcher() as (app, pilot):
        await pilot.press("end", "right", "enter", *"no.py", "enter")
        await pilot.pause()
        assert "tfwatch train no.py" in rows_of(app.screen)[-2]


async def test_the_command_is_shown_as_it_is_chosen() -> None:
    async with launcher() as (app, pilot):
        await pilot.press("down", "tab", "right", "down", "right")
        await pilot.pause()
        assert "tfwatch train generator --prefetch 4 --fast-form" in rows_of(app.screen)[-2]
        await pilot.press("r", "down")
        await pilot.pause()
        assert "tfwatch replay '/x/2026-11-19T10-17-03_[b]'" in rows_of(app.screen)[-2]


@pytest.mark.parametrize("size", [(60, 18), (80, 24)], ids=str)
async def test_many_workloads_leave_room_for_the_rest(size: tuple[int, int]) -> None:
    many = tuple(Trainable(f"workload {n}", "it trains", (PREFETCH, FORM, BATCH), f"w{n} x") for n in range(30))
    async with launcher(offer(many, str, list), size) as (app, pilot):
        await pilot.press("end", "up", "tab", "right")
        await pilot.pause()
        assert "workload 29" in text(app)
        assert "< 4 >" in text(app)
        assert rows_of(app.screen)[-2].split() == ["tfwatch", "train", "'w29", "x'", "--prefetch", "4"]


async def test_a_line_that_is_cut_is_told_in_the_frame() -> None:
    long = "an LSTM on windows of a series: many small kernels one after another, which nothing hides"
    fits = "an LSTM on windows of a series: many small kernels one after another"
    three = Trainable("a", long, (), "a"), Trainable("b", fits, (), "b"), Trainable("c", "short", (), "c")
    shown = offer(three, str, list)
    async with launcher(shown) as (app, pilot):
        assert "─ many small kernels one after another, which nothing hides ─" in rows_of(app.screen)[6]
        await pilot.press("down")
        await pilot.pause()
        assert f"─ {fits} ─" in rows_of(app.screen)[6]
        await pilot.press("down")
        await pilot.pause()
        assert set(rows_of(app.screen)[6]) == set("╰─╯")


async def test_clicks_choose() -> None:
    async with launcher() as (app, pilot):
        await pilot.click("WorkloadsPane", offset=(5, 3))
        await pilot.pause()
        assert "large-images starts with" in text(app)
        await pilot.click("WorkloadsPane", offset=(5, 3))
        await pilot.pause()
    assert app.words == ("train", "large-images")


async def test_the_doctor_is_shown_and_left() -> None:
    async with launcher() as (app, pilot):
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, DoctorScreen) and app.screen.found)
        await pilot.press("q")
        await until(pilot, lambda: "what to train" in text(app))
        await until(pilot, lambda: check_up(linux()).machine[:70] in rows_of(app.screen)[0])
        assert app.words == ()
        assert app.is_running


async def test_it_is_painted_before_anything_is_looked_at() -> None:
    goes_on = threading.Event()
    painted: list[bool] = []

    def runs() -> Iterator[PastRun]:
        goes_on.wait(20)
        yield RUNS[0]

    shown = offer(machine=lambda: "a machine", runs=runs)
    async with launcher(shown, painted=lambda: painted.append(goes_on.is_set())) as (app, pilot):
        await until(pilot, lambda: "a machine" in text(app))
        assert painted == [False]
        assert "looking" in text(app)
        await pilot.press("r", "enter")
        assert app.words == ()
        goes_on.set()
        await until(pilot, lambda: "finished" in text(app))


async def test_without_runs_it_says_so() -> None:
    async with launcher(offer(runs=tuple)) as (app, pilot):
        await until(pilot, lambda: "none yet" in text(app))


async def test_what_cannot_be_read_is_told() -> None:
    def fails() -> Any:
        raise OSError(13, "Permission denied [red]")

    async with launcher(offer(machine=fails, runs=fails), (120, 40)) as (app, pilot):
        await until(pilot, lambda: "not all can be read: PermissionError" in text(app))
        assert "PermissionError: [Errno 13] Permission denied [red]" in rows_of(app.screen)[0]


async def test_runs_that_cannot_all_be_read_are_shown_and_the_reason_too() -> None:
    def some() -> Iterator[PastRun]:
        yield RUNS[0]
        raise OSError(5, "broke")

    async with launcher(offer(runs=some), (120, 40)) as (app, pilot):
        await until(pilot, lambda: "not all can be read: OSError: [Errno 5]" in text(app))
        assert "finished" in text(app)
        await pilot.press("r", "down", "down", "enter")
        assert not app.words
        await pilot.press("up", "enter")
    assert app.words == ("replay", RUNS[0].words)


async def test_a_row_that_is_cut_says_so_beside_a_scrollbar_too() -> None:
    many = tuple(Trainable(f"w{n}", f"{n} " + "one square matrix product " * 4, (BATCH,), "x") for n in range(12))
    async with launcher(offer(many), (60, 40)) as (app, pilot):
        await pilot.resize_terminal(60, 18)
        await pilot.pause()
        rows = [row for row in rows_of(app.screen) if "matrix product" in row]
        assert "< 32 > " in text(app)
        assert "< 32 >   …" not in text(app)
        assert len(rows) == 5
        assert all("…" in row for row in rows)


@pytest.mark.parametrize("size", [(52, 14), (20, 5), (3, 1)], ids=str)
async def test_a_window_too_small_says_so(size: tuple[int, int]) -> None:
    async with launcher(size=size) as (app, pilot):
        await pilot.press("down", "tab")
        assert app.is_running
        if size[0] > 3:
            assert f"{size[0]}x{size[1]}, needs 60x18" in " ".join(text(app).split())


async def test_without_unicode_and_colour_it_is_ascii() -> None:
    async with launcher(colour=False, unicode=False) as (app, pilot):
        assert text(app).isascii()
        await pilot.press("end", "enter")
        await until(pilot, lambda: "model() and dataset(knobs):" in text(app))
        assert text(app).isascii()


async def test_the_words_of_others_are_no_markup() -> None:
    async with launcher(offer(machine=lambda: "[/red]chip[@click=app.quit]x[/]")) as (app, pilot):
        await until(pilot, lambda: "[/red]chip[@click=app.quit]x[/]" in text(app))
        await until(pilot, lambda: "[b]x[/b]" in text(app))


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.0, "now"), (60.0, "1 min"), (7300.0, "2 h"), (86_400.0, "1 day"), (200_000.0, "2 days")]
)
def test_an_age_is_told_in_one_unit(seconds: float, words: str) -> None:
    assert ago(seconds) == words
