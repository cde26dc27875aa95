"""`tfwatch replay`: a run or a group in the screen it was trained in, read only; one still written
is followed."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tfwatch.cli import options
from tfwatch.cli.factories import Factories, make_checkup
from tfwatch.cli.named_runs import readable
from tfwatch.cli.screen_host import show_app
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import BadInputError
from tfwatch.notices import NO_NOTICES
from tfwatch.runs.group import is_group, open_group, signs_of
from tfwatch.runs.library.finding import find_run
from tfwatch.runs.reading.disk_call import SLOW_S, call_and_report
from tfwatch.runs.reading.reader import RunReader, follow_folder
from tfwatch.terminal.capture import why_no_screen

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tfwatch.judge.groups.judged_group import JudgedGroup
    from tfwatch.judge.script_runs import ScriptRuns
    from tfwatch.notices import NotifyOptions
    from tfwatch.runs.requests import RequestSender


def add_replay(commands: Any, text: str) -> None:
    """Add the command's parser. text: its help."""
    replay = options.add_command(commands, "replay", text, _run_replay)
    replay.add_argument("which", metavar="RUN", nargs="?", help=f"{options.RUN} (the default)")
    replay.add_argument(
        "--goes-back", action="store_true", help=argparse.SUPPRESS
    )  # for the launcher
    options.add_runs_dir(replay)
    options.add_theme(replay)
    options.add_notify(replay)


def _run_replay(args: argparse.Namespace) -> int:
    theme, notices = options.of_config(args, "theme"), options.notify(args)
    return replay(ReplayOptions(args.which, options.runs_dir(args), theme, notices, args.goes_back))


def replay_group(
    folder: Path, options: ReplayOptions, show_rank: Callable[[Path], int], clock: Clock
) -> int:
    """Show a group and, one after the other, the ranks that the user opens, until the user leaves.

    show_rank: shows the screen of a rank's run. Returns 0; 1 where a screen fails; 128 + the signal
    that ends it.

    Raises:
        BadInputError: the folder is not a group that can be read, or there is no screen to show it
        on.
    """
    from tfwatch.judge.groups.judged_group import JudgedGroup
    from tfwatch.screens.group import GroupApp, GroupReader

    check_screen()

    def read() -> JudgedGroup:
        return JudgedGroup(open_group(folder, clock))

    reader = GroupReader(read, folder, clock, lambda judged: signs_of(judged.group, clock))
    reader.begin()
    if why_not := reader.wait(SLOW_S):
        raise BadInputError(why_not)
    made = list[GroupApp]()

    def make(**terminal: Any) -> GroupApp:
        shown: dict[str, Any] = {"goes_back": options.goes_back, "theme": options.theme}
        made.append(GroupApp(reader, made[-1].chosen if made else None, **shown, **terminal))
        return made[-1]

    while True:
        code = show_app(make)
        opened = made[-1].opened if made else None
        if code or opened is None or (code := show_rank(opened)):
            return code


def check_screen() -> None:
    """Check that there is a screen to show a run on.

    Raises:
        BadInputError: there is none.
    """
    if obstacle := why_no_screen(os.environ):
        raise BadInputError(obstacle.replace("use --headless", "use tfwatch report"))


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """The options of `tfwatch replay`.

    run: None is the newest. notify: the notices that are asked for. goes_back: the user opened it
    from a group's screen or the launcher, and quitting shows that again.
    """

    run: str | None
    runs_dir: Path
    theme: str | None = None
    notify: NotifyOptions = NO_NOTICES
    goes_back: bool = False


def replay(
    options: ReplayOptions, factories: Factories | None = None, clock: Clock = SYSTEM
) -> int:
    """Show a run until the user leaves.

    Returns 0; 1 where the screen fails; 128 + the signal that ends it.

    Raises:
        BadInputError: there is no such run, or no screen to show it on.
    """

    def show_rank(rank: Path) -> int:
        reader = follow_folder(rank, clock)
        return show_run(rank, reader, replace(options, goes_back=True), factories, clock)

    with readable(options.runs_dir):
        folder = call_and_report(lambda: find_run(options.run, options.runs_dir), options.runs_dir)
        if is_group(folder):
            return replay_group(folder, options, show_rank, clock)
        reader = follow_folder(folder, clock)
    check_screen()
    return show_run(folder, reader, options, factories, clock)


def show_run(
    folder: Path,
    reader: RunReader,
    options: ReplayOptions,
    factories: Factories | None,
    clock: Clock,
    requests: RequestSender | None = None,
    runs: ScriptRuns | None = None,
) -> int:
    """Show the screen of a run. requests: to the training, where it goes on in another process;
    None: read only.

    runs: of the process that trains, where the screen goes on with its next run.
    """
    from tfwatch.notices import Notifier
    from tfwatch.tuner.thread import Tuner

    make_app = (factories or Factories()).app
    run_checkup = make_checkup(options.runs_dir)
    shown: dict[str, Any] = {
        "theme": options.theme,
        "clock": clock,
        "run_checkup": run_checkup,
    }
    shown |= {"is_attached": requests is not None, "goes_back": options.goes_back, "runs": runs}
    shown["notifier"] = notifier = Notifier(options.notify)
    tuner = Tuner(lambda: runs.folder if runs else folder, clock) if requests else None
    code = show_app(lambda **terminal: make_app(reader, requests, tuner=tuner, **shown, **terminal))
    if tuner:
        tuner.close()
    notifier.close()
    return code
