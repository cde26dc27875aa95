"""The comparison screen: two sides on one axis, and the difference of each figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.commands.evidence.recorded import noisy_rows, record
from tests.screens.showing import rows_of
from tfwatch.analysis.comparing.run_steps import STEP
from tfwatch.live.evidence.compared_runs import ComparedFigure, compare_runs
from tfwatch.live.evidence.run_to_compare import RunToCompare
from tfwatch.runs.reading.opened import open_run
from tfwatch.screens.comparison import ComparisonApp, axis, plot, whiskers
from tfwatch.screens.dialogs.leave import Leave

if TYPE_CHECKING:
    from pathlib import Path

    from tfwatch.live.evidence.compared_runs import ComparedRuns


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[ComparedRuns]:
    """A run of 20 ms with one of 30 ms and one of 20 ms."""
    runs_dir: Path = tmp_path_factory.mktemp("runs")
    for n, (name, step_ms) in enumerate({"[b]fast": 20.0, "slow": 30.0, "again": 20.0}.items()):
        record(runs_dir / name, noisy_rows(n, step_ms), knobs={"prefetch": "off" if n else "4"})
    sides = [
        [RunToCompare(open_run(runs_dir / name), name)] for name in ("[b]fast", "slow", "again")
    ]
    return compare_runs(sides)


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (200, 60), (50, 12), (20, 4)])
@pytest.mark.parametrize("unicode", [True, False])
async def test_the_screen_shows_the_answer_at_every_size(
    width: int, height: int, unicode: bool, found: list[ComparedRuns]
) -> None:
    app = ComparisonApp(found, unicode=unicode, colour=unicode)
    async with app.run_test(size=(width, height)):
        text = "\n".join(rows_of(app.screen))

    assert "B is slower than A" in text or width < 60
    assert ("step time" in text) is (height > 4)
    assert ("the same 2" in text) is (height >= 24)
    assert ("time breakdown" in text) is (height >= 46)
    assert unicode or text.isascii()


async def test_keys_show_the_next_side_copy_and_quit(found: list[ComparedRuns]) -> None:
    app = ComparisonApp(found)
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("n")
        assert "C  again" in "\n".join(rows_of(app.screen))
        await pilot.press("y")
        assert app.clipboard.startswith("A  [b]fast (cnn, 1 run)\nB  again")
        await pilot.press("n")
        assert "B  slow" in "\n".join(rows_of(app.screen))
        await pilot.press("q")
    assert app.return_value is Leave.LEFT


def test_a_slow_stretch_does_not_flatten_the_chart() -> None:
    low, high = axis([10.0] * 99 + [1000.0])

    assert 9 < low < 10 < high < 20


def test_both_courses_share_the_axis() -> None:
    rows = plot([np.array([1.0, 1.0, 3.0]), np.array([3.0, 1.0, 3.0])], 1.0, 3.0, 3, "ab*")

    assert rows == ["b *", "   ", "a* "]


@pytest.mark.parametrize(
    ("low", "difference", "high", "drawn"),
    [
        (-10.0, -5.0, 0.0, "├─●──┤     "),
        (2.0, 4.0, 8.0, "     │├●─┤ "),
        (4.0, 4.0, 4.0, "     │ ●   "),
    ],
)
def test_an_interval_stands_around_its_zero(
    low: float, difference: float, high: float, drawn: str
) -> None:
    figure = ComparedFigure(STEP, "ms", 20.0, 24.0, difference, low, high)

    assert whiskers(figure, 11, 10.0, unicode=True) == drawn


def test_an_interval_that_is_missing_is_not_drawn() -> None:
    assert whiskers(ComparedFigure(STEP, "ms", 20.0, 24.0, 4.0), 11, 10.0, unicode=True) == ""
