"""The launcher as an app: gives the command that was chosen."""

from __future__ import annotations

from typing import Any

from tfwatch.screens.launcher import LauncherScreen, Offer
from tfwatch.screens.leave import Leave
from tfwatch.screens.themed import ThemedApp


class LauncherApp(ThemedApp):
    """Shows the launcher. options: those of `ThemedApp`.

    Attributes:
        words: of the command line that was chosen; empty where the user left.
    """

    def __init__(self, offer: Offer, **options: Any) -> None:
        super().__init__(**options)
        self.words: tuple[str, ...] = ()
        self._launcher = LauncherScreen(offer, self._take, colour=self._colour, unicode=self._unicode)

    def on_mount(self) -> None:
        self.push_screen(self._launcher)
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        self._launcher.begin()
        self.tell_painted()

    def _take(self, words: tuple[str, ...]) -> None:
        self.words = words
        self.exit_with(Leave.LEFT)
