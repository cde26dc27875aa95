"""The live screen with canned runs: its texts in every state and size."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import pytest

from tests.judge.test_view import look
from tests.screens.canned import STARVING, Canned, usual
from tests.screens.showing import header_of, shown
from tests.screens.states import starving
from tfwatch.core.events import EpochStarted
from tfwatch.core.rows import Phase
from tfwatch.runs.folder import RunFolder
from tfwatch.runs.liveness import Life
from tfwatch.runs.run import Run
from tfwatch.screens.live.header import epoch_text


async def test_a_run_without_a_sign_of_life_has_no_speed_and_no_eta(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with shown(usual(None), live=False) as show:
        assert "examples/s" in show.rows[0]
        reader = show.live._reader
        seen = reader.read()
        # Its clock stops at the last sign of life.
        for life in (Life.UNKNOWN, Life.NOT_RESPONDING, Life.GONE, Life.KILLED):
            monkeypatch.setattr(reader, "read", partial(replace, seen, life=life))
            await show.frame()
            assert "examples/s" not in show.rows[0], life
            assert "ETA" not in show.rows[0], life


def test_the_header_counts_to_the_step_that_ends_the_training(tmp_path: Path) -> None:
    run = Canned(tmp_path, steps_limit=350)
    for steps, words in ((75, "75/250"), (175, "250/250"), (50, "50/100"), (50, "100/100")):
        if run.step == 250:
            run.begin_epoch()
        run.steps(steps, STARVING)
        assert words in header_of(look(run))


async def test_a_window_too_small_shows_the_needed_size_and_recovers(tmp_path: Path) -> None:
    async with shown(starving(tmp_path)) as show:
        for width, height in ((52, 14), (30, 8), (1, 1), (40, 60)):
            await show.pilot.resize_terminal(width, height)
            await show.frame()
        await show.pilot.resize_terminal(52, 14)
        await show.frame()
        assert "52x14, needs 60x18 - training goes on: epoch 1/20," in show.text
        assert "STARVING 41 %" in show.text
        await show.pilot.resize_terminal(80, 24)
        await show.frame()
        assert "p prefetch" in show.rows[-1]


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_log_longer_than_its_pane_opens_at_its_end_and_stays_there(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    run = usual(tmp_path)
    run.log.write_text("".join(f"line {n} {'x' * 150}\n" for n in range(100)))
    async with shown(run, size) as show:
        await show.press("5")
        assert "line 99 " in show.text
        with run.log.open("a") as log:
            log.write("the newest line\n")
        await show.frame()
        assert "the newest line" in show.text
        await show.press("pageup", "pageup")
        with run.log.open("a") as log:
            log.write("one line more\n")
        await show.frame()
        assert "one line more" not in show.text


async def test_a_run_of_another_process_is_followed(tmp_path: Path) -> None:
    run = starving(tmp_path)
    run.writer.flush()
    reader = Run(RunFolder(tmp_path), run.clock)
    assert reader.read().life.value == "running"
    run.at_s += 5.0
    run.reader = lambda: Run(RunFolder(tmp_path), run.clock)  # type: ignore[method-assign]
    async with shown(run, live=False) as show:
        assert "FOLLOWING, read only" in show.rows[0]
        assert "settings, read only" in show.text
        assert "no switch in this run yet" in show.text
        run.doing(Phase.COMPUTE, 0.0)
        await show.frame()
        assert "STARVING 17 %" in show.rows[1]


@pytest.mark.parametrize(("epochs", "text"), [(20, "epoch 2/20"), (1, "epoch 2")])
def test_an_epoch_beyond_the_known_ones_is_no_part_of_them(epochs: int, text: str) -> None:
    view = look(usual(None))
    manifest = msgspec.structs.replace(view.snapshot.manifest, epochs=epochs)
    later = replace(view, snapshot=replace(view.snapshot, manifest=manifest))

    assert epoch_text(later) == text


def test_of_a_script_of_many_fits_no_time_left_is_known() -> None:
    run = usual(None)
    run.writer.event(EpochStarted(run.writer.now_ns(), 77, 78, 1, 78))
    run.writer.describe(epochs=78)
    view = replace(look(run), fit=78)

    assert (view.situation.left_s, epoch_text(view)) == (None, "fit 78")
