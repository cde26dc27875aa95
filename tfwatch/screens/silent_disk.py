"""A disk that does not respond, as the screens of a run and of a group name it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.config import short_path
from tfwatch.core import units
from tfwatch.judge.findings.finding import Tone
from tfwatch.judge.findings.situation import Banner
from tfwatch.runs.folder import SLOW_S

if TYPE_CHECKING:
    from pathlib import Path

    from tfwatch.runs.folder import RunFolder


def silence_text(silent_s: float) -> str:
    """Return for how long a disk has not responded; empty where it responds in time."""
    return f"the disk has not responded for {units.seconds(silent_s)}" if silent_s >= SLOW_S else ""


def silence_of(folder: Path | None, silent_s: float) -> str:
    """Return the same with the folder, which comes last: its end is what a narrow window cuts."""
    silence = silence_text(silent_s)
    return f"{silence}: {short_path(folder)}" if silence and folder else silence


def silent_disk(disk: RunFolder) -> Banner | None:
    """Return the finding about the disk of a run that cannot be read now; None where the disk
    responds in time."""
    silence = silence_of(disk.folder, disk.silent_s) if disk.folder else ""
    advice = (
        "the figures are those of the last answer; the training goes on by itself, and the keys of"
        " this screen work"
    )
    return Banner("DISK NOT RESPONDING", silence, advice, Tone.WARN) if silence else None
