"""The live screen with canned runs: its texts in every state and size."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from textual.geometry import Size

from tests.live.test_view import look
from tests.screens.canned import STAGES, STARVING, Canned, usual
from tests.screens.showing import shown
from tests.screens.states import (
    MARKUP,
    failed,
    finished,
    importing,
    settling,
    slow_callback,
    stalled,
    starving,
    validating,
)
from tfwatch.analysis.findings.situation import Tone
from tfwatch.core import events as facts
from tfwatch.core.rows import Phase
from tfwatch.runs.reading.liveness import Life
from tfwatch.runs.reading.reader import RunReader
from tfwatch.runs.reading.streams import FolderSource
from tfwatch.screens.dialogs.leave import Leave
from tfwatch.screens.keys import Layout, layout_for
from tfwatch.widgets.live.events import EventsPane
from tfwatch.widgets.live.header import terminal_title
from tfwatch.widgets.live.timeline.widget import Timeline

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SIZES = [(60, 18), (80, 24), (99, 40), (100, 32), (120, 40), (200, 60)]


#: What the screen says of each state.
WORDS: dict[Callable[[Path], Canned], list[str]] = {
    importing: ["STARTING", "importing TensorFlow, 3.0 s", "settings can be changed already"],
    starving: ["STARVING 41 %", "HIGHLY input-bound: each step waits"],
    usual: ["OK, data wait 1 %", "compute-bound", "1.69 x faster (1.67 to 1.71) over 150 steps"],
    stalled: ["NO BATCH FOR 20.3 s", "0 examples/s", "ETA stalled"],
    settling: ["MEASURING", "prefetch 4: 30 of 60 steps", "so far, 30 of 60 steps"],
    slow_callback: ["STEP 451 RUNS FOR 8.0 s", "in callback ModelCheckpoint"],
    validating: ["BETWEEN EPOCHS", "validation, 2.1 s so far"],
    failed: ["FAILED at step 451", "b.py:3 - 5 shows the traceback - 451 steps kept"],
    finished: ["FINISHED", "2 epochs, 451 steps"],
}


async def test_a_state_shows_its_text(tmp_path: Path) -> None:
    async with shown(usual(None)) as show:
        for make, words in WORDS.items():
            await show.look_at(look(make(tmp_path / make.__name__)))
            assert not [word for word in words if word not in show.text], make.__name__
            banner = show.live.banner
            assert [tone for tone in Tone if banner.has_class(f"-{tone.value}")] == [
                banner.banner.tone
            ], make.__name__


async def test_the_wait_for_the_first_batch_counts_as_the_start_everywhere() -> None:
    run = Canned(None).begin_epoch()
    run.at_s = 3.0
    async with shown(run.doing(Phase.WAIT, 3.0), (80, 24)) as show:
        assert "STARTING" in show.rows[1]
        assert "waiting for the first batch, 3.0 s" in show.rows[2]
        assert "no forecast yet: 0 of 20 steps" in show.text
        assert "stall" not in show.text
        assert show.app.title == "cnn"


async def test_a_narrow_banner_keeps_its_figures() -> None:
    host_bound = Canned(None).started().steps(150, (0.2, 13.0, 7.1)).doing(Phase.COMPUTE, 0.0)
    async with shown(usual(None), (60, 18)) as show:
        assert show.rows[1].strip().startswith("OK, data wait 1 %")
        assert [row.strip() for row in show.rows[2:4]] == [
            "compute-bound: only 0.2 of 13.9 ms is data wait",
            "A GPU or a smaller model would shorten it.",
        ]
        await show.look_at(look(host_bound))
        assert show.rows[1].strip().startswith("HOST-BOUND 35 %")
        assert [row.strip() for row in show.rows[2:4]] == [
            "host time takes 7.1 of 20.3 ms/step",
            "compile(steps_per_execution=8): about 14.1 ms/step",
        ]


async def test_a_run_without_a_sign_of_life_has_no_speed_and_no_eta(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with shown(usual(None).staged(*STAGES), live=False) as show:
        assert "examples/s" in show.rows[0]
        assert "tf.data, 1 s ago" in show.text
        reader = show.live._reader
        seen = reader.tail()
        # Its clock stops at the last sign of life.
        for life in (Life.UNKNOWN, Life.NOT_RESPONDING, Life.GONE, Life.KILLED):
            monkeypatch.setattr(reader, "tail", partial(replace, seen, life=life))
            await show.frame()
            assert "examples/s" not in show.rows[0], life
            assert "ETA" not in show.rows[0], life
            assert ("newest reading" in show.text) is (life is not Life.NOT_RESPONDING), life


@pytest.mark.parametrize(
    ("life", "words"), [(Life.KILLED, "killed"), (Life.NOT_RESPONDING, "not responding")]
)
def test_the_title_of_a_run_that_does_not_run_has_no_share(life: Life, words: str) -> None:
    view = look(usual(None))
    changed = replace(view, snapshot=replace(view.snapshot, life=life))

    assert (terminal_title(view), terminal_title(changed)) == ("cnn 2/20 1 %", f"cnn 2/20 {words}")


async def test_a_loop_of_the_user_s_own_has_no_knobs_and_no_loss(tmp_path: Path) -> None:
    run = Canned(tmp_path, knobs={}, switchable=[], metric="", epochs=None, steps_per_epoch=None)
    run.event(facts.EpochStarted, epoch=0, epochs=0, steps=None).steps(200, (9.6, 13.0, 0.0))
    run.writer.progress.append((200 * 32, 200, 0, 200, None, None))
    run.writer.phase(Phase.COMPUTE)
    async with shown(run, live=False) as show:
        assert "STARVING 42 %" in show.text
        assert "no settings to switch: the loop has its own pipeline" in show.text
        assert "loss" not in show.rows[0]


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({}, SIZES),
        ({"theme": "light"}, [(80, 24)]),
        ({"colour": False}, [(80, 24)]),
        ({"unicode": False, "colour": False}, SIZES),
    ],
    ids=["dark", "light", "no colour", "ascii"],
)
async def test_every_size_and_kind_of_screen_shows_finding_and_keys(
    options: dict[str, Any], sizes: list[tuple[int, int]]
) -> None:
    async with shown(usual(None), **options) as show:
        for size in sizes:
            await show.resize(size)
            rows = show.rows
            assert rows[1].startswith("  OK, data wait 1 %")
            assert "compute-bound" in rows[2]
            assert rows[-1].strip().startswith("p prefetch")
            assert "q quit" in rows[-1]
            assert {len(row) for row in rows} == {size[0]}
            assert options.get("unicode", True) or show.text.isascii()


async def test_a_large_screen_shows_every_pane(tmp_path: Path) -> None:
    async with shown(usual(tmp_path)) as show:
        for title in ("input pipeline", "live switches", "did it help?", "events", "machine"):
            assert title in show.text
        rows = "\n".join(show.rows)
        assert "p prefetch 4 next: off" in show.words
        assert "10:17:19 p prefetch off → 4 at step 301: 1.69 x faster" in rows
        assert "● recording" in show.rows[0]
        assert "cost    data wait 2.9 s so far (16 %)" in rows


async def test_a_small_screen_shows_one_pane_at_a_time(tmp_path: Path) -> None:
    texts = {
        "4": "1.6 of 2 cores, busiest 96 %",
        "1": "prefetch 4 next: off",
        "2": "n/a: tf.data's model of the pipeline has not been read",
        "3": "prefetch off → 4 at step 301",
        "5": "a line of the log",
        "6": "1.69 x faster (1.67 to 1.71) over 150 steps",
    }
    run = usual(tmp_path)
    run.writer.log = tmp_path / "log.txt"
    run.writer.log.write_text("a line of the log\n")
    async with shown(run, (60, 18)) as show:
        for key in texts:
            await show.press(key)
            assert [shown for shown, text in texts.items() if text in show.words] == [key]
        for size, rows in (((60, 18), 5), ((80, 24), 9), ((80, 34), 14)):
            await show.resize(size)
            assert show.live.query_one("#panes").region.height == rows


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


@pytest.mark.parametrize(
    ("width", "height", "layout"),
    [
        (59, 40, Layout.TOO_SMALL),
        (60, 17, Layout.TOO_SMALL),
        (60, 18, Layout.TABS),
        (99, 60, Layout.TABS),
        (100, 35, Layout.TABS),
        (100, 36, Layout.PANES),
    ],
)
def test_the_layout_follows_the_window(width: int, height: int, layout: Layout) -> None:
    assert layout_for(Size(width, height)) is layout


async def test_text_from_outside_is_shown_as_it_is(tmp_path: Path) -> None:
    run = usual(tmp_path, workload="[b]cnn[/b]", device=MARKUP[:30])
    run.event(facts.Noted, text=f"note {MARKUP}\x1b[2J").event(
        facts.SwitchFailed, knob="prefetch", reason=MARKUP, old="off", new="4", step=1, now="off"
    )
    run.event(facts.SensorMissing, sensor="[b]", reason=MARKUP, fix="[/b]")
    run.writer.log = tmp_path / "log.txt"
    run.writer.log.write_bytes(f"log {MARKUP}\n\x1b[31mred\xff\n".encode("latin-1"))
    async with shown(run, (400, 60)) as show:
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


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_a_log_longer_than_its_pane_opens_at_its_end_and_stays_there(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    run = usual(tmp_path)
    run.writer.log = tmp_path / "log.txt"
    run.writer.log.write_text("".join(f"line {n} {'x' * 150}\n" for n in range(100)))
    async with shown(run, size) as show:
        await show.press("5")
        assert "line 99 " in show.text
        with run.writer.log.open("a") as log:
            log.write("the newest line\n")
        await show.frame()
        assert "the newest line" in show.text
        await show.press("pageup", "pageup")
        with run.writer.log.open("a") as log:
            log.write("one line more\n")
        await show.frame()
        assert "one line more" not in show.text


async def test_a_sample_without_figures_reads_not_available() -> None:
    run = usual(None).sample(
        cpu_cores=math.nan, core_max=math.nan, disk_read_bytes_s=math.nan, process_bytes=math.nan
    )
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
        assert "no switch in this run yet" in show.text
        run.doing(Phase.COMPUTE, 0.0)
        await show.frame()
        assert "STARVING 41 %" in show.rows[1]


async def test_a_run_that_is_over_is_replayed(tmp_path: Path) -> None:
    run = usual(tmp_path).ended()
    run.writer.flush()
    run.reader = lambda: RunReader(FolderSource(tmp_path), run.clock)  # type: ignore[method-assign]
    async with shown(run, live=False) as show:
        assert "REPLAY, ended" in show.rows[0]
        assert "●" not in show.rows[0]
        assert "FINISHED" in show.rows[1]


async def test_on_a_huge_screen_the_rows_go_to_the_lists_and_not_to_the_chart() -> None:
    async with shown(usual(None), (200, 50)) as show:
        chart, events = (show.live.query_one(kind) for kind in (Timeline, EventsPane))
        assert (chart.region.height, events.region.height) == (15, 10), (
            "the chart takes what the panes leave"
        )
        for size in ((200, 90), (400, 120)):
            await show.resize(size)
            assert chart.region.height <= 48
            assert events.region.height >= 16
            assert events.region.bottom == size[1] - 1, "no row stays empty"


async def test_a_window_of_200_by_60_has_three_columns_of_panes() -> None:
    async with shown(usual(None).staged(*STAGES), (200, 60)) as show:
        upper = [show.live.query_one(f"#{name}").region for name in ("pipeline", "knobs", "card")]
        lower = [show.live.query_one(f"#{name}").region for name in ("events", "epochs", "machine")]
        for panes in (upper, lower):
            assert [pane.x for pane in panes] == [0, 66, 133]
            assert panes[-1].right == 200
            assert len({pane.y for pane in panes}) == 1
        sensors = show.live.query_one("#sensors").region
        assert (sensors.x, sensors.y, sensors.bottom) == (
            lower[2].x,
            lower[2].bottom,
            lower[0].bottom,
        )
        assert lower[0].bottom == 59, "no row stays empty"
        await show.press("5")
        assert show.live.query_one("#log").region == lower[0], (
            "the log takes the place of the events"
        )


async def test_a_run_without_a_setting_to_switch_offers_no_key_that_switches() -> None:
    run = Canned(None, switchable=(), knobs={}).started().steps(200, STARVING)
    async with shown(run, (200, 60)) as show:
        assert "no settings to switch: the loop has its own pipeline" in show.words
        assert "no setting to switch, so nothing to compare" in show.words
        assert not [
            word
            for word in ("p prefetch", "f autopilot", "a A/B test", "u undo")
            if word in show.rows[-1]
        ]
