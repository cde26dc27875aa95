"""`tfwatch replay`: a run in the screen it was trained in, read only; one still being written is followed."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.commands.factories import Parts, look_at
from tfwatch.commands.screen_host import play
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.live.restart import earlier_of
from tfwatch.runs.format import NotARunError
from tfwatch.runs.library import find_run
from tfwatch.runs.opened import Run, open_run
from tfwatch.runs.reader import RunReader
from tfwatch.runs.streams import FolderSource
from tfwatch.terminal.capture import why_no_screen
from tfwatch.terminal.output import write
from tfwatch.workloads.workload import BadInputError

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Wish:
    """Which run the user wants to see; `run` is None for the newest. `as_json`: as a JSON object, without a screen."""

    run: str | None
    runs_dir: Path
    theme: str | None = None
    as_json: bool = False


def replay(wish: Wish, parts: Parts | None = None, clock: Clock = SYSTEM) -> int:
    """Show a run until the user leaves, or print it.

    0; 1 where the screen died or nothing could be printed; or 128 + the signal that ended it.

    Raises:
        BadInputError: there is no such run, or no screen to show it on.
    """
    try:
        folder = find_run(wish.run, wish.runs_dir)
        run = open_run(folder, clock) if wish.as_json else None
        reader = RunReader(FolderSource(folder), clock)
    except (FileNotFoundError, NotARunError) as error:
        raise BadInputError(str(error)) from error
    except OSError as error:
        raise BadInputError(f"{wish.runs_dir} cannot be read: {error.strerror or error}") from error
    if run:
        return _print(run)
    if obstacle := why_no_screen(os.environ):
        raise BadInputError(obstacle.replace("use --headless", "use --json"))
    make_app = (parts or Parts()).app
    look = look_at(wish.runs_dir)
    earlier = earlier_of(FolderSource(folder).manifest(), folder, clock)
    shown = {"theme": wish.theme, "clock": clock, "look": look, "earlier": earlier}
    return play(lambda **options: make_app(reader, None, **shown, **options))


def _print(run: Run) -> int:
    from tfwatch.report.document import as_json

    return write(sys.stdout, json.dumps(as_json(run), indent=1) + "\n")
