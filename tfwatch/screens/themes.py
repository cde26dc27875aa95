"""What tfwatch's apps share: two palettes, the one that was chosen remembered, and leaving.

What tfwatch's apps share: two palettes, the one that was chosen remembered, and leaving.

The two palettes. Roles: warning is data wait, error a stall, primary compute, accent what can be pressed.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import App, SystemCommand
from textual.binding import Binding
from textual.command import CommandPalette
from textual.filter import NoColor
from textual.theme import Theme

from tfwatch.runs.format import write_atomically
from tfwatch.screens.leave import Leave
from tfwatch.widgets.basics.keyline import Pressed
from tfwatch.widgets.basics.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from textual.binding import BindingType
    from textual.filter import LineFilter
    from textual.screen import Screen


class ThemedApp(App[Leave]):
    """Draws with colours or without; `run()` returns how it was left, None where it was ended from outside.

    painted: called once, after the first paint. theme: `dark` or `light`, remembered from now on; None takes the saved
    choice. settings: the file that remembers it; None remembers nothing. unicode: the terminal shows more than ASCII.
    """

    TITLE = "tfwatch"
    #: What no widget of tfwatch's own draws, where the terminal shows ASCII alone.
    CSS = """
    .-plain CommandPalette SearchIcon { display: none; }
    .-plain CommandPalette #--input { border: ascii $foreground 30%; }
    .-plain CommandPalette #--input.--list-visible { border-bottom: none; }
    .-plain CommandPalette CommandList { border: none; scrollbar-size-vertical: 0; }
    .-plain CommandPalette LoadingIndicator { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q,ctrl+c", "quit", "leave", show=False, priority=True, id="app.leave"),
        Binding("ctrl+z", "no_suspend", "off", show=False, id="app.suspend"),
        Binding("question_mark", "tell_keys", "the keys", show=False, id="app.keys"),
    ]

    def __init__(
        self,
        *,
        painted: Callable[[], None] | None = None,
        theme: str | None = None,
        colour: bool = True,
        unicode: bool = True,
        settings: Path | None = None,
    ) -> None:
        self._colour = colour
        self._unicode = unicode
        super().__init__()
        self.no_color = self.no_color or not colour
        self.set_class(not unicode, "-plain")
        self._painted = painted
        self._settings = settings
        for known in THEMES.values():
            self.register_theme(known)
        self._asked_theme = theme
        self.theme = THEMES.get(theme or self._saved_theme(), THEMES["dark"]).name

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Without colour the terminal's own two colours are left, and bold and reverse."""
        filters = super().get_line_filters()
        return filters if self._colour else [*filters, NoColor()]

    def on_mount(self) -> None:
        if self._asked_theme:
            self.choose_theme(self._asked_theme)

    def tell_painted(self) -> None:
        """The first paint is done."""
        if self._painted:
            self._painted()

    def exit_with(self, leave: Leave) -> None:
        """Leave without asking; for a signal's handler on the event loop."""
        self.exit(leave)

    async def action_quit(self) -> None:
        """Leave."""
        self.exit_with(Leave.LEFT)

    def action_no_suspend(self) -> None:
        """Say why nothing happens."""
        self.notify("ctrl+z is off: q leaves")

    def action_tell_keys(self) -> None:
        """Say where the keys are told."""
        self.notify("the keys stand in the last line; : finds everything by name")

    def action_command_palette(self) -> None:
        """Show the palette."""
        if not isinstance(self.screen, CommandPalette):
            self.push_screen(CommandPalette(placeholder="search for a command", id="--command-palette"))

    def notify(self, message: str, **options: Any) -> None:
        """A sentence in a corner, in place of the one before; what is told of others' words in it is data."""
        self.clear_notifications()
        super().notify(plain(message), **{"timeout": 4, **options, "markup": False})

    @on(Pressed)
    def press(self, message: Pressed) -> None:
        """A key that was clicked is a key that was pressed."""
        self.call_next(self.simulate_key, message.key)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """What the palette offers."""
        yield from self.theme_commands()
        yield SystemCommand("Quit", "leave", self.action_quit)

    def theme_commands(self) -> Iterable[SystemCommand]:
        """What the palette offers of themes."""
        for name in THEMES:
            yield SystemCommand(
                f"Theme: {name}", f"use the {name} palette from now on", lambda name=name: self.choose_theme(name)
            )

    def choose_theme(self, name: str) -> None:
        """Use a palette, `dark` or `light`, and remember it."""
        self.theme = THEMES[name].name
        if self._settings is not None:
            try:
                self._settings.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(self._settings, json.dumps({"theme": name}))
            except OSError as error:
                self.notify(f"the theme is not remembered: {error.strerror}")

    def _saved_theme(self) -> str:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            if self._settings is not None:
                return str(json.loads(self._settings.read_text(encoding="utf-8")).get("theme", ""))
        return ""


DARK = Theme(
    name="tfwatch-dark",
    primary="#4f8fd9",
    secondary="#7a8ea6",
    warning="#e8a33d",
    error="#d8434e",
    success="#4fb37d",
    accent="#5ccfd6",
    foreground="#dfe5ec",
    background="#0f1318",
    surface="#161c23",
    panel="#1d252e",
    dark=True,
)
LIGHT = Theme(
    name="tfwatch-light",
    primary="#2767b0",
    secondary="#5b6b7d",
    warning="#c27803",
    error="#b3202c",
    success="#1f7a4a",
    accent="#0b6f78",
    foreground="#1d2329",
    background="#fbfbf8",
    surface="#f1f2ee",
    panel="#e4e7e3",
    dark=False,
)
#: What `--theme` and the saved choice are called.
THEMES = {"dark": DARK, "light": LIGHT}
