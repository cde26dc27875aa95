"""The base class of tfwatch's apps: a dark and a light theme, and quitting.

Colour roles: warning is data wait, error a stall, primary compute, accent a key to press.
"""

from __future__ import annotations

import sys
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar

from rich.segment import Segment
from textual import events, on
from textual.app import App
from textual.binding import Binding
from textual.filter import LineFilter, NoColor
from textual.theme import Theme

from tfwatch.screens.keyline import Pressed
from tfwatch.screens.overlays import Leave
from tfwatch.screens.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.binding import BindingType
    from textual.color import Color
    from textual.events import Event


#: Seconds for which a message stands over the keys of the last row.
MESSAGE_S = 8.0
#: The characters of frames, charts and texts, and ASCII in their place.
_ASCII = str.maketrans("╭╮╰╯─│→←…●✓█▒░▞·▁▂▃▄▅▆▇", "++++-|><.ov=#./....--==")


def _release_closed_widgets() -> None:
    """Have Textual cache two colours by themselves.

    Textual 8.2 caches a method of each widget, which keeps the rows of 1024 closed ones: 70 MB
    (https://github.com/Textualize/textual/issues/6665).
    """
    cache: Any = getattr(sys.modules.get("textual._styles_cache"), "StylesCache", None)
    method = getattr(cache, "get_inner_outer", None)
    if plain_method := getattr(method, "__wrapped__", None):
        cache.get_inner_outer = staticmethod(lru_cache(1024)(partial(plain_method, None)))


_release_closed_widgets()


class _Ascii(LineFilter):
    """Shows the screen's own characters in ASCII."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            Segment(text.translate(_ASCII), style, control) for text, style, control in segments
        ]


class ThemedApp(App[Leave]):
    """An app with or without colours; `run()` returns the way the user left, None where it was
    closed from outside.

    painted: called once, after the first paint. theme: `dark`, which it is without one, or `light`.
    unicode: the terminal shows more than ASCII.
    """

    TITLE = "tfwatch"
    ENABLE_COMMAND_PALETTE = False
    #: ctrl+c, which would copy it, quits.
    ALLOW_SELECT = False
    #: A message stands over the keys of the last row, where it covers no pane.
    CSS = """
    ToastRack { margin-bottom: 0; overflow: hidden; }
    Toast, Toast.-information {
        width: 100%; max-width: 100%; margin: 0; padding: 0 1; border: none;
    }
    Toast { background: $accent; color: $background; text-style: bold; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+q,ctrl+c", "quit", "quit", show=False, priority=True, id="app.leave"),
        Binding("ctrl+z", "no_suspend", "disabled", show=False, id="app.suspend"),
    ]

    def __init__(
        self,
        *,
        painted: Callable[[], None] | None = None,
        theme: str | None = None,
        colour: bool = True,
        unicode: bool = True,
    ) -> None:
        self._colour = colour
        self._unicode = unicode
        super().__init__()
        self.no_color = self.no_color or not colour
        self._painted = painted
        for known in THEMES.values():
            self.register_theme(known)
        self.theme = THEMES[theme or "dark"].name

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Add filters that remove colours and characters that the terminal does not have."""
        filters = super().get_line_filters()
        return [*filters, *[NoColor()] * (not self._colour), *[_Ascii()] * (not self._unicode)]

    def notify_painted(self) -> None:
        """Call `painted` after the first paint."""
        if self._painted:
            self._painted()

    def exit_with(self, leave: Leave) -> None:
        """Quit without asking; for a signal handler on the event loop."""
        self.exit(leave)

    async def action_quit(self) -> None:
        self.exit_with(Leave.LEFT)

    def action_no_suspend(self) -> None:
        """Explain why ctrl+z does nothing."""
        self.notify("ctrl+z is disabled: q quits")

    def notify(self, message: str, **options: Any) -> None:
        """Show a message in the last row, over the keys and in place of the one before, for some
        seconds or until the next key; text from outside is never markup."""
        self.clear_notifications()
        super().notify(plain(message), **{**options, "timeout": MESSAGE_S, "markup": False})

    async def on_event(self, event: Event) -> None:
        """Give the last row back to the keys before the next key acts."""
        if isinstance(event, events.Key):
            self.clear_notifications()
        await super().on_event(event)

    @on(Pressed)
    def press(self, message: Pressed) -> None:
        """Press the key that was clicked."""
        self.call_next(self.simulate_key, message.key)


#: Each colour has a near one of the same hue among the 256 of a terminal without true colours.
DARK = Theme(
    name="tfwatch-dark",
    primary="#4f8fd9",
    secondary="#7a8ea6",
    warning="#e8a63d",
    error="#d23a3a",
    success="#4fb34f",
    accent="#5ccfd6",
    foreground="#e1e4e8",
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
    success="#1f7a2b",
    accent="#0b6670",
    foreground="#1d2329",
    background="#fbfbf8",
    surface="#f1f2ee",
    panel="#e4e7e3",
    dark=False,
)
#: The themes by the names that `--theme` and the settings file use.
THEMES = {"dark": DARK, "light": LIGHT}
