"""The check-up that a screen shows. What it takes is loaded when somebody asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tfwatch.doctor.check import CheckUp
    from tfwatch.screens.doctor import Look


def look_at(runs_dir: Path, data: Path | None = None) -> Look:
    """The check-up of this machine, with the folders that a run uses: `data` as `tfwatch train --data` takes it."""

    def look(gently: bool, told: Callable[[str], None]) -> CheckUp:
        from tfwatch.commands.doctor import Wish, check_up, scope_of
        from tfwatch.doctor.gather import gather

        return check_up(gather(scope_of(Wish(runs_dir, data), gently), told))

    return look
