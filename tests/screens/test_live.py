"""The live screen over canned runs: what stands on it, and what its keys do."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from textual.widgets import Input

from tests.screens.canned import FED, STARVING, Canned, usual
from tests.screens.showing import shown
from tfwatch.core import events as facts
from tfwatch.core.rows import Flag, Phase
from tfwatch.runs.reader import FolderSource, RunReader
from tfwatch.screens.bindings import LIVE_BINDINGS
from tfwatch.screens.leave import Leave
from tfwatch.screens.live import Layout, layout_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SIZES = [(60, 18), (80, 24), (99, 40), (100, 32), (120, 40), (200, 60)]
MARKUP = "[bold]Tensor[float32][/nope] [/job:localhost/device:GPU:0] [@click=app.quit]x"


def starving(folder: Path | None) -> Canned:
    return Canned(folder).started().steps(150, STARVING).doing(Phase.COMPUTE, 0.001)


def stalled(folder: Path | None) -> Canned:
    run = usual(folder)
    run.at_s += 20.3
    return run.doing(Phase.WAIT, 20.3)


def importing(folder: Path | None) -> Canned:
    run = Canned(folder)
    run.at_s = 3.0
    return run.doing(Phase.IMPORT, 3.0)


def settling(folder: Path | None) -> Canned:
    run = starving(folder).switched("prefetch", "off", "4").steps(1, FED, int(Flag.SWITCH)).steps(30, FED)
    return run.doing(Phase.COMPUTE, 0.001)


def slow_callback(folder: Path | None) -> Canned:
    run = usual(folder)
    run.at_s += 8.0
    return run.doing(Phase.HOST, 8.0, "ModelCheckpoint")


def failed(folder: Path | None) -> Canned:
    run = usual(folder)
    run.event(
        facts.TrainingFailed, step=run.step, error=f"ValueError: {MARKUP}", traceback=f'File "a/b.py", line 3\n{MARKUP}'
    )
    return run.ended("failed")


def validating(folder: Path | None) -> Canned:
    run = usual(folder)
    run.at_s += 2.1
    return run.doing(Phase.VALIDATION, 2.1)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param(
            importing, ["STARTING", "importing TensorFlow, 3.0 s", "knobs can be set already"], id="importing"
        ),
        pytest.param(starving, ["STARVING 41 %", "HIGHLY input-bound: the CPU's compute waits"], id="starving"),
        pytest.param(usual, ["FED 1 %", "NOT input-bound", "1.69 x faster over 150 steps, settled"], id="fed"),
        pytest.param(stalled, ["NO BATCH FOR 20.3 s", "0 img/s", "ETA stalled"], id="stalled"),
        pytest.param(settling, ["SETTLING", "prefetch 4: 30 of 60 steps", "so far, 30 of 60 steps"], id="settling"),
        pytest.param(slow_callback, ["STEP 451 RUNS FOR 8.0 s", "in callback ModelCheckpoint"], id="slow callback"),
        pytest.param(validating, ["BETWEEN EPOCHS", "validation, 2.1 s so far"], id="validating"),
        pytest.param(failed, ["FAILED at step 451", "b.py:3 - 5: traceback - 451 steps kept"], id="failed"),
        pytest.param(lambda folder: usual(folder).ended(), ["FINISHED", "2 epochs, 451 steps"], id="finished"),
    ],
)
async def test_a_state_says_its_words(tmp_path: Path, make: Callable[[Path], Canned], words: list[str]) -> None:
    async with shown(make(tmp_path)) as show:
        for word in words:
            assert word in show.text


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize(
    "options",
    [{}, {"theme": "light"}, {"colour": False}, {"unicode": False, "colour": False}],
    ids=["dark", "light", "no colour", "ascii"],
)
async def test_every_size_and_kind_of_screen_shows_finding_and_keys(
    size: tuple[int, int], options: dict[str, Any]
) -> None:
    async with shown(usual(None), size, **options) as show:
        rows = show.rows
        assert rows[1].startswith("  FED 1 %")
        assert "NOT input-bound" in rows[2]
        assert rows[-1].strip().startswith("p prefetch")
        assert "q leave" in rows[-1]
        assert all(len(row) == size[0] for row in rows)
        if not options.get("unicode", True):
            assert show.text.isascii()


async def test_a_large_screen_shows_every_pane(tmp_path: Path) -> None:
    async with shown(usual(tmp_path)) as show:
        for title in ("switch live", "did it help?", "what happened", "machine"):
            assert title in show.text
        rows = "\n".join(show.rows)
        assert "p  prefetch  4       > off" in rows
        assert "10:17:19 p prefetch off > 4 at step 301: 1.69 x faster" in rows
        assert "lost    3.0 s waiting (16 %)" in rows


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("1", "prefetch  4       > off"),
        ("2", "1.69 x faster over 150 steps, settled"),
        ("3", "prefetch off > 4 at step 301"),
        ("4", "1.6 of 2 cores, busiest 96 %"),
        ("5", "a line of the log"),
    ],
)
async def test_a_small_screen_shows_one_pane_at_a_time(tmp_path: Path, key: str, text: str) -> None:
    run = usual(tmp_path)
    run.writer.log = tmp_path / "log.txt"
    run.writer.log.write_text("a line of the log\n")
    async with shown(run, (60, 18)) as show:
        await show.press(key)
        assert text in show.text


async def test_a_window_too_small_says_so_and_comes_back(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("width", "height", "layout"),
    [
        (59, 40, Layout.TOO_SMALL),
        (60, 17, Layout.TOO_SMALL),
        (60, 18, Layout.TABS),
        (99, 60, Layout.TABS),
        (100, 32, Layout.PANES),
    ],
)
def test_the_layout_follows_the_window(width: int, height: int, layout: Layout) -> None:
    from textual.geometry import Size

    assert layout_for(Size(width, height)) is layout


# -- switching ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "asked"),
    [
        pytest.param(["p"], [("prefetch", 4)], id="p turns on"),
        pytest.param(["p", "p"], [("prefetch", "off")], id="p undoes itself"),
        pytest.param(["plus"], [("prefetch", 1)], id="deeper from off"),
        pytest.param(["plus", "equals_sign", "plus"], [("prefetch", 4)], id="deeper and deeper"),
        pytest.param(["plus", "equals_sign", "minus"], [("prefetch", 1)], id="and back"),
        pytest.param(["underscore"], [("prefetch", "off")], id="shallower than off"),
        pytest.param(["w"], [("workers", "auto")], id="workers"),
        pytest.param(["p", "u"], [("prefetch", "off")], id="u takes a request back"),
        pytest.param(["u"], [], id="nothing to undo"),
        pytest.param(["l"], [], id="no latency was asked for"),
    ],
)
async def test_a_key_asks_for_a_setting(tmp_path: Path, keys: list[str], asked: list[tuple[str, object]]) -> None:
    async with shown(starving(tmp_path)) as show:
        await show.press(*keys)
        assert show.asked() == asked


async def test_undo_takes_the_last_switch_back(tmp_path: Path) -> None:
    async with shown(usual(tmp_path)) as show:
        assert "u undoes: prefetch back to off" in show.text
        await show.press("u")
        assert show.asked() == [("prefetch", "off")]


async def test_a_held_key_is_one_request(tmp_path: Path) -> None:
    async with shown(starving(tmp_path)) as show:
        for delay_s in (0.0, 0.5, 0.03, 0.03, 0.03):
            show.run.at_s += delay_s
            await show.pilot.press("p")
        assert show.asked() == [("prefetch", 4)]


async def test_a_request_shows_until_the_training_answers(tmp_path: Path) -> None:
    async with shown(importing(tmp_path)) as show:
        await show.press("p")
        assert "asked: prefetch 4; taken up with the first batch" in show.text
        assert "asked 4 at 10:17:06" in show.text
        show.run.started().steps(30, STARVING)
        show.run.switched("prefetch", "off", "4").steps(100, FED).doing(Phase.COMPUTE, 0.001)
        await show.frame()
        assert "asked 4" not in show.text
        assert "p  prefetch  4       > off" in show.text


async def test_the_first_switch_says_how_to_go_back(tmp_path: Path) -> None:
    async with shown(starving(tmp_path)) as show:
        await show.press("p", "w")
        assert [note.message for note in show.app._notifications] == ["p undoes, space freezes"]


async def test_latency_is_a_knob_only_where_it_was_asked_for() -> None:
    run = usual(
        None, settings={"storage_latency_ms": 20.0}, knobs={"prefetch": "off", "workers": "off", "latency_ms": "20 ms"}
    )
    async with shown(run) as show:
        assert "l  latency   20 ms   > off" in show.text
        await show.press("l", "l")
        assert show.asked() == [("latency_ms", 20.0)]


async def test_a_pipeline_that_cannot_be_switched_says_so() -> None:
    async with shown(usual(None, switchable=["prefetch"])) as show:
        assert "fixed in this run's own pipeline" in show.text
        await show.press("w")
        assert show.asked() == []


async def test_read_only_keys_are_grey_and_say_why(tmp_path: Path) -> None:
    async with shown(usual(tmp_path), live=False) as show:
        assert "read only: switched where it trains" in show.text
        await show.press("p", "plus", "w", "u", "s")
        assert "prefetch: read only: switched where it trains" in [note.message for note in show.app._notifications]
        await show.press("q")
        assert show.app.return_value is Leave.LEFT


# -- looking ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["small", "large"])
async def test_every_key_can_be_pressed(tmp_path: Path, size: tuple[int, int]) -> None:
    async with shown(usual(tmp_path), size) as show:
        keys = [key for key, active in show.app.active_bindings.items() if active.binding.action != "quit"]
        assert {key for binding in LIVE_BINDINGS for key in binding.key.split(",")} <= set(keys)
        assert not {key for key in keys if key in ("ctrl+a", "ctrl+b") or "alt" in key or key.startswith("f1")}
        for key in keys:
            await show.press(key)
            while len(show.app.screen_stack) > 2:
                show.app.screen.dismiss(None)
                await show.pilot.pause()
            await show.press("escape")
        assert show.app.is_running


async def test_space_freezes_the_charts_and_nothing_else(tmp_path: Path) -> None:
    async with shown(usual(tmp_path)) as show:
        await show.press("space")
        assert show.live.timeline.frozen
        assert "space live" in show.rows[-1]
        show.run.steps(200, STARVING).doing(Phase.COMPUTE, 0.001)
        await show.frame()
        assert "STARVING" in show.rows[1]
        await show.press("end")
        assert not show.live.timeline.frozen


async def test_events_are_stepped_through_and_jumped_to(tmp_path: Path) -> None:
    async with shown(usual(tmp_path)) as show:
        await show.press("left_square_bracket", "left_square_bracket")
        assert show.live.happened.cursor == 1
        assert show.live.timeline.frozen
        await show.press("right_square_bracket")
        assert show.live.happened.cursor == 0


async def test_a_click_is_as_good_as_a_key(tmp_path: Path) -> None:
    async with shown(starving(tmp_path)) as show:
        await show.pilot.click("#keys", offset=(2, 0))
        await show.until(lambda: show.control and show.control.pending)
        assert show.asked() == [("prefetch", 4)]
        await show.pilot.click("#knobs", offset=(6, 3))
        await show.until(lambda: show.control and show.control.pending)
        assert show.asked() == [("workers", "auto")]
        await show.pilot.click("#happenings", offset=(6, 2))
        await show.until(lambda: show.live.timeline.frozen)


async def test_a_clicked_tab_shows_its_pane(tmp_path: Path) -> None:
    async with shown(usual(tmp_path), (80, 24)) as show:
        at = next(row for row in show.rows if "1 switch" in row).index("3 events")
        await show.pilot.click("#tabs", offset=(at + 1, 0))
        await show.until(lambda: show.live.pane == 3)
        await show.frame()
        assert "prefetch off > 4 at step 301" in show.text


async def test_the_finding_is_copied(tmp_path: Path) -> None:
    async with shown(usual(tmp_path)) as show:
        await show.press("y")
        assert show.app.clipboard.startswith("FED 1 %\nNOT input-bound")


async def test_text_from_outside_is_shown_as_it_is(tmp_path: Path) -> None:
    run = usual(tmp_path, workload="[b]cnn[/b]", device=MARKUP[:30])
    run.event(facts.Noted, text=f"note {MARKUP}\x1b[2J").event(facts.SwitchFailed, knob="prefetch", reason=MARKUP)
    run.event(facts.SensorMissing, sensor="[b]", reason=MARKUP, fix="[/b]")
    run.writer.log = tmp_path / "log.txt"
    run.writer.log.write_bytes(f"log {MARKUP}\n\x1b[31mred\xff\n".encode("latin-1"))
    async with shown(run, (200, 60)) as show:
        assert f"note {MARKUP}" in show.text
        assert "[b]cnn[/b]" in show.rows[0]
        await show.press("5")
        assert f"log {MARKUP}" in show.text
        assert "\x1b" not in show.text


async def test_a_failure_has_its_traceback_in_the_log(tmp_path: Path) -> None:
    async with shown(failed(tmp_path), (80, 24)) as show:
        await show.press("5")
        assert 'File "a/b.py", line 3' in show.text
        await show.press("q")
        assert show.app.return_value is Leave.LEFT


async def test_the_log_is_filtered_as_it_is_typed(tmp_path: Path) -> None:
    run = usual(tmp_path)
    run.writer.log = tmp_path / "log.txt"
    run.writer.log.write_text("".join(f"line {n} {'cuda' if n % 10 == 0 else ''}\n" for n in range(100)))
    async with shown(run, (80, 24)) as show:
        await show.press("slash")
        assert isinstance(show.app.focused, Input)
        await show.press(*"CUDA")
        assert show.live.log_pane.count() == 10
        await show.press("enter", "escape")
        assert show.live.log_pane.wanted == "CUDA"
        await show.press("slash", "escape")
        assert show.live.log_pane.count() == 100


async def test_a_sample_without_figures_reads_not_available() -> None:
    run = usual(None).sample(cpu_cores=math.nan, core_max=math.nan, disk_read_bytes_s=math.nan, process_bytes=math.nan)
    async with shown(run) as show:
        assert "CPU     n/a of 2 cores, busiest n/a" in show.text
        assert "nan" not in show.text


async def test_a_run_of_another_process_is_followed(tmp_path: Path) -> None:
    run = starving(tmp_path)
    run.writer.flush()
    reader = RunReader(FolderSource(tmp_path), run.clock)
    assert reader.tail().life.value == "running"
    run.at_s += 5.0
    run.reader = lambda: RunReader(FolderSource(tmp_path), run.clock)  # type: ignore[method-assign]
    async with shown(run, live=False) as show:
        assert "FOLLOWING, read only" in show.rows[0]
        run.doing(Phase.COMPUTE, 0.0)
        await show.frame()
        assert "STARVING 41 %" in show.rows[1]


async def test_a_run_that_is_over_is_replayed(tmp_path: Path) -> None:
    run = usual(tmp_path).ended()
    run.writer.flush()
    run.reader = lambda: RunReader(FolderSource(tmp_path), run.clock)  # type: ignore[method-assign]
    async with shown(run, live=False) as show:
        assert "REPLAY, ended" in show.rows[0]
        assert "FINISHED" in show.rows[1]
