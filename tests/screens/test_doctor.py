"""The check-up screen with made-up facts, by itself and beside a run."""

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.app import App
from textual.pilot import Pilot

from tests.doctor.machines import linux, mac, stopped
from tests.screens.canned import usual
from tests.screens.showing import rows_of, shown
from tfwatch.doctor.checks import Check, CheckUp, Status, judge
from tfwatch.screens.doctor import DoctorScreen, RunCheckup
from tfwatch.screens.overlays import Leave
from tfwatch.screens.themes import ThemedApp

_BROKEN = mac(
    "2.20.0",
    "1.2.0",
    trial=stopped("import", exit_code=1, log_text="Library not loaded: @rpath/_pywrap.so\n"),
)


def finding(found: CheckUp, asked: list[bool] | None = None) -> RunCheckup:
    """Return a check-up that finds this immediately."""

    def run_checkup(is_beside_training: bool, notify: Callable[[str], None]) -> CheckUp:
        if asked is not None:
            asked.append(is_beside_training)
        notify("the installation")
        return found

    return run_checkup


async def until(pilot: Pilot[Any], condition: Callable[[], object]) -> None:
    for _ in range(200):
        if condition():
            return
        await pilot.pause(0.01)
    raise AssertionError("it never came to hold")


def text(app: App[Any]) -> str:
    return "\n".join(rows_of(app.screen))


class _DoctorApp(ThemedApp):
    """The check-up by itself."""

    def __init__(self, run_checkup: RunCheckup, **options: Any) -> None:
        super().__init__(**options)
        self.doctor = DoctorScreen(run_checkup, gently=False)

    def on_mount(self) -> None:
        self.push_screen(self.doctor)


@asynccontextmanager
async def checked(
    run_checkup: RunCheckup, size: tuple[int, int] = (80, 24), **options: Any
) -> AsyncIterator[tuple[_DoctorApp, Pilot[Leave]]]:
    app = _DoctorApp(run_checkup, **options)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: app.doctor.found)
        await pilot.pause()
        yield app, pilot


@pytest.mark.parametrize("size", [(80, 24), (200, 60)], ids=str)
async def test_the_rows_of_the_command_are_shown_worst_first(size: tuple[int, int]) -> None:
    async with checked(finding(judge(_BROKEN)), size) as (app, _):
        rows = rows_of(app.screen)
        assert "tfwatch doctor: 1 failed, 0 warnings" in text(app)
        assert text(app).index("FAIL  tensorflow") < text(app).index("ok    ")
        assert "pip install -U 'tensorflow>=2.18,<2.20'" in text(app)
        assert {len(row) for row in rows} == {size[0]}


async def test_the_running_check_is_named() -> None:
    goes_on = threading.Event()

    def run_checkup(_is_beside_training: bool, notify: Callable[[str], None]) -> CheckUp:
        notify("the disk")
        assert goes_on.wait(20)
        return judge(linux())

    app = _DoctorApp(run_checkup)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "checking the disk" in text(app))
        goes_on.set()
        await until(pilot, lambda: "0 failed" in text(app))


async def test_a_failed_check_up_is_a_failed_check() -> None:
    def run_checkup(_is_beside_training: bool, _notify: Callable[[str], None]) -> CheckUp:
        raise OSError(5, "Input/output error [red]")

    async with checked(run_checkup) as (app, _):
        assert "FAIL  check-up" in text(app)
        assert "1 failed, 0 warnings" in text(app)
        assert "Input/output error [red]" in " ".join(text(app).split())


async def test_text_from_outside_is_never_markup() -> None:
    checks = (
        Check("import", Status.FAIL, "Tensor[float32] [/red] [@click=app.quit]x[/]", "[b]pip[/b]"),
    )
    async with checked(finding(CheckUp("[/red]chip", checks))) as (app, _):
        assert "Tensor[float32] [/red] [@click=app.quit]x[/]" in text(app)
        assert "[/red]chip" in text(app)
        assert "[b]pip[/b]" in text(app)


# -- beside a run ---------------------------------------------------------------------------------


async def test_d_runs_the_gentle_checks_beside_a_run(tmp_path: Path) -> None:
    asked: list[bool] = []
    async with shown(usual(tmp_path), run_checkup=finding(judge(linux()), asked)) as show:
        await show.press("d")
        assert isinstance(show.app.screen, DoctorScreen)
        await show.until(lambda: "0 failed" in text(show.app))
        assert asked == [True]
        assert "escape closes" in text(show.app)
        await show.pilot.press("q")
        await show.frame()
        assert len(show.app.screen_stack) == 2
        assert show.asked() == []
