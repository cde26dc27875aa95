"""`tfwatch replay GROUP`: the ranks of a training side by side."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from tfwatch.live.groups.judged_group import JudgedGroup
from tfwatch.runs.groups.reading import open_group
from tfwatch.terminal.output import write

if TYPE_CHECKING:
    from pathlib import Path

    from tfwatch.core.clock import Clock


def replay_group(folder: Path, as_json: bool, clock: Clock) -> int:
    """Print a group: a summary, or one JSON object. Returns 0; 1 where printing fails.

    Raises:
        NotARunError: the folder is no group that can be read.
        OSError: it cannot be read.
    """
    judged = JudgedGroup(open_group(folder, clock))
    if as_json:
        from tfwatch.report.groups.group_document import group_json

        return write(sys.stdout, json.dumps(group_json(judged), indent=1) + "\n")
    from tfwatch.report.groups.group_summary import group_text

    return write(sys.stdout, group_text(judged) + "\n")
