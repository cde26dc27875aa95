"""Begins a run: makes its writer, and its folder."""

from __future__ import annotations

import os
import platform
import sys
import threading
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import psutil

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import fails_open
from tfwatch.core.errors import reason as error_text
from tfwatch.runs.format import Manifest
from tfwatch.runs.group import find_membership, join
from tfwatch.runs.library import make_run_dir
from tfwatch.runs.machine_info import boot_id, describe_machine
from tfwatch.runs.sources import record_sources, script_file
from tfwatch.runs.writer import BEGIN_S, RunWriter

if TYPE_CHECKING:
    from pathlib import Path

_PACKAGES = ("tfwatch", "tensorflow", "keras", "tensorflow-metal", "numpy")


def make_writer(
    workload: str, clock: Clock = SYSTEM, begun_ns: int | None = None, **details: Any
) -> RunWriter:
    """Return a writer that keeps its rows in memory until it has a folder; takes 0.1 ms.

    begun_ns: the clock's time at which the run began; None is now.
    """
    now_ns = clock.now_ns()
    origin_ns = now_ns if begun_ns is None else begun_ns
    manifest = Manifest(
        run=f"{clock.stamp()}_{workload}",
        workload=workload,
        origin_ns=origin_ns,
        origin_wall_ns=clock.wall_ns() - (now_ns - origin_ns),
        pid=os.getpid(),
        process_started_s=0.0,
        boot_id="",
        **details,
    )
    return RunWriter(None, manifest, clock)


def make_folder(writer: RunWriter, runs_dir: Path) -> str:
    """Complete the manifest and create the run's folder; return why there is none, or none yet."""
    with fails_open(lambda _: None):  # the working directory of a relative path may be gone
        writer.describe(script=script_file())
    writer.describe(
        machine=describe_machine(),
        process_started_s=psutil.Process().create_time(),
        boot_id=boot_id(),
    )
    return _create_folder(writer, runs_dir)


def _create_folder(writer: RunWriter, runs_dir: Path) -> str:
    """Create a folder for the writer, now or when the disk responds; return why there is none
    yet."""
    failures: list[str] = []
    is_over = threading.Event()

    def fail(why: str) -> None:
        failures.append(why)
        writer.note(f"nothing is recorded: {why}")

    def make() -> None:
        try:
            with fails_open(fail, lambda error: _refusal(error, runs_dir)):
                writer.describe(versions=_versions())  # reads sys.path, with the script's folder
                writer.adopt(_make_run_dir(writer, runs_dir))
        finally:
            is_over.set()
        if writer.folder:
            with fails_open(lambda _: None):  # runs are compared without it too
                record_sources(writer.folder, writer.manifest().process_started_s)

    maker = threading.Thread(target=make, name="tfwatch-folder", daemon=True)
    try:
        maker.start()
    except RuntimeError:  # the run cannot begin, and the folder must record that
        make()
    is_over.wait(BEGIN_S)
    return failures[0] if failures else "" if writer.folder else _report_delay(writer, runs_dir)


def _make_run_dir(writer: RunWriter, runs_dir: Path) -> Path:
    """Create the folder of a run, below that of its group where the process is a rank of one."""
    membership = find_membership(os.environ, os.uname().nodename)
    if membership is None:
        folder = make_run_dir(runs_dir, writer.manifest().workload, writer.clock)
        writer.describe(run=folder.name)
        return folder
    joined = join(runs_dir, membership, writer.manifest().process_started_s, writer.clock)
    folder, group = joined.folder, joined.folder.parent.name
    writer.describe(
        run=f"{group}/{folder.name}", group=group, rank=joined.rank, group_size=membership.size
    )
    return folder


def _refusal(error: Exception, runs_dir: Path) -> str:
    if isinstance(error, OSError):
        return f"{runs_dir} cannot be written: {error.strerror or error}"
    return error_text(error)


def _report_delay(writer: RunWriter, runs_dir: Path) -> str:
    reason = (
        f"{runs_dir} did not respond within {BEGIN_S:g} s; rows are kept in memory until it does"
    )
    writer.note(f"nothing is recorded: {reason}")
    return reason


def _versions() -> dict[str, str]:
    """Return the versions of packages: those that are imported know theirs, whichever build they
    are, and importing TensorFlow takes seconds."""
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            loaded = getattr(sys.modules.get(package), "__version__", "")
            versions[package] = str(loaded) or version(package)
    return versions
