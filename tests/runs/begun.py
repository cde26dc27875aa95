"""A run that has begun, as a session begins one."""

from pathlib import Path
from typing import Any

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.runs import create
from tfwatch.runs.create import make_folder, make_writer
from tfwatch.runs.writer import RunWriter


def begin_run(
    runs_dir: Path, workload: str, clock: Clock = SYSTEM, **details: Any
) -> tuple[RunWriter, str]:
    """Return a writer that runs, and why it has no folder, or none yet; `details` are fields of the
    manifest."""
    writer = make_writer(workload, clock, **details)
    reason = make_folder(writer, runs_dir)
    writer.start()
    return writer, reason or _why_not_recorded(writer, runs_dir)


def _why_not_recorded(writer: RunWriter, runs_dir: Path) -> str:
    """Wait for the first flush; return why nothing is recorded, empty where it is."""
    if not writer.wait_until_begun():
        return create._report_delay(writer, runs_dir)
    return f"{runs_dir} cannot be written: {writer.lost.reason}" if writer.lost else ""
