"""Every key of the live screen: pressed, clicked, listed, and disabled without an effect."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from textual.widget import Widget
from textual.widgets._toast import Toast

from tests.pseudo import ROOT
from tests.screens.canned import COMPUTE_BOUND, STARVING, Canned, usual
from tests.screens.showing import shown
from tests.screens.states import starving
from tfwatch.core import events as facts
from tfwatch.core.knobs import LARGEST
from tfwatch.core.script_code import CodeEdit
from tfwatch.judge.forecasts.forecast import Forecast
from tfwatch.screens.keyline import Pressed
from tfwatch.screens.keys import LIVE_BINDINGS, PANE_BINDINGS, footer_keys
from tfwatch.screens.live.knobs import knob_rows
from tfwatch.screens.overlays import Leave, PatchScreen, TextScreen


async def test_in_a_large_window_a_number_focuses_its_pane_and_the_lower_place_keeps_the_last(
    tmp_path: Path,
) -> None:
    async with shown(usual(tmp_path)) as show:
        live = show.live
        lower: Widget = live.events_pane
        for key, pane in (
            *(("5", live.log_pane), ("2", live.pipeline), ("4", live.machine)),
            *(("6", live.curves), ("1", live.knobs), ("3", live.events_pane)),
        ):
            await show.press(key)
            assert show.app.focused is (pane if pane.can_focus else None)
            lower = pane if key in "3456" else lower
            seen = [one for one in live.panes if one.display]
            assert {live.knobs, live.pipeline, lower} == {*seen}
        assert not show.app._notifications


_READ_ONLY = "read only: tfwatch attach switches it"


@pytest.mark.parametrize(
    ("live", "messages"),
    [
        (
            True,
            {
                "u": "nothing to undo: no switch yet",
                "ctrl+z": "ctrl+z is disabled: q quits",
                " ".join(["minus"] * 4): "prefetch is already off",
                " ".join(["plus"] * 12): f"prefetch {LARGEST} is the maximum",
            },
        ),
        (
            False,
            {
                "p": f"prefetch: {_READ_ONLY}",
                "a": f"prefetch: {_READ_ONLY}",
                "f": f"autopilot: {_READ_ONLY}",
                "s": "read only: stop the run in the terminal that trains it",
            },
        ),
    ],
)
async def test_a_key_without_effect_explains_why(live: bool, messages: dict[str, str]) -> None:
    async with shown(starving(None), live=live) as show:
        for keys, message in messages.items():
            await show.press(*keys.split())
            shown_now = [note.message for note in show.app._notifications]
            assert shown_now == [message], "one message only: several would hide the panes"
        await show.press("q")
        assert show.app.return_value is (None if live else Leave.LEFT)


async def test_a_message_covers_no_pane() -> None:
    async with shown(starving(None), (80, 24), notifies=True) as show:
        for key in ("u", "y"):
            await show.press(key)
            (toast,) = show.app.screen.walk_children(Toast)
            assert toast.region == show.live.keys.region, key


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["small", "large"])
async def test_every_key_that_works_is_named_and_can_be_pressed(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    named = {key for binding in (*LIVE_BINDINGS, *PANE_BINDINGS) for key in binding.key.split(",")}
    # In the row of `q`, Textual's own, and that which copies what a mouse has marked.
    listed_elsewhere = {"ctrl+q", "ctrl+c", "tab", "shift+tab", "super+c"}
    works = set[str]()
    async with shown(usual(tmp_path), size) as show:
        for pane in "123456":
            await show.press(pane)
            works |= set(show.app.active_bindings)
        assert named | listed_elsewhere == works
        assert not {key for key in works if key in ("ctrl+a", "ctrl+b") or "alt" in key}
        for key in sorted(works - {"q", "ctrl+q", "ctrl+c"}):
            show.run.at_s += 2.0
            await show.pilot.press(key)
            while len(show.app.screen_stack) > 2:
                show.app.screen.dismiss(None)
                await show.pilot.pause()
        await show.frame()
        assert show.app.is_running


@pytest.mark.parametrize(("live", "over"), [(False, False), (False, True), (True, True)])
async def test_keys_without_effect_are_not_listed(tmp_path: Path, live: bool, over: bool) -> None:
    expected = ["space", "freeze", "z", "zoom", "y", "copy", "?", "keys", "q", "quit"]
    run = usual(tmp_path)
    async with shown(run.ended() if over else run, live=live) as show:
        for size in ((80, 24), (120, 40), (200, 60)):
            await show.resize(size)
            keys = show.rows[-1].split("  tfwatch")[0].split()
            assert [word for word in keys if word in expected] == expected
            assert not {*"pwfau", "-", "+"} & {*keys}


@pytest.mark.parametrize(("live", "over"), [(True, False), (False, False), (True, True)])
async def test_the_help_lists_the_keys_that_have_an_effect(
    tmp_path: Path, live: bool, over: bool
) -> None:
    run = usual(tmp_path)
    async with shown(run.ended() if over else run, live=live) as show:
        await show.press("question_mark")
        assert isinstance(show.app.screen, TextScreen)
        lines = show.app.screen.text.plain.splitlines()
        heads = [line for line in lines if line and not line.startswith(" ")]
        assert ("switch the input pipeline" in heads) == (live and not over)
        assert heads[-4:-1] == ["in the focused pane", "marks below the chart", "terms"]
        starts = {len(line) - len(line.lstrip()) for line in lines if line.startswith("  ")}
        assert starts == {2, 16}, "a meaning stays in its column"


async def test_a_click_is_as_good_as_a_key(tmp_path: Path) -> None:
    async with shown(starving(tmp_path)) as show:
        await show.pilot.click("#keys", offset=(2, 0))
        await show.until(lambda: show.control and show.control.has_requests)
        assert show.asked() == [("prefetch", "4")]
        await show.pilot.click("#events", offset=(6, 1))
        await show.until(lambda: show.live.timeline.frozen)


async def test_the_code_suggestion_is_copied(tmp_path: Path) -> None:
    async with shown(usual(tmp_path)) as show:
        await show.press("y")
        await show.until(lambda: show.app.clipboard)
        (line,) = show.app.clipboard.splitlines()
        assert line.startswith("dataset = dataset.prefetch(4)")
        assert (tmp_path / "copied.py").read_text() == show.app.clipboard + "\n"
        (note,) = (note.message for note in show.app._notifications)
        assert note.startswith("copied: dataset = dataset.prefetch(4); also in "), (
            "the user sees what was copied"
        )


async def test_a_note_is_copied_by_its_name(tmp_path: Path) -> None:
    async with shown(usual(tmp_path)) as show:
        assert show.live.view
        note = "# train.py:22: .batch(1024) before it; functions get whole batches"
        noted = replace(show.live.view.finding, code=note)
        show.live._copy(replace(show.live.view, finding=noted))
        await show.until(lambda: show.app.clipboard)
        (shown_note,) = (one.message for one in show.app._notifications)
        assert shown_note.startswith(f"copied: {note}; also in ")


async def test_a_question_leaves_no_keys_of_the_screen_below_it_in_the_footer() -> None:
    async with shown(starving(None), (120, 40)) as show:
        assert "y copy" in show.rows[-1]
        await show.press("q")
        assert "Quit?" in show.text
        assert not show.live.keys.keys
        await show.press("n")
        assert "y copy" in show.rows[-1]


async def test_a_finding_without_code_copies_the_lines_of_the_settings(tmp_path: Path) -> None:
    started = Canned(
        tmp_path, knobs={"prefetch": "4", "workers": "off"}, switchable=["prefetch", "workers"]
    ).started()
    async with shown(started.steps(5, STARVING)) as show:
        assert show.live.view
        assert not show.live.view.finding.code
        await show.press("y")
        await show.until(lambda: show.app.clipboard)
        assert show.app.clipboard.startswith("dataset = dataset.prefetch(4)")


LINE = "data = data.map(load)"


def switched_by_script(folder: Path, name: str = "") -> Canned:
    """A run whose prefetch is proved faster, of a script with the line that sets it. name: of the
    script in its lines, its path for an empty one."""
    script = folder / "train.py"
    script.write_text(f"{LINE}\n")
    os.utime(script, (0, 0))
    edit = CodeEdit("prefetch", name or str(script), 1, LINE, 21, 21, ".prefetch({})", "-1")
    knobs = {"prefetch": "off", "workers": "off"}
    run = Canned(folder / "run", knobs=knobs, switchable=["prefetch"], code=(edit,)).started()
    run.begin_epoch().steps(200, STARVING).switched("prefetch", "off", "4")
    return run.steps(200, COMPUTE_BOUND)


async def test_the_patch_of_a_proved_setting_is_shown_copied_and_written_by_enter(
    tmp_path: Path,
) -> None:
    async with shown(switched_by_script(tmp_path), (120, 40)) as show:
        assert "y patch" in show.rows[-1]
        await show.press("y")
        await show.until(lambda: isinstance(show.app.screen, PatchScreen))
        title = str(show.app.screen.query_one("#text").border_title)
        assert title.startswith("proved faster: enter writes it into ")
        assert f"+{LINE}.prefetch(4)" in show.app.clipboard.splitlines()
        assert (tmp_path / "run" / "copied.diff").read_text() == show.app.clipboard + "\n"
        await show.press("y", "w", "escape")
        assert (tmp_path / "train.py").read_text() == f"{LINE}\n"
        await show.press("y")
        await show.until(lambda: isinstance(show.app.screen, PatchScreen))
        await show.press("enter")
        await show.until(lambda: "prefetch" in (tmp_path / "train.py").read_text())
    assert (tmp_path / "train.py").read_text() == f"{LINE}.prefetch(4)\n"


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        pytest.param("train.py", "elsewhere", id="a file of the same name in another folder"),
        pytest.param("tfwatch/workloads/cnn.py", ROOT, id="a workload of tfwatch"),
    ],
)
async def test_no_patch_is_made_of_what_is_not_the_scripts_own_file(
    name: str, folder: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "train.py").write_text(f"{LINE}\n")
    os.utime(tmp_path / "elsewhere" / "train.py", (0, 0))
    monkeypatch.chdir(tmp_path / folder)
    async with shown(switched_by_script(tmp_path, name)) as show:
        await show.press("y")
        await show.until(lambda: show.app.clipboard)
        assert not isinstance(show.app.screen, PatchScreen)
        assert "+++" not in show.app.clipboard


async def test_a_file_that_changed_is_refused_in_a_sentence_and_the_lines_are_copied(
    tmp_path: Path,
) -> None:
    run = switched_by_script(tmp_path)
    os.utime(tmp_path / "train.py")
    async with shown(run) as show:
        await show.press("y")
        await show.until(lambda: show.app.clipboard)
        (note,) = (note.message for note in show.app._notifications)
        assert "train.py changed since the run began: it has no patch; copied: " in note


_USUAL = ("prefetch", "workers", "cache")


@pytest.mark.parametrize(
    ("width", "knobs", "keys"),
    [
        (
            80,
            _USUAL,
            "p prefetch w workers c cache f autopilot a A/B test space freeze ? keys q quit",
        ),
        (
            120,
            _USUAL[:1],
            "p prefetch 1 settings f autopilot space freeze z zoom y copy ? keys q quit",
        ),
        (
            60,
            (*_USUAL, "device_prefetch"),
            "p prefetch w workers c cache f autopilot ? keys q quit",
        ),
        (
            98,
            _USUAL[:1],
            (
                "p prefetch f autopilot a A/B test of prefetch space freeze z zoom y copy ? keys"
                " q quit"
            ),
        ),
        (60, _USUAL[:2], "p prefetch w workers f autopilot ? keys q quit"),
    ],
)
async def test_a_narrow_footer_keeps_the_keys_that_switch_and_quit(
    width: int, knobs: tuple[str, ...], keys: str
) -> None:
    run = starving(None, knobs=dict.fromkeys(knobs, "off"), switchable=[*knobs])
    async with shown(run, (width, 40)) as show:
        assert " ".join(show.rows[-1].split()) == keys


async def test_the_footer_and_the_settings_have_the_depth_key_that_the_banner_names() -> None:
    flat = Forecast("prefetch", "off", 23.4, 23.0, 24.0, "", 23.4)
    deeper = Forecast("prefetch", "8", 13.0, 12.0, 14.0, "the rest is compute", 23.4)
    run = starving(None, knobs={"prefetch": "4"}, switchable=["prefetch"])
    async with shown(run) as show:
        assert show.live.view
        advised = replace(show.live.view.finding, advice="+ depth 4 → 8: faster", forecast=deeper)
        known = replace(show.live.view.situation, forecasts={("prefetch", "off"): flat})
        view = replace(show.live.view, finding=advised, situation=known)
        without = footer_keys(show.live.view, live=True, frozen=False, stopping=False)
        keys = footer_keys(view, live=True, frozen=False, stopping=False)
        (row, _) = knob_rows(view, live=True)

        assert "+" not in [key.label for key in without]
        (depth,) = (key for key in keys if key.label == "+")
        assert (depth.word, row.note) == ("depth", "+ depth 4 → 8: 1.8 x")
        show.live.post_message(Pressed(depth.key))
        await show.frame()
        assert show.asked() == [("prefetch", "8")]


async def test_enter_shows_the_whole_of_a_line_that_its_row_cuts(tmp_path: Path) -> None:
    run = usual(tmp_path).event(facts.Noted, text="a note " * 30)
    async with shown(run, (80, 24)) as show:
        await show.press("3", "down", "enter")
        assert any(note.message.startswith("a note a note") for note in show.app._notifications)


async def test_the_autopilot_is_refused_as_the_settings_are_where_a_loop_has_its_own_pipeline() -> (
    None
):
    async with shown(
        Canned(None, knobs={}, switchable=[]).started().steps(200, (9.6, 13.0, 0.5))
    ) as show:
        await show.press("f")
        (note,) = show.app._notifications
        assert note.message == "autopilot: the loop has its own pipeline"
        assert "no settings to switch: the loop has its own pipeline" in show.words
