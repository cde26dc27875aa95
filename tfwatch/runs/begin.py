"""Begins a run: makes its folder and the writer that fills it."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import psutil

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.runs.container import limits
from tfwatch.runs.format import Manifest
from tfwatch.runs.library import make_run_dir
from tfwatch.runs.machine import boot_id, describe_machine
from tfwatch.runs.writer import RunWriter

if TYPE_CHECKING:
    from pathlib import Path

_PACKAGES = ("tfwatch", "tensorflow", "keras", "tensorflow-metal", "numpy")


class NotBegunError(RuntimeError):
    """The system gives no thread to write with; the message is Python's."""


def begin_run(runs_dir: Path, workload: str, clock: Clock = SYSTEM, **details: Any) -> tuple[RunWriter, str]:
    """Make a run's folder and start its writer; `details` are further fields of the manifest.

    Returns the writer and why nothing is recorded: empty where it is. Without a folder the rows are kept in memory.

    Raises:
        NotBegunError: there is no thread to write with; the folder tells that the run failed.
    """
    reason, folder = "", None
    try:
        folder = make_run_dir(runs_dir, workload, clock)
    except OSError as error:
        reason = f"{runs_dir} cannot be written: {error.strerror or error}"
    machine = describe_machine()
    manifest = Manifest(
        run=folder.name if folder else f"{clock.stamp()}_{workload}",
        workload=workload,
        origin_ns=clock.now_ns(),
        origin_wall_ns=clock.wall_ns(),
        pid=os.getpid(),
        process_started_s=psutil.Process().create_time(),
        boot_id=boot_id(),
        versions=_versions(),
        machine=machine,
        **details,
    )
    writer = RunWriter(folder, manifest, clock)
    if reason:
        writer.note(f"nothing is recorded: {reason}")
    if allowed := limits().words(machine["cores"], machine["memory_bytes"]):
        writer.note(f"this process may use {allowed}")
    try:
        writer.start()
    except RuntimeError as error:
        writer.end("failed", f"it never began: {error}")
        writer.close()
        raise NotBegunError(str(error)) from error
    return writer, reason


def _versions() -> dict[str, str]:
    """Versions of what matters, read from package metadata: importing TensorFlow takes seconds."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found
