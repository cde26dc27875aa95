"""`tfwatch replay GROUP`: the ranks of a training side by side."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from tfwatch.commands.screen_host import show_app
from tfwatch.live.groups.judged_group import JudgedGroup
from tfwatch.runs.groups.reading import open_group
from tfwatch.terminal.capture import why_no_screen
from tfwatch.terminal.output import write

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
        NotARunError: the folder is no group that can be read.
        OSError: it cannot be read.
    """
    judged = JudgedGroup(open_group(folder, clock))
    if as_json:
        from tfwatch.report.groups.group_document import group_json

        return write(sys.stdout, json.dumps(group_json(judged), indent=1) + "\n")
    if why_no_screen(os.environ):
        from tfwatch.report.groups.group_summary import group_text

        return write(sys.stdout, group_text(judged) + "\n")
    return _show(folder, theme, show_rank, clock)


def _show(folder: Path, theme: str | None, show_rank: Callable[[Path], int], clock: Clock) -> int:
    """Show the group and, one after the other, the ranks that the user opens."""
    from tfwatch.screens.group import GroupApp, GroupReader

    reader = GroupReader(lambda: JudgedGroup(open_group(folder, clock)), clock)
    made: list[GroupApp] = []

    def make(**terminal: Any) -> GroupApp:
        made.append(GroupApp(reader, theme=theme, **terminal))
        return made[-1]

    while True:
        code = show_app(make)
        rank = made[-1].opened if made else None
        if code or rank is None:
            return code
        opened = open_group(folder, clock).ranks[rank].path
        if opened and (code := show_rank(opened)):
            return code
