"""Text from outside (names, paths, errors, log lines) is never markup in any pane, and keeps the
columns."""

import unicodedata
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.judge.test_view import look
from tests.screens.canned import COMPUTE_BOUND, N_A, STARVING, Canned
from tests.screens.showing import rows_of, shown
from tests.screens.test_launcher import launcher, offer
from tfwatch.core import events as facts
from tfwatch.core.rows import Flag, Phase
from tfwatch.judge.past_run import PastRun

NAMES = {
    "escapes": "a\x1b[31mred\x1b[0m\x1b]2;title\x07b\x9b2J",
    "wide": "図書館のデータ読み込み処理" * 8,
    "combined": "e\u0301te\u0301 n\u0303\u0303 \u2764\ufe0f",
    "lines": "one\ntwo\r\nthree\x00four\tfive \u202esix",
    "long": "[red]x[/nope]" * 40,
}
by_name = pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)


def named(folder: Path, name: str) -> Canned:
    """Make a run that uses a name for everything that users choose, with a settled switch to it."""
    knobs = {"prefetch": "off", "workers": "off"}
    values = {
        "knobs": knobs,
        "switchable": [*knobs],
        "settings": {"arguments": name},
        "accelerated": True,
    }
    run = Canned(folder, workload=name, device=name, **values)
    run.event(facts.GpuFound, source=name, name=name, memory_bytes=None, unified=False).started()
    run.event(facts.SensorMissing, sensor=name, reason=name, fix=name).event(facts.Noted, text=name)
    run.event(facts.Paused, cause="checkpoint", took_ms=1500.0, detail=name).steps(99, STARVING)
    run.event(facts.EpochEnded, epoch=0, step=100, metrics={name: 1.0})
    run.event(
        facts.SwitchFailed, knob="workers", reason=name, old="off", new="4", step=1, now="off"
    )
    run.switched("prefetch", "off", name).steps(1, COMPUTE_BOUND, int(Flag.SWITCH)).steps(
        70, COMPUTE_BOUND
    )
    run.staged((name, "Map", 7.7, 1.0, N_A, N_A), ("batch(32)", "BatchV2", 0.6, 1.0, N_A, N_A))
    run.log.write_text(f"{name}\na line\n")
    return run.sample()


def check(rows: Sequence[str], width: int) -> None:
    """Assert that rows fill the screen's width, frames close, and no control character remains."""
    for row in rows:
        assert cell_len(row) == width, row
        assert not [char for char in row if unicodedata.category(char) in ("Cc", "Cf", "Cs")], row
        assert not row.startswith("│") or row[-1] in "│╮╯", row


@by_name
async def test_panes_keep_their_columns_with_any_name(tmp_path: Path, name: str) -> None:
    async with shown(named(tmp_path, name), (60, 20)) as show:
        assert "epoch 1" in show.rows[0]
        assert "ATTACHED" in show.rows[0]
        for key in "123456":
            await show.press(key)
            check(show.rows, 60)
        await show.press("3")
        await show.resize((120, 40))
        check(show.rows, 120)
        upper = next(y for y, row in enumerate(show.rows) if "input pipeline" in row)
        assert {cell_len(row.partition("││")[0]) for row in show.rows[upper:] if "││" in row} == {
            59
        }
        await show.press("5", "question_mark")
        check(show.rows, 120)
        await show.press("escape")
        since_ns = round(show.run.at_s * 1e9)
        show.run.event(
            facts.StallLocated,
            step=172,
            stage=name,
            since_ns=since_ns,
            place=name,
            thread="generator",
        )
        show.run.at_s += 20.0
        show.run.doing(Phase.WAIT, 20.0)
        await show.frame()
        check(show.rows, 120)
        show.run.event(
            facts.TrainingFailed, step=172, error=name, traceback=f'File "{name}", line 3\n{name}'
        )
        show.run.ended("failed", name)
        await show.frame()
        check(show.rows, 120)
        await show.resize((60, 20))
        await show.look_at(look(Canned(None, workload=name).doing(Phase.STARTING, 2.0, name)))
        check(show.rows, 60)


@by_name
async def test_the_launchers_lists_keep_their_columns(name: str) -> None:
    workloads, runs = (
        ((name, name),),
        (PastRun(name, name, 720.0, name, 9, 1.0, None, 0.41),),
    )
    async with launcher(offer(workloads, lambda: runs), (120, 40)) as (app, pilot):
        for keys in ((), ("tab",), ("tab",)):
            await pilot.press(*keys)
            await pilot.pause()
            check(rows_of(app.screen), 120)


async def test_a_notification_is_never_markup(tmp_path: Path) -> None:
    async with shown(named(tmp_path, "cnn")) as show:
        show.live.notify(f"{NAMES['escapes']}[/nope]")
        await show.pilot.pause()
        assert [(note.message, note.markup) for note in show.app._notifications] == [
            ("aredb?2J[/nope]", False)
        ]
