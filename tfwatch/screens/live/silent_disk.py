"""The finding about a disk that does not respond, in place of a run's own, or beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tfwatch.analysis.findings.situation import Banner, Tone
from tfwatch.core import units
from tfwatch.terminal.guard import short_path

if TYPE_CHECKING:
    from tfwatch.runs.reading.patient_source import PatientSource

#: A disk that is silent for longer is reported.
SLOW_S = 3.0


def silent_disk(disk: PatientSource | None) -> Banner | None:
    """Return the finding about the disk of a run that cannot be read now; None where the disk responds in time."""
    if disk is None or disk.silent_s < SLOW_S or disk.folder is None:
        return None
    sentence = f"{short_path(disk.folder)} has not responded for {units.seconds(disk.silent_s)}"
    advice = (
        "the figures are those of the last answer; the training goes on by itself, and the keys of this screen work"
    )
    return Banner("DISK NOT RESPONDING", sentence, advice, Tone.WARN)


def beside(finding: Banner, disk: PatientSource | None) -> Banner:
    """Return the finding of a run that is read from memory, with the state of its disk."""
    found = silent_disk(disk)
    if found is None:
        return finding
    return replace(finding, advice=f"NOT RECORDED now: {found.sentence}; training goes on")
