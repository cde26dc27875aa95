"""The check-up that a screen shows. What it takes is loaded when somebody asks for it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tfwatch.doctor.check import CheckUp
    from tfwatch.doctor.facts import Facts
    from tfwatch.doctor.gather import Scope
    from tfwatch.screens.doctor import Look


def look_at(runs_dir: Path, data: Path | None = None) -> Look:
    """The check-up of this machine, with the folders that a run uses: `data` as `tfwatch train --data` takes it."""

    def look(gently: bool, told: Callable[[str], None]) -> CheckUp:
        from tfwatch.doctor.gather import gather

        return check_up(gather(scope_of(runs_dir, data, gently), told))

    return look


def scope_of(runs_dir: Path, data: Path | None, gently: bool = False) -> Scope:
    """Where to look; data: the folder whose disk is read, None where tfwatch keeps its own images.

    Raises:
        BadInputError: the data folder is not there.
    """
    from tfwatch.doctor.gather import Scope
    from tfwatch.screens.layout import SMALLEST
    from tfwatch.workloads.images import cache_dir
    from tfwatch.workloads.workload import BadInputError

    if data is not None and not os.path.isdir(data):
        raise BadInputError(f"there is no folder {data}")
    return Scope(runs_dir, data or cache_dir(), SMALLEST, gently)


def check_up(facts: Facts) -> CheckUp:
    """What the facts come to."""
    from tfwatch.doctor.check import CheckUp
    from tfwatch.doctor.examine import examine
    from tfwatch.doctor.summary import machine_line

    return CheckUp(machine_line(facts), tuple(examine(facts)))
