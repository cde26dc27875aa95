"""Runs a screen: shows the app, ends it at a signal, and restores the terminal."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
from typing import TYPE_CHECKING

from tfwatch.terminal.capture import (
    Capture,
    held_signals,
    passed_signals,
    restored_signals,
    set_screen_signals,
)
from tfwatch.terminal.output import has_colour, has_unicode

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from pathlib import Path

    from tfwatch.doctor.checks import CheckUp
    from tfwatch.screens.doctor import RunCheckup
    from tfwatch.screens.overlays import Leave
    from tfwatch.screens.themes import ThemedApp


class ScreenHost:
    """Shows one app on a captured terminal.

    make: makes the app from its `painted` callback, called in its event loop after its first paint,
    and the abilities of the terminal. painted: called then too.
    """

    def __init__(
        self,
        terminal: Capture,
        make: Callable[..., ThemedApp],
        painted: Callable[[], None] = lambda: None,
    ) -> None:
        self._terminal = terminal
        self._make = make
        self._when_painted = painted
        self._app: ThemedApp | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leaving: Leave | None = None

    def show(self) -> Leave | None:
        """Run the app to its end. Returns None where it failed; its traceback is then in the
        log."""
        try:
            with restored_signals():
                self._app = self._make(
                    painted=self._painted,
                    colour=has_colour(os.environ),
                    unicode=has_unicode(os.environ),
                )
                return self._app.run()
        except Exception:  # noqa: BLE001  the screen's boundary: the training goes on, the traceback is in the log
            self._terminal.restore(leave_screen=True)
            self._terminal.log_prints()
            self._terminal.log_traceback()
            return None
        finally:
            self._loop = None
            self._terminal.restore()
            self._terminal.log_prints()

    def leave(self, leave: Leave) -> None:
        """End the app with this answer, from any thread or signal handler, also before the first
        paint."""
        self._leaving = leave
        self._soon(lambda app: app.exit_with(leave))

    def _painted(self) -> None:
        import asyncio

        self._terminal.log_prints()
        self._loop = asyncio.get_running_loop()
        set_screen_signals(resumed=lambda: self._soon(self._resume))
        if self._leaving and self._app:
            self._app.exit_with(self._leaving)
        else:
            # The objects of a screen live as long as it: without the freeze a full collection takes
            # 50 ms of a frame.
            gc.freeze()
            self._when_painted()

    def _resume(self, app: ThemedApp) -> None:
        """Set the terminal's mode again after a shell changed it. A hangup also sends SIGCONT, on
        leaving."""
        if not self._leaving:
            with app.suspend():
                pass

    def _soon(self, call: Callable[[ThemedApp], None]) -> None:
        """Call from a signal handler or another thread; do nothing where the app has no loop."""
        if self._loop and self._app:
            with contextlib.suppress(RuntimeError):  # it has just been closed
                self._loop.call_soon_threadsafe(call, self._app)


def show_app(make: Callable[..., ThemedApp]) -> int:
    """Show an app in a process that does not train. Returns 0, 1 where it failed, or 128 + the
    signal that ended it."""
    from tfwatch.screens.overlays import Leave

    received: list[int] = []

    def leave(signum: int) -> None:
        received.append(signum)
        host.leave(Leave.LEFT)

    with held_signals(), Capture() as terminal:
        host = ScreenHost(terminal, make)
        terminal.on_hangup = lambda: leave(signal.SIGHUP)
        with passed_signals(leave, terminal.hang_up):
            left = host.show()
        if left is None and not received:
            terminal.err.write(f"tfwatch: the screen failed\n{terminal.end_of_log()}")
    if received:
        return 128 + received[0]
    return 1 if left is None else 0


def make_checkup(runs_dir: Path) -> RunCheckup:
    """Return a function that checks this machine and the folder of the runs."""

    def run_checkup(is_beside_training: bool, notify: Callable[[str], None]) -> CheckUp:
        from tfwatch.doctor.checks import check_up

        return check_up(runs_dir, notify, is_beside_training=is_beside_training)

    return run_checkup
