"""Begins a run: makes its folder and the writer that fills it."""

from __future__ import annotations

import os
import platform
import threading
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import psutil

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import fails_open
from tfwatch.core.errors import reason as in_words
from tfwatch.runs.format import Manifest
from tfwatch.runs.library import make_run_dir
from tfwatch.runs.machine_info import boot_id, describe_machine, limits
from tfwatch.runs.writer import BEGIN_S, RunWriter

if TYPE_CHECKING:
    from pathlib import Path

_PACKAGES = ("tfwatch", "tensorflow", "keras", "tensorflow-metal", "numpy")


class NotBegunError(RuntimeError):
    """The system gives no thread to write with; the message is Python's."""


def begin_run(runs_dir: Path, workload: str, clock: Clock = SYSTEM, **details: Any) -> tuple[RunWriter, str]:
    """Make a run's folder and start its writer; `details` are further fields of the manifest.

    Returns the writer and why nothing is recorded: empty where it is. Without a folder the rows are kept in memory; a
    disk that does not answer within `writer.BEGIN_S` is not waited for, and what is in memory is recorded once it does.

    Raises:
        NotBegunError: there is no thread to write with; the folder tells that the run failed.
    """
    machine = describe_machine()
    manifest = Manifest(
        run=f"{clock.stamp()}_{workload}",
        workload=workload,
        origin_ns=clock.now_ns(),
        origin_wall_ns=clock.wall_ns(),
        pid=os.getpid(),
        process_started_s=psutil.Process().create_time(),
        boot_id=boot_id(),
        machine=machine,
        **details,
    )
    writer = RunWriter(None, manifest, clock)
    reason = _give_folder(writer, runs_dir)
    if allowed := limits().words(machine["cores"], machine["memory_bytes"]):
        writer.note(f"this process may use {allowed}")
    try:
        if not writer.start():
            reason = reason or _late(writer, runs_dir)
        elif writer.lost:
            reason = f"{runs_dir} cannot be written: {writer.lost.reason}"
    except RuntimeError as error:
        writer.end("failed", f"it never began: {error}")
        writer.close()
        raise NotBegunError(str(error)) from error
    return writer, reason


def _give_folder(writer: RunWriter, runs_dir: Path) -> str:
    """Make a folder and give it to the writer, at once or when the disk answers. Returns why it has none yet."""
    failures: list[str] = []

    def fail(why: str) -> None:
        failures.append(why)
        writer.note(f"nothing is recorded: {why}")

    def give() -> None:
        with fails_open(fail, lambda error: _refusal(error, runs_dir)):
            writer.describe(versions=_versions())  # looks into the folders of sys.path: the script's is one
            folder = make_run_dir(runs_dir, writer.manifest().workload, writer.clock)
            writer.describe(run=folder.name)
            writer.adopt(folder)

    giving = threading.Thread(target=give, name="tfwatch-folder", daemon=True)
    try:
        giving.start()
    except RuntimeError:  # then nothing can begin: the folder is to say so
        give()
    else:
        giving.join(BEGIN_S)
    return failures[0] if failures else "" if writer.folder else _late(writer, runs_dir)


def _refusal(error: Exception, runs_dir: Path) -> str:
    if isinstance(error, OSError):
        return f"{runs_dir} cannot be written: {error.strerror or error}"
    return in_words(error)


def _late(writer: RunWriter, runs_dir: Path) -> str:
    reason = f"{runs_dir} did not answer within {BEGIN_S:g} s: what comes is kept in memory until it does"
    writer.note(f"nothing is recorded: {reason}")
    return reason


def _versions() -> dict[str, str]:
    """Versions of what matters, read from package metadata: importing TensorFlow takes seconds."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found
