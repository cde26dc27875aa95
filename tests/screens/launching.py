"""A launcher with made-up workloads and runs."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from tests.screens.showing import rows_of
from tests.screens.test_doctor import until
from tfwatch.judge.past_run import PastRun
from tfwatch.screens.launcher import LauncherApp, LauncherContent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from textual.pilot import Pilot

    from tfwatch.screens.overlays import Leave

WORKLOADS = (
    ("cnn", "decode and augment starve it"),
    ("generator", "fed by a slow Python generator"),
    ("large-images", "arithmetic enough"),
)
RUNS = (
    PastRun("2026-11-20T10-17-03_cnn", "cnn", 720.0, "finished", 5000, 52.6, 10.5, 0.41),
    PastRun("/x/2026-11-19T10-17-03_[b]", "[b]x[/b]", 90_000.0, "killed", 3, 1.0),
)


def run_script(line: str) -> tuple[str, ...]:
    if not line.endswith(".py"):
        raise ValueError(f"{line} cannot be run [red]")
    return ("run", line)


def offer(
    workloads: tuple[tuple[str, str], ...] = WORKLOADS,
    runs: Callable[[], Iterable[PastRun]] = lambda: RUNS,
) -> LauncherContent:
    return LauncherContent(workloads, run_script, runs)


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
