"""`tfwatch replay GROUP`: the ranks of a training side by side."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from tfwatch.commands.screen_host import show_app
from tfwatch.live.groups.judged_group import JudgedGroup
from tfwatch.runs.format import NotARunError
from tfwatch.runs.groups.reading import open_group, signs_of
from tfwatch.terminal.capture import why_no_screen
from tfwatch.terminal.output import write
from tfwatch.workloads.workload import BadInputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tfwatch.core.clock import Clock
    from tfwatch.screens.group import GroupApp


def replay_group(folder: Path, as_json: bool, theme: str | None, show_rank: Callable[[Path], int], clock: Clock) -> int:
    """Show a group until the user leaves, or print it: as a JSON object, and as text where no screen can be shown.

    show_rank: shows the screen of a rank's run. Returns 0; 1 where a screen or printing fails; 128 + the signal that
    ends it.

    Raises:
        BadInputError: the folder is not a group that can be read.
    """
    try:
        if not as_json and not why_no_screen(os.environ):
            return _show(folder, theme, show_rank, clock)
        judged = JudgedGroup(open_group(folder, clock))
    except (NotARunError, OSError) as error:
        raise BadInputError(str(error)) from error
    if as_json:
        from tfwatch.report.groups.group_document import group_json

        return write(sys.stdout, json.dumps(group_json(judged), indent=1) + "\n")
    from tfwatch.report.groups.group_summary import group_text

    return write(sys.stdout, group_text(judged) + "\n")


def _show(folder: Path, theme: str | None, show_rank: Callable[[Path], int], clock: Clock) -> int:
    """Show the group and, one after the other, the ranks that the user opens."""
    from tfwatch.live.groups.history import GroupHistory
    from tfwatch.screens.group import SLOW_S, GroupApp, GroupReader
    from tfwatch.screens.group_history import HistoryReader

    def read() -> JudgedGroup:
        return JudgedGroup(open_group(folder, clock))

    reader = GroupReader(read, str(folder), clock, lambda judged: signs_of(judged.group, clock))
    reader.begin()
    if why_not := reader.wait(SLOW_S):
        raise NotARunError(why_not)
    made, history = list[GroupApp](), HistoryReader(GroupHistory(folder))

    def make(**terminal: Any) -> GroupApp:
        made.append(GroupApp(reader, made[-1].view if made else None, history, theme=theme, **terminal))
        return made[-1]

    while True:
        code = show_app(make)
        opened = made[-1].opened if made else None
        if code or opened is None or (code := show_rank(opened)):
            return code
