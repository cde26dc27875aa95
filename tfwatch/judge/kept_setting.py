"""The setting that the autopilot has found for the same script in an earlier run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import islice, starmap
from pathlib import Path
from typing import TYPE_CHECKING

from tfwatch.judge.effects.switching_state import autopilot_runs
from tfwatch.judge.effects.wording import estimate_text, setting_text
from tfwatch.runs.folder import RunFolder
from tfwatch.runs.format import NotARunError
from tfwatch.runs.library import list_single_runs
from tfwatch.runs.run import open_run
from tfwatch.runs.sources import read_sources

if TYPE_CHECKING:
    from tfwatch.judge.effects.interval import Estimate

#: The newest runs that are looked at.
_MOST_RUNS = 200


@dataclass(frozen=True, slots=True)
class KeptSetting:
    """The values of knobs that the autopilot kept. run: the name of its run."""

    values: dict[str, str]
    gain: Estimate
    run: str

    @property
    def text(self) -> str:
        """The setting with its gain, and the run that shows it."""
        words = ", ".join(starmap(setting_text, self.values.items()))
        return f"{words}: {estimate_text(self.gain)} in {self.run}"


def find_kept_setting(runs_dir: Path, script: str) -> KeptSetting | None:
    """Return what the autopilot found in the newest finished run of a script that it tuned; None
    where it found nothing faster, or where no such run has the same lines.

    script: its path.

    Raises:
        OSError: the runs or the script cannot be read.
    """
    path = Path(os.path.abspath(script))
    text = path.read_text(encoding="utf-8", errors="replace")
    for folder in islice(list_single_runs(runs_dir), _MOST_RUNS):
        if not _is_of(folder, str(path)) or read_sources(folder).get(path.name) != text:
            continue
        run = open_run(folder)
        tuned = autopilot_runs(run.events)
        if tuned and run.ended and run.ended.cause == "finished":
            gain, kept = tuned[-1].estimate, tuned[-1].kept
            values = {change.knob: change.new for change in kept}
            return KeptSetting(values, gain, folder.name) if gain and values else None
    return None


def _is_of(folder: Path, script: str) -> bool:
    try:
        return RunFolder(folder).manifest().script == script
    except NotARunError:
        return False
