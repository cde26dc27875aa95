"""The contrast of every word on every screen, in both themes: WCAG 2.2 asks for 4.5."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.color import ColorSystem
from textual.color import Color
from textual.screen import Screen
from textual.theme import Theme

from tests.doctor.machines import linux
from tests.groups import write_group
from tests.runs.folders import FakeClock
from tests.screens.canned import Canned
from tests.screens.showing import shown
from tests.screens.states import failed, finished, settling, stalled, starving
from tests.screens.test_doctor import checked, finding, until
from tests.screens.test_launcher import launcher, text
from tfwatch.doctor.checks import judge
from tfwatch.judge.groups.judged_group import judge_group
from tfwatch.runs.format import EVENTS
from tfwatch.runs.group import folder_of_rank, open_group
from tfwatch.screens.group import GroupApp, GroupReader
from tfwatch.screens.themes import THEMES

LEAST = 4.5
STATES: tuple[Callable[[Path], Canned], ...] = (starving, stalled, settling, failed, finished)
#: Keys that show other panes.
VIEWS = ((), ("z",), ("4",), ("5",), ("6",))


def _luminance(colour: Color) -> float:
    parts = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in colour.normalized
    )
    return sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))


def _contrast(one: Color, other: Color) -> float:
    low, high = sorted([_luminance(one), _luminance(other)])
    return (high + 0.05) / (low + 0.05)


def _faint_words(screen: Screen[Any]) -> Iterator[str]:
    """Yield the text with letters or digits whose contrast is too low."""
    for strip in screen._compositor.render_strips():
        for words, style, _ in strip:
            if style and style.color and style.bgcolor and any(char.isalnum() for char in words):
                contrast = _contrast(
                    Color.from_rich_color(style.color), Color.from_rich_color(style.bgcolor)
                )
                if contrast < LEAST:
                    yield f"{words.strip()!r}: {contrast:.2f}, {style}"


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("make", STATES)
async def test_every_word_of_the_live_screen_can_be_read(
    theme: str, make: Callable[[Path], Canned], tmp_path: Path
) -> None:
    async with shown(make(tmp_path), theme=theme, live=make is not finished) as show:
        for keys in VIEWS:
            await show.press(*keys)
            assert not list(_faint_words(show.app.screen)), keys


@pytest.mark.parametrize("theme", THEMES)
async def test_every_word_of_the_launcher_and_of_the_doctor_can_be_read(theme: str) -> None:
    async with launcher(theme=theme) as (app, pilot):
        assert not list(_faint_words(app.screen))
        await pilot.press("t", "r")
        await until(pilot, lambda: "run train.py" in " ".join(text(app).split()))
        assert not list(_faint_words(app.screen))
    async with checked(finding(judge(linux())), theme=theme) as (doctor, _):
        assert not list(_faint_words(doctor.screen))


@pytest.mark.parametrize("theme", THEMES)
async def test_every_word_of_a_group_can_be_read(theme: str, tmp_path: Path) -> None:
    folder = write_group(tmp_path / "group", [1, 21, 1])
    (folder_of_rank(folder, 2) / EVENTS).write_text("")  # it does not respond
    judged = judge_group(open_group(folder, FakeClock(43).clock))
    app = GroupApp(GroupReader(lambda: judged), theme=theme)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause(0.3)
        assert not list(_faint_words(app.screen))


#: The colours that a user tells apart, and the parts of a circle between hues: beyond, orange is
#: read as red and green as blue.
_TOLD_APART = ("primary", "warning", "error", "success", "accent")
_APART = 0.06


@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)
def test_with_256_colours_each_colour_keeps_its_hue(theme: Theme) -> None:
    colours = theme.to_color_system().generate()
    names = [*_TOLD_APART, *(f"text-{name}" for name in _TOLD_APART), "error-darken-1"]
    for name in (*names, "success-muted", "error-muted"):
        exact = Color.parse(colours[name])
        known = exact.rich_color.downgrade(ColorSystem.EIGHT_BIT).get_truecolor()
        apart = abs(exact.hsl.h - Color(*known).hsl.h)
        assert min(apart, 1 - apart) <= _APART, name
