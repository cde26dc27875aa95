"""The launcher: your script, the recent runs and the demos, and the command that the keys
select."""

import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.screens.showing import rows_of
from tests.screens.test_doctor import until
from tfwatch.judge.past_run import PastRun
from tfwatch.screens.launcher import LauncherApp, LauncherContent
from tfwatch.screens.overlays import Leave

WORKLOADS = (
    ("cnn", "decode and augment starve it"),
    ("generator", "fed by a slow Python generator"),
    ("large-images", "arithmetic enough"),
)
RUNS = (
    PastRun(
        *("2026-11-20T10-17-03_cnn", "cnn", 720.0, "finished", 5000, 52.6, 10.5, 0.41),
        script="/p q/train.py",
    ),
    PastRun("/x/2026-11-19T10-17-03_[b]", "[b]x[/b]", 90_000.0, "killed", 3, 1.0),
)


def run_script(line: str) -> tuple[str, ...]:
    if not line.endswith(".py"):
        raise ValueError(f"{line} cannot be run [red]")
    return ("run", line)


def complete(line: str) -> str | None:
    return f"{line}ain.py" if line.endswith("tr") else None


def offer(
    workloads: tuple[tuple[str, str], ...] = WORKLOADS,
    runs: Callable[[], Iterable[PastRun]] = lambda: RUNS,
) -> LauncherContent:
    return LauncherContent(workloads, run_script, complete, runs)


@asynccontextmanager
async def launcher(
    shown: LauncherContent | None = None, size: tuple[int, int] = (80, 24), **options: Any
) -> AsyncIterator[tuple[LauncherApp, Pilot[Leave]]]:
    app = LauncherApp(shown or offer(), **options)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        if shown is None:
            await until(pilot, lambda: size[1] < 18 or "1 day" in text(app))
        yield app, pilot


def text(app: LauncherApp) -> str:
    return "\n".join(rows_of(app.screen))


async def test_it_shows_your_script_first_then_runs_then_demos() -> None:
    async with launcher() as (app, pilot):
        for size in ((60, 18), (80, 24), (120, 40), (200, 60)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            rows, whole = rows_of(app.screen), text(app)
            assert "tfwatch run SCRIPT.py [arguments]" in rows[2]
            assert "12 min  cnn" in whole
            assert "data wait 41 %" in whole or size[0] == 60
            assert whole.index("recent runs") < whole.index("demos")
            assert "cnn           decode and augment starve it" in whole
            assert {len(row) for row in rows} == {size[0]}


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        pytest.param([*"train.py", "enter"], ("run", "train.py"), id="a script"),
        pytest.param(
            ["down", "enter"], ("run", "/p q/train.py"), id="a script that was run before"
        ),
        pytest.param(["down", "tab", "enter"], ("replay", "2026-11-20T10-17-03_cnn"), id="a run"),
        pytest.param(
            ["down", "tab", "down", "enter"],
            ("replay", "/x/2026-11-19T10-17-03_[b]"),
            id="an older run",
        ),
        pytest.param(["down", "tab", "tab", "enter"], ("train", "cnn"), id="the first demo"),
        pytest.param(["down", "tab", "tab", "down", "enter"], ("train", "generator"), id="second"),
        pytest.param(["down", "q"], (), id="q leaves a list"),
        pytest.param(["ctrl+q"], (), id="ctrl+q leaves the field"),
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
        await pilot.press("down", "tab", "down")
        await pilot.pause()
        assert "tfwatch replay '/x/2026-11-19T10-17-03_[b]'" in text(app)
        await pilot.press("escape", *"x.txt", "enter")
        await pilot.pause()
        assert "x.txt cannot be run [red]" in text(app)
        assert app.is_running


async def test_the_rest_of_a_path_is_shown_and_tab_takes_it() -> None:
    async with launcher() as (app, pilot):
        await pilot.press(*"my/tr")
        await until(pilot, lambda: "my/train.py" in text(app))
        await pilot.press("tab")
        assert (app.script.value, app.focused) == ("my/train.py", app.script)


async def test_a_folder_on_a_slow_disk_keeps_no_key_waiting() -> None:
    goes_on, asked = threading.Event(), list[str]()

    def wait(line: str) -> str | None:
        asked.append(line)
        goes_on.wait(20)
        return complete(line)

    slow = LauncherContent(WORKLOADS, run_script, wait, lambda: RUNS)
    async with launcher(slow) as (app, pilot):
        await pilot.press(*"train.py")
        assert app.script.value == "train.py"
        assert asked == ["t"], "one search at a time"
        await until(pilot, lambda: len(app.workers) == 2)  # it, and that of the newest line
        goes_on.set()
        await pilot.press("enter")
    assert app.words == ("run", "train.py")


async def test_a_script_is_listed_once_and_only_where_one_was_run() -> None:
    again = replace(RUNS[0], words="an earlier run")
    async with launcher(offer(runs=lambda: (*RUNS, again))) as (app, pilot):
        await until(pilot, lambda: app.runs.option_count == 3)
        assert app.scripts.option_count == 1
        assert "train.py      /p q" in text(app)
    async with launcher(offer(runs=lambda: RUNS[1:])) as (app, pilot):
        await until(pilot, lambda: app.runs.option_count == 1)
        assert "recent scripts" not in text(app)


async def test_it_is_painted_before_anything_is_loaded() -> None:
    goes_on = threading.Event()
    painted: list[bool] = []

    def runs() -> Iterator[PastRun]:
        goes_on.wait(20)
        yield RUNS[0]

    shown = offer(runs=runs)
    async with launcher(shown, painted=lambda: painted.append(goes_on.is_set())) as (app, pilot):
        await until(pilot, lambda: painted)
        assert painted == [False]
        assert "loading" in text(app)
        await pilot.press("down", "enter")
        assert app.words == ()
        goes_on.set()
        await until(pilot, lambda: "finished" in text(app))


async def test_unreadable_runs_show_the_reason_beside_what_was_read() -> None:
    def some() -> Iterator[PastRun]:
        yield RUNS[0]
        raise OSError(5, "broke [red]")

    async with launcher(offer(runs=some), (120, 40)) as (app, pilot):
        await until(
            pilot, lambda: "some runs unreadable: OSError: [Errno 5] broke [red]" in text(app)
        )
        await pilot.press("down", "tab", "enter")
    assert app.words == ("replay", RUNS[0].words)


async def test_without_unicode_and_colour_it_is_ascii() -> None:
    async with launcher(colour=False, unicode=False) as (app, _):
        assert text(app).isascii()
