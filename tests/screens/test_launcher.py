"""The launcher: its lists, and the command that the keys select."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from tests.doctor.machines import linux
from tests.screens.launching import BATCH, FORM, PREFETCH, RUNS, WORKLOADS, launcher, offer, text
from tests.screens.showing import rows_of
from tests.screens.test_doctor import until
from tfwatch.doctor.checks import judge
from tfwatch.screens.dialogs.leave import Leave
from tfwatch.screens.doctor import DoctorScreen
from tfwatch.screens.launcher_lists import Trainable, WorkloadsPane

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tfwatch.live.past_run import PastRun


@pytest.mark.parametrize("theme", ["dark", "light"])
async def test_it_shows_workloads_knobs_and_runs(theme: str) -> None:
    async with launcher(theme=theme) as (app, pilot):
        for size in ((60, 18), (80, 24), (120, 40), (200, 60)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
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


async def test_it_starts_on_cnn_wherever_that_stands_in_the_list() -> None:
    async with launcher(offer(WORKLOADS[::-1])) as (app, _):
        assert app.screen.query_one(WorkloadsPane).cursor == 2


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        pytest.param(["enter"], ("train", "cnn"), id="the first"),
        pytest.param(["down", "enter"], ("train", "generator"), id="the second"),
        pytest.param(["end", "up", "up", "enter"], ("train", "generator"), id="from the end"),
        pytest.param(
            ["right", "right", "enter"],
            ("train", "cnn", "--prefetch", "4"),
            id="with a knob changed",
        ),
        pytest.param(
            ["right", *["right"] * 9, "enter"],
            ("train", "cnn", "--prefetch", "auto"),
            id="no further",
        ),
        pytest.param(["right", "right", "left", "enter"], ("train", "cnn"), id="changed back"),
        pytest.param(
            ["down", "tab", "right", "down", "right", "down", "left", "escape", "enter"],
            ("train", "generator", "--prefetch", "4", "--fast-pipeline", "--batch-size", "16"),
            id="with all knobs changed",
        ),
        pytest.param(
            ["right", "right", "escape", "down", "up", "enter"],
            ("train", "cnn", "--prefetch", "4"),
            id="a changed knob stays",
        ),
        pytest.param(["r", "enter"], ("replay", "2026-11-20T10-17-03_cnn"), id="a run"),
        pytest.param(
            ["tab", "tab", "down", "enter"],
            ("replay", "/x/2026-11-19T10-17-03_[b]"),
            id="an older run",
        ),
        pytest.param(["q"], (), id="q leaves"),
        pytest.param(["ctrl+c"], (), id="ctrl+c leaves"),
    ],
)
async def test_keys_choose_a_command(keys: list[str], words: tuple[str, ...]) -> None:
    async with launcher() as (app, pilot):
        await pilot.press(*keys)
    assert app.words == words
    assert app.return_value is Leave.LEFT


async def test_the_command_is_shown_as_it_is_chosen() -> None:
    async with launcher() as (app, pilot):
        await pilot.press("down", "tab", "right", "down", "right")
        await pilot.pause()
        assert "tfwatch train generator --prefetch 4 --fast-pipeline" in rows_of(app.screen)[-2]
        await pilot.press("r", "down")
        await pilot.pause()
        assert "tfwatch replay '/x/2026-11-19T10-17-03_[b]'" in rows_of(app.screen)[-2]


@pytest.mark.parametrize("size", [(60, 18), (80, 24)], ids=str)
async def test_many_workloads_leave_room_for_the_rest(size: tuple[int, int]) -> None:
    many = tuple(
        Trainable(f"workload {n}", "it trains", (PREFETCH, FORM, BATCH)) for n in range(30)
    )
    async with launcher(offer(many, str, list), size) as (app, pilot):
        await pilot.press("end", "up", "tab", "right")
        await pilot.pause()
        assert "workload 29" in text(app)
        assert "< 4 >" in text(app)
        assert rows_of(app.screen)[-2].split() == [
            "tfwatch",
            "train",
            "'workload",
            "29'",
            "--prefetch",
            "4",
        ]


async def test_a_line_that_is_cut_is_shown_in_the_frame() -> None:
    long = (
        "an LSTM on windows of a series: many small kernels one after another, which nothing hides"
    )
    fits = "an LSTM on windows of a series: many small kernels one after another"
    three = Trainable("a", long, ()), Trainable("b", fits, ()), Trainable("c", "short", ())
    shown = offer(three, str, list)
    async with launcher(shown) as (app, pilot):
        assert (
            "─ many small kernels one after another, which nothing hides ─"
            in rows_of(app.screen)[6]
        )
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


async def test_the_doctor_opens_and_closes() -> None:
    async with launcher() as (app, pilot):
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, DoctorScreen) and app.screen.found)
        await pilot.press("q")
        await until(pilot, lambda: "what to train" in text(app))
        await until(pilot, lambda: judge(linux()).machine[:70] in rows_of(app.screen)[0])
        assert app.words == ()
        assert app.is_running


async def test_it_is_painted_before_anything_is_loaded() -> None:
    goes_on = threading.Event()
    painted: list[bool] = []

    def runs() -> Iterator[PastRun]:
        goes_on.wait(20)
        yield RUNS[0]

    shown = offer(machine=lambda: "a machine", runs=runs)
    async with launcher(shown, painted=lambda: painted.append(goes_on.is_set())) as (app, pilot):
        await until(pilot, lambda: "a machine" in text(app))
        assert painted == [False]
        assert "loading" in text(app)
        await pilot.press("r", "enter")
        assert app.words == ()
        goes_on.set()
        await until(pilot, lambda: "finished" in text(app))


async def test_an_empty_list_of_runs_has_a_note() -> None:
    async with launcher(offer(runs=tuple)) as (app, pilot):
        await until(pilot, lambda: "no runs yet" in text(app))


async def test_unreadable_content_shows_its_reason() -> None:
    def fails() -> Any:
        raise OSError(13, "Permission denied [red]")

    async with launcher(offer(machine=fails, runs=fails), (120, 40)) as (app, pilot):
        await until(pilot, lambda: "some runs unreadable: PermissionError" in text(app))
        assert "PermissionError: [Errno 13] Permission denied [red]" in rows_of(app.screen)[0]


async def test_runs_that_cannot_all_be_read_are_shown_and_the_reason_too() -> None:
    def some() -> Iterator[PastRun]:
        yield RUNS[0]
        raise OSError(5, "broke")

    async with launcher(offer(runs=some), (120, 40)) as (app, pilot):
        await until(pilot, lambda: "some runs unreadable: OSError: [Errno 5]" in text(app))
        assert "finished" in text(app)
        await pilot.press("r", "down", "down", "enter")
        assert not app.words
        await pilot.press("up", "enter")
    assert app.words == ("replay", RUNS[0].words)


async def test_a_row_that_is_cut_ends_in_an_ellipsis_beside_a_scrollbar_too() -> None:
    many = tuple(
        Trainable(f"w{n}", f"{n} " + "one square matrix product " * 4, (BATCH,)) for n in range(12)
    )
    async with launcher(offer(many), (60, 40)) as (app, pilot):
        await pilot.resize_terminal(60, 18)
        await pilot.pause()
        rows = [row for row in rows_of(app.screen) if "matrix product" in row]
        assert "< 32 > " in text(app)
        assert "< 32 >   …" not in text(app)
        assert len(rows) == 5
        assert all("…" in row for row in rows)


async def test_a_window_too_small_shows_the_needed_size() -> None:
    async with launcher(size=(52, 14)) as (app, pilot):
        for size in ((52, 14), (20, 5), (3, 1)):
            await pilot.resize_terminal(*size)
            await pilot.press("down", "tab")
            assert app.is_running
            if size[0] > 3:
                assert f"{size[0]}x{size[1]}, needs 60x18" in " ".join(text(app).split())


async def test_without_unicode_and_colour_it_is_ascii() -> None:
    async with launcher(colour=False, unicode=False) as (app, pilot):
        assert text(app).isascii()
        await pilot.press("end", "enter")
        await until(pilot, lambda: "A training script" in text(app))
        assert text(app).isascii()


async def test_text_from_outside_is_never_markup() -> None:
    async with launcher(offer(machine=lambda: "[/red]chip[@click=app.quit]x[/]")) as (app, pilot):
        await until(pilot, lambda: "[/red]chip[@click=app.quit]x[/]" in text(app))
        await until(pilot, lambda: "[b]x[/b]" in text(app))
