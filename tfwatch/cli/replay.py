"""`tfwatch replay` and `attach`: the live screen of a run or a group that another process records,
read only, or with the keys of its training."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tfwatch.cli import options
from tfwatch.cli.named_runs import find_training, readable
from tfwatch.cli.screen_host import make_app, make_checkup, show_app
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import BadInputError
from tfwatch.notices import NO_NOTICES, Notifier
from tfwatch.runs.folder import SLOW_S, call_and_report
from tfwatch.runs.format import NotARunError
from tfwatch.runs.group import is_group, open_group
from tfwatch.runs.library import find_run
from tfwatch.runs.requests import RequestSender
from tfwatch.runs.run import Run, follow_folder
from tfwatch.runs.script_process import ProcessRuns
from tfwatch.terminal.output import why_no_screen

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from tfwatch.judge.script_runs import ScriptRuns
    from tfwatch.notices import NotifyOptions


@dataclass(frozen=True, slots=True)
class Shown:
    """The settings of the screen that shows runs.

    notify: the notices that are asked for.
    """

    runs_dir: Path
    theme: str | None = None
    notify: NotifyOptions = NO_NOTICES
    clock: Clock = SYSTEM


def replay(args: argparse.Namespace) -> int:
    """Show a run until the user leaves.

    Returns 0; 1 where the screen fails; 128 + the signal that ends it.

    Raises:
        BadInputError: there is no such run, or no screen to show it on.
    """
    return show_recorded(args.which, Shown(args.runs_dir, args.theme, options.notify(args)))


def show_recorded(which: str | None, shown: Shown) -> int:
    """As `replay`. which: None is the newest run."""

    with readable(shown.runs_dir):
        folder = call_and_report(lambda: find_run(which, shown.runs_dir), shown.runs_dir)
        if is_group(folder):
            return show_group(folder, shown)
        reader = follow_folder(folder, shown.clock)
    check_screen("tfwatch report")
    return show_run(folder, reader, shown)


def attach(args: argparse.Namespace) -> int:
    """Show a training, and those that its process begins afterwards, until the user leaves.

    Returns 0; 1 where the screen fails; 128 + the signal that ends it. The training goes on in each
    case, unless the user stopped it.

    Raises:
        BadInputError: there is no such training, or no screen to show it on.
    """
    return show_training(args.which, Shown(args.runs_dir, args.theme, options.notify(args)))


def show_training(which: str | None, shown: Shown) -> int:
    """As `attach`. which: None is the newest run that trains."""
    folder = call_and_report(lambda: find_training(which, shown.runs_dir), shown.runs_dir)
    check_screen("tfwatch set, or tfwatch report --json")
    return _show_with_keys(folder, shown)


def _show_with_keys(folder: Path, shown: Shown) -> int:
    from tfwatch.judge.script_runs import ScriptRuns

    runs = None
    with suppress(NotARunError, OSError):
        runs = ScriptRuns(ProcessRuns(folder, shown.clock), shown.clock)
    reader = (runs and runs.next_reader()) or follow_folder(folder, shown.clock)
    return show_run(folder, reader, shown, RequestSender(lambda: folder), runs)


def show_group(group: Path, shown: Shown) -> int:
    """Show a group until the user leaves. Returns as `replay`.

    Raises:
        BadInputError: the folder is not a group that can be read, or there is no screen to show it
        on.
    """
    from tfwatch.judge.groups.judged_group import JudgedGroup, judge_group
    from tfwatch.screens.group import GroupApp, GroupReader

    check_screen("tfwatch report")

    def read() -> JudgedGroup:
        return judge_group(open_group(group, shown.clock))

    reader = GroupReader(read, group, shown.clock)
    reader.begin()
    if why_not := reader.wait(SLOW_S):
        raise BadInputError(why_not)
    return show_app(lambda **terminal: GroupApp(reader, theme=shown.theme, **terminal))


def check_screen(instead: str) -> None:
    """Check that there is a screen to show a run on. instead: the command for where there is none.

    Raises:
        BadInputError: there is none.
    """
    if obstacle := why_no_screen(os.environ):
        raise BadInputError(obstacle.replace("use --headless", f"use {instead}"))


def show_run(
    folder: Path,
    reader: Run,
    shown: Shown,
    requests: RequestSender | None = None,
    runs: ScriptRuns | None = None,
) -> int:
    """Show the screen of a run. requests: to the training, where it goes on in another process;
    None: read only.

    runs: of the process that trains, where the screen goes on with its next run.
    """
    from tfwatch.tuner.thread import Tuner

    notifier = Notifier(shown.notify)
    tuner = Tuner(lambda: runs.folder if runs else folder, shown.clock) if requests else None
    given: dict[str, Any] = {
        "theme": shown.theme,
        "clock": shown.clock,
        "run_checkup": make_checkup(shown.runs_dir),
        "is_attached": requests is not None,
        "runs": runs,
        "notifier": notifier,
        "tuner": tuner,
    }
    code = show_app(lambda **terminal: make_app(reader, requests, **given, **terminal))
    if tuner:
        tuner.close()
    notifier.close()
    return code
