"""`tfwatch runs goodput`: the time of a training over its restarts."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.commands.evidence.recorded import find, opened, readable
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.live.evidence.training_history import find_training, first_rank, goodput_of
from tfwatch.report.evidence.goodput_report import goodput_json, goodput_lines
from tfwatch.terminal.output import write
from tfwatch.workloads.workload import BadInputError

if TYPE_CHECKING:
    from pathlib import Path

    from tfwatch.runs.opened import Run


@dataclass(frozen=True, slots=True)
class GoodputOptions:
    """The options of `tfwatch runs goodput`. which: a run of the training, or all of them; None is the newest."""

    which: str | None
    runs_dir: Path
    as_json: bool = False


def goodput(options: GoodputOptions, clock: Clock = SYSTEM) -> int:
    """Print the time of a training over its restarts, and return the exit code.

    Raises:
        BadInputError: there is no such run, or it cannot be read.
    """
    runs = _runs(options, clock)
    found, title = goodput_of(runs), runs[-1].manifest.title
    if options.as_json:
        return write(sys.stdout, json.dumps(goodput_json(runs[-1].manifest.workload, found), indent=1) + "\n")
    return write(sys.stdout, "\n".join(goodput_lines(title, found)) + "\n")


def _runs(options: GoodputOptions, clock: Clock) -> list[Run]:
    """Return the runs of the training, the first one first; those that a user names are taken as they are."""
    words = (options.which or "").split(",")
    if len(words) == 1:
        folder = find(options.which, options.runs_dir)
        with readable(folder):
            return find_training(folder, clock)
    folders = [find(word.strip(), options.runs_dir) for word in words if word.strip()]
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise BadInputError("a run is named twice")
    return sorted((_opened(folder, clock) for folder in folders), key=lambda run: run.manifest.origin_wall_ns)


def _opened(folder: Path, clock: Clock) -> Run:
    with readable(folder):
        return opened(first_rank(folder), clock)
