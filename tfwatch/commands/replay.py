"""`tfwatch replay`: a run or a group in the screen it was trained in, read only; one still written is followed."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tfwatch.commands.factories import Factories, make_checkup
from tfwatch.commands.screen_host import show_app
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import BadInputError
from tfwatch.live.earlier_runs import earlier_of
from tfwatch.live.groups.judged_group import JudgedGroup
from tfwatch.live.notices import Notifier
from tfwatch.runs.format import NotARunError
from tfwatch.runs.groups.group_file import is_group
from tfwatch.runs.groups.reading import open_group, signs_of
from tfwatch.runs.library.finding import find_run
from tfwatch.runs.reading.disk_call import SLOW_S, call_and_report
from tfwatch.runs.reading.opened import Run, open_run
from tfwatch.runs.reading.reader import RunReader, follow_folder
from tfwatch.terminal.capture import why_no_screen
from tfwatch.terminal.notification import NO_NOTICES
from tfwatch.terminal.output import write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tfwatch.live.script_runs import ScriptRuns
    from tfwatch.runs.control.requests import Requests
    from tfwatch.screens.group import GroupApp
    from tfwatch.terminal.notification import NotifyOptions


def replay_group(
    folder: Path, options: ReplayOptions, show_rank: Callable[[Path], int], clock: Clock
) -> int:
    """Show a group until the user leaves, or print it: as a JSON object, and as text where no screen can be shown.

    show_rank: shows the screen of a rank's run. Returns 0; 1 where a screen or printing fails; 128 + the signal that
    ends it.

    Raises:
        BadInputError: the folder is not a group that can be read.
    """
    try:
        if not options.as_json and not why_no_screen(os.environ):
            return _show(folder, options, show_rank, clock)
        judged = JudgedGroup(open_group(folder, clock))
    except (NotARunError, OSError) as error:
        raise BadInputError(str(error)) from error
    if options.as_json:
        from tfwatch.report.group_report import group_json

        return write(sys.stdout, json.dumps(group_json(judged), indent=1) + "\n")
    from tfwatch.report.group_report import group_text

    return write(sys.stdout, group_text(judged) + "\n")


def _show(
    folder: Path, options: ReplayOptions, show_rank: Callable[[Path], int], clock: Clock
) -> int:
    """Show the group and, one after the other, the ranks that the user opens."""
    from tfwatch.live.groups.history import GroupHistory
    from tfwatch.screens.group import GroupApp, GroupReader, HistoryReader

    def read() -> JudgedGroup:
        return JudgedGroup(open_group(folder, clock))

    reader = GroupReader(read, folder, clock, lambda judged: signs_of(judged.group, clock))
    reader.begin()
    if why_not := reader.wait(SLOW_S):
        raise NotARunError(why_not)
    made, history = list[GroupApp](), HistoryReader(GroupHistory(folder))

    def make(**terminal: Any) -> GroupApp:
        shown: dict[str, Any] = {"goes_back": options.goes_back, "theme": options.theme}
        made.append(GroupApp(reader, made[-1].view if made else None, history, **shown, **terminal))
        return made[-1]

    while True:
        code = show_app(make)
        opened = made[-1].opened if made else None
        if code or opened is None or (code := show_rank(opened)):
            return code


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """The options of `tfwatch replay`.

    run: None is the newest. as_json: print a JSON object and show no screen. notify: the notices that are asked for.
    goes_back: the user opened it from a group's screen or the launcher, and quitting shows that again.
    """

    run: str | None
    runs_dir: Path
    theme: str | None = None
    as_json: bool = False
    notify: NotifyOptions = NO_NOTICES
    goes_back: bool = False


def replay(
    options: ReplayOptions, factories: Factories | None = None, clock: Clock = SYSTEM
) -> int:
    """Show a run until the user leaves, or print it.

    Returns 0; 1 where the screen or printing fails; 128 + the signal that ends it.

    Raises:
        BadInputError: there is no such run, or no screen to show it on.
    """
    try:
        folder = call_and_report(lambda: find_run(options.run, options.runs_dir), options.runs_dir)
        if is_group(folder):

            def show_rank(rank: Path) -> int:
                return show_run(
                    rank,
                    follow_folder(rank, clock),
                    replace(options, goes_back=True),
                    factories,
                    clock,
                )

            return replay_group(folder, options, show_rank, clock)
        run = open_run(folder, clock) if options.as_json else None
        reader = follow_folder(folder, clock)
    except (FileNotFoundError, NotARunError) as error:
        raise BadInputError(str(error)) from error
    except OSError as error:
        raise BadInputError(
            f"{options.runs_dir} cannot be read: {error.strerror or error}"
        ) from error
    if run:
        return _print(run)
    if obstacle := why_no_screen(os.environ):
        raise BadInputError(obstacle.replace("use --headless", "use --json"))
    return show_run(folder, reader, options, factories, clock)


def show_run(
    folder: Path,
    reader: RunReader,
    options: ReplayOptions,
    factories: Factories | None,
    clock: Clock,
    control: Requests | None = None,
    runs: ScriptRuns | None = None,
) -> int:
    """Show the screen of a run. control: of the training, where it goes on in another process; None: read only.

    runs: of the process that trains, where the screen goes on with its next run.
    """
    make_app = (factories or Factories()).app
    run_checkup = make_checkup(options.runs_dir)
    earlier = earlier_of(reader.manifest, folder, clock)
    shown: dict[str, Any] = {
        "theme": options.theme,
        "clock": clock,
        "run_checkup": run_checkup,
        "earlier": earlier,
    }
    shown |= {"is_attached": control is not None, "goes_back": options.goes_back, "runs": runs}
    shown["notifier"] = notifier = Notifier(options.notify, clock=clock)
    code = show_app(lambda **terminal: make_app(reader, control, **shown, **terminal))
    notifier.close()
    return code


def _print(run: Run) -> int:
    from tfwatch.report.document import as_json

    return write(sys.stdout, json.dumps(as_json(run), indent=1) + "\n")
