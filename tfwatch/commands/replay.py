"""`tfwatch replay`: a run in the screen it was trained in, read only; one still being written is followed."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tfwatch.commands.parts import Parts, Screen
from tfwatch.commands.stage import Stage
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.runs.format import NotARunError
from tfwatch.runs.library import find_run
from tfwatch.runs.reader import FolderSource, RunReader
from tfwatch.terminal import Capture, Signals, why_no_screen
from tfwatch.workloads import BadInputError

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Wish:
    """Which run the user wants to see; `run` is None for the newest."""

    run: str | None
    runs_dir: Path
    theme: str | None = None


def replay(wish: Wish, parts: Parts | None = None, clock: Clock = SYSTEM) -> int:
    """Show a run until the user leaves. 0, or 1 where the screen died, or 128 + the signal that ended it.

    Raises:
        BadInputError: there is no such run, or no screen to show it on.
    """
    try:
        reader = RunReader(FolderSource(find_run(wish.run, wish.runs_dir)), clock)
    except (FileNotFoundError, NotARunError) as error:
        raise BadInputError(str(error)) from error
    except OSError as error:
        raise BadInputError(f"{wish.runs_dir} cannot be read: {error.strerror or error}") from error
    if obstacle := why_no_screen(os.environ):
        raise BadInputError(obstacle.replace(": use --headless", ""))
    return _show(wish, reader, parts or Parts(), clock)


def _show(wish: Wish, reader: RunReader, parts: Parts, clock: Clock) -> int:
    from tfwatch.app import Leave

    def make_app(**options: Any) -> Screen:
        return parts.app(reader, None, theme=wish.theme, clock=clock, **options)

    received: list[int] = []

    def leave(signum: int) -> None:
        received.append(signum)
        stage.leave(Leave.LEFT)

    with Capture(screen=True) as terminal:
        terminal.record_to(None)
        stage = Stage(terminal, make_app, lambda: None)
        terminal.on_hangup = lambda: leave(signal.SIGHUP)
        with Signals(leave, terminal.hang_up):
            left = stage.show()
    if received:
        return 128 + received[0]
    return 1 if left is None else 0
