"""`tfwatch replay` and `attach`: the live screen of a run or a group that another process records,
read only, or with the keys of its training."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tfwatch.cli import options
from tfwatch.cli.named_runs import find_training, readable
from tfwatch.cli.screen_host import make_checkup, show_app
from tfwatch.core.errors import BadInputError
from tfwatch.notices import Notifier
from tfwatch.runs.folder import SLOW_S, call_and_report
from tfwatch.runs.format import NotARunError
from tfwatch.runs.group import is_group, open_group, without_group
from tfwatch.runs.library import find_run
from tfwatch.runs.requests import RequestSender
from tfwatch.runs.run import follow_folder
from tfwatch.runs.script_process import ProcessRuns
from tfwatch.terminal.output import why_no_screen

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from tfwatch.app import TfwatchApp
    from tfwatch.runs.run import Run


def replay(args: argparse.Namespace) -> int:
    """Show a run until the user leaves.

    Returns 0; 1 where the screen fails; 128 + the signal that ends it.

    Raises:
        BadInputError: there is no such run, or no screen to show it on.
    """
    with readable(args.runs_dir):
        folder = call_and_report(
            lambda: without_group(find_run(args.which, args.runs_dir)), args.runs_dir
        )
        if is_group(folder):
            return show_group(folder, args.theme)
        reader = follow_folder(folder)
    _check_screen("tfwatch report")
    return show_run(args, reader)


def attach(args: argparse.Namespace) -> int:
    """Show a training, and those that its process begins afterwards, until the user leaves.

    Returns 0; 1 where the screen fails; 128 + the signal that ends it. The training goes on in each
    case, unless the user stopped it.

    Raises:
        BadInputError: there is no such training, or no screen to show it on.
    """
    from tfwatch.judge.script_runs import ScriptRuns
    from tfwatch.tuner.client import Tuner

    folder = call_and_report(lambda: find_training(args.which, args.runs_dir), args.runs_dir)
    _check_screen("tfwatch set, or tfwatch report --json")
    runs = None
    with suppress(NotARunError, OSError):
        runs = ScriptRuns(ProcessRuns(folder).take)
    reader = (runs and runs.next_reader()) or follow_folder(folder)
    tuner = Tuner(lambda: runs.folder if runs else folder)
    try:
        requests = RequestSender(folder)
        return show_run(args, reader, requests, runs=runs, tuner=tuner, is_attached=True)
    finally:
        tuner.close()


def show_group(group: Path, theme: str | None) -> int:
    """Show a group until the user leaves. Returns as `replay`.

    Raises:
        BadInputError: the folder is not a group that can be read, or there is no screen to show it
        on.
    """
    from tfwatch.judge.groups.judged_group import judge_group
    from tfwatch.screens.group import GroupApp, GroupReader

    _check_screen("tfwatch report")
    reader = GroupReader(lambda: judge_group(open_group(group)), group)
    reader.begin()
    if why_not := reader.wait(SLOW_S):
        raise BadInputError(why_not)
    return show_app(lambda **terminal: GroupApp(reader, theme=theme, **terminal))


def _check_screen(instead: str) -> None:
    """Check that there is a screen to show a run on. instead: the command for where there is none.

    Raises:
        BadInputError: there is none.
    """
    if obstacle := why_no_screen(os.environ):
        raise BadInputError(obstacle.replace("use --headless", f"use {instead}"))


def show_run(
    args: argparse.Namespace,
    reader: Run,
    requests: RequestSender | None = None,
    **attached: Any,
) -> int:
    """Show the screen of a run. requests: to the training, where it goes on in another process;
    None: read only. attached: what else the screen has of that process."""
    notifier = Notifier(options.notify(args))
    given: dict[str, Any] = {
        "theme": args.theme,
        "run_checkup": make_checkup(args.runs_dir),
        "notifier": notifier,
        **attached,
    }

    def make(**terminal: Any) -> TfwatchApp:
        from tfwatch.app import TfwatchApp

        return TfwatchApp(reader, requests, **given, **terminal)

    try:
        return show_app(make)
    finally:
        notifier.close()
