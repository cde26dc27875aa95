"""The limit of a run that is over, and the lines to paste: the screen and `--json` agree."""

import ast
from pathlib import Path

import pytest

from tests.screens.canned import COMPUTE_BOUND, STARVING, Canned, usual
from tests.screens.showing import Shown, shown
from tfwatch.core.rows import Flag, Phase, Rows
from tfwatch.judge.judged_run import JudgedRun
from tfwatch.runs.folder import RunFolder
from tfwatch.runs.format import NotARunError

SIZES = [(80, 24), (120, 40), (200, 60)]


def starved(folder: Path | None) -> Canned:
    """Fed at first; prefetch was turned off, and it stayed so."""
    run = Canned(
        folder, knobs={"prefetch": "4", "workers": "off"}, switchable=["prefetch", "workers"]
    )
    run.started().steps(150, COMPUTE_BOUND).switched("prefetch", "4", "off")
    return run.steps(1, STARVING, int(Flag.SWITCH)).steps(150, STARVING)


async def told(show: Shown) -> None:
    """Wait until it is known."""
    find = show.live.follower._judge_ended
    await show.until(lambda: show.live.view and find(show.live.view.snapshot))
    await show.frame()


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("cause", ["finished", "stopped"])
async def test_a_replay_says_what_the_judge_says(
    tmp_path: Path, size: tuple[int, int], cause: str
) -> None:
    run = starved(tmp_path).ended(cause)
    finding = JudgedRun(run.reader().read()).losses[0]
    async with shown(run, size, live=False) as show:
        await told(show)
        assert cause.upper() in show.rows[1]
        whole = f"{finding.word}, {finding.sentence}"
        assert show.rows[2].strip() == whole
        advice = finding.advice if size[0] == 200 else finding.advice.partition(" (")[0]
        assert show.rows[3].strip().startswith(advice)
        await show.press("y")
        assert show.app.clipboard == finding.code
    lines = (tmp_path / "copied.py").read_text()
    assert lines == finding.code + "\n"
    assert ast.parse(lines).body


async def test_the_end_of_a_live_run_says_it_too(tmp_path: Path) -> None:
    run = starved(tmp_path).doing(Phase.COMPUTE, 0.001)
    async with shown(run) as show:
        assert "p prefetch" in show.rows[3]
        run.ended()
        await show.frame()
        await told(show)
        assert "FINISHED" in show.rows[1]
        assert "STARVING 41 %, each step waits" in show.rows[2]
        assert show.rows[3].strip().startswith(".prefetch(")


async def test_a_run_of_a_few_steps_is_judged_without_its_first_trace(tmp_path: Path) -> None:
    async with shown(Canned(tmp_path).started().steps(5, STARVING).ended(), live=False) as show:
        await told(show)
        assert "STARVING 41 %, each step waits" in show.rows[2]


async def test_a_run_that_cannot_be_read_any_more_has_no_verdict_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(_: RunFolder, name: str) -> Rows:
        raise NotARunError(f"its {name} is gone")

    monkeypatch.setattr(RunFolder, "rows", gone)
    async with shown(usual(tmp_path).ended(), live=False) as show:
        await told(show)
        assert "VERDICT n/a, NotARunError: its stages.bin is gone" in show.rows[2]
