"""An app in tfwatch's two palettes, which remembers the one that was chosen."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, TypeVar

from textual.app import App, SystemCommand
from textual.filter import NoColor

from tfwatch.runs.format import write_atomically
from tfwatch.screens.themes import THEMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from textual.filter import LineFilter

_T = TypeVar("_T")


class ThemedApp(App[_T]):
    """Draws with colours, or without.

    theme: `dark` or `light`, remembered from now on; None takes the saved choice. settings: the file that remembers
    it; None remembers nothing.
    """

    def __init__(self, theme: str | None, settings: Path | None, colour: bool) -> None:
        self._colour = colour
        super().__init__()
        self.no_color = self.no_color or not colour
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
                self.notify(f"the theme is not remembered: {error.strerror}", markup=False, timeout=4)

    def _saved_theme(self) -> str:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            if self._settings is not None:
                return str(json.loads(self._settings.read_text(encoding="utf-8")).get("theme", ""))
        return ""
