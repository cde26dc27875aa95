"""The memory and disk space of a long run: while it is written and followed, and when it is opened.

    python -m tests.bench.memory [--steps 1000000] [--opened 10000000] [--events 100000]

First a fake training appends steps as fast as it can to a `RunWriter`, followed as the live screen follows it: prints
the process' memory on the way, and the bytes a step on disk. Then opens runs of 20 ms steps with samples and epochs,
each in a process of its own: as replay does, and as `open_run` does; prints seconds, and by how much memory grew.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import psutil

from tfwatch.core import events as facts
from tfwatch.core.clock import SYSTEM
from tfwatch.core.rows import PROGRESS, SAMPLE, STEP, Phase
from tfwatch.live.view import Follower
from tfwatch.runs import format as layout
from tfwatch.runs.create import begin_run
from tfwatch.runs.format import Manifest
from tfwatch.runs.machine_info import boot_id
from tfwatch.runs.reading.opened import open_run
from tfwatch.runs.reading.reader import RunReader
from tfwatch.runs.reading.streams import FolderSource

if TYPE_CHECKING:
    from tfwatch.runs.writer import RunWriter

FRAME_S = 0.25
STEP_MS, STEPS_AN_EPOCH = 20.0, 5000
MEBI = 2**20


def memory_mb() -> float:
    """Return the memory of this process, including mapped files."""
    return float(psutil.Process().memory_info().rss) / MEBI


# -- a run that is written ----------------------------------------------------------------------------


def write_and_follow(steps: int) -> None:
    """Append steps as fast as possible, and print the memory ten times."""
    with tempfile.TemporaryDirectory() as folder:
        writer, _ = begin_run(Path(folder), "fake")
        stop = threading.Event()
        screen = threading.Thread(target=follow, args=(writer, stop))
        screen.start()
        began_s, first_mb = time.perf_counter(), memory_mb()
        for step in range(1, steps + 1):
            append(writer, step)
            if step % max(steps // 10, 1) == 0:
                print(
                    f"{step:>10} steps, {time.perf_counter() - began_s:5.1f} s: {memory_mb():6.1f} MB",
                    flush=True,
                )
        stop.set()
        screen.join()
        writer.close()
        size = (Path(folder) / writer.manifest().run / layout.STEPS).stat().st_size
        print(
            f"{size / steps:g} bytes a step on disk, {memory_mb() - first_mb:+.1f} MB since the first step"
        )


def append(writer: RunWriter, step: int) -> None:
    """Write the rows and events of a step, without a training."""
    now_ns, epoch = writer.now_ns(), step // STEPS_AN_EPOCH
    writer.status = (Phase.WAIT, now_ns, step, epoch, "")
    writer.step(now_ns, step, epoch, 0, 0.1, 0.2, 0.3, 0.1)
    writer.progress.append((32 * step, step, epoch, step % STEPS_AN_EPOCH, 1.0, 0.5))
    if step % STEPS_AN_EPOCH == 0:
        writer.event(facts.EpochEnded(now_ns, epoch - 1, step, {"loss": 1.0, "accuracy": 0.5}))
        writer.event(facts.EpochStarted(now_ns, epoch, 0, None))


def follow(writer: RunWriter, stop: threading.Event) -> None:
    """Read the run as often as the live screen does, with its analysis."""
    reader = RunReader(writer)
    follower = Follower(reader.steps_between, live=True)
    while not stop.wait(FRAME_S):
        follower.follow(reader.tail(), (), None)


# -- a run that is opened -----------------------------------------------------------------------------


def make_run(folder: Path, steps: int, pauses: int) -> None:
    """Write a running run of 20 ms steps, with a sample and a progress row twice a second."""
    manifest = Manifest(
        "long", "fake", 0, SYSTEM.wall_ns(), os.getpid(), psutil.Process().create_time(), boot_id()
    )
    (folder / layout.MANIFEST).write_text(manifest.encode(), encoding="utf-8")
    length_s = steps * STEP_MS / 1e3
    with (folder / layout.STEPS).open("wb") as file:
        for first in range(0, steps, MEBI):
            file.write(make_steps(np.arange(first, min(first + MEBI, steps))).tobytes())
    for name, row in ((layout.SAMPLES, SAMPLE), (layout.PROGRESSES, PROGRESS)):
        rows = np.zeros(int(length_s * 2), dtype=row)
        rows["at_ns"] = np.arange(len(rows)) * 500_000_000
        rows.tofile(folder / name)
    with (folder / layout.EVENTS).open("w", encoding="utf-8") as file:
        for event in make_events(steps, pauses):
            file.write(facts.encode(event).decode() + "\n")


def make_steps(
    number: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """Return plain rows; `number` counts from 0."""
    rows = np.zeros(len(number), dtype=STEP)
    rows["start_ns"], rows["step"] = number * int(STEP_MS * 1e6), number + 1
    rows["epoch"] = number // STEPS_AN_EPOCH & 0xFFFF
    rows["wait_ms"], rows["dispatch_ms"], rows["compute_ms"], rows["host_ms"] = 4.0, 3.0, 15.0, 1.0
    return rows


def make_events(steps: int, pauses: int) -> deque[facts.Event]:
    """Return the epochs and pauses of a run, in order of time."""
    found: list[facts.Event] = []
    for epoch in range(-(-steps // STEPS_AN_EPOCH)):
        at_ns = int(epoch * STEPS_AN_EPOCH * STEP_MS * 1e6)
        found.append(facts.EpochStarted(at_ns, epoch, 0, STEPS_AN_EPOCH))
        end_ns = at_ns + int((STEPS_AN_EPOCH - 1) * STEP_MS * 1e6)
        figures = {"loss": 1.0, "accuracy": 0.5}
        found.append(facts.EpochEnded(end_ns, epoch, (epoch + 1) * STEPS_AN_EPOCH, figures))
    for n in range(pauses):
        at_ns = int(steps * STEP_MS * 1e6 * n / pauses)
        found.append(facts.Paused(at_ns, "callback", 250.0, "CSVLogger"))
    return deque(sorted(found, key=lambda event: event.at_ns))


def open_as(what: str, folder: Path) -> None:
    """Open a run in this process and print time and memory."""
    before_mb, began_s, began_cpu_s = memory_mb(), time.perf_counter(), time.process_time()
    if what == "replay":
        reader = RunReader(FolderSource(folder))
        snapshot = reader.tail()
        count = snapshot.steps_total
    else:
        run = open_run(folder)
        count = len(run.steps)
    took = (
        f"{time.perf_counter() - began_s:.2f} s ({time.process_time() - began_cpu_s:.2f} s of CPU)"
    )
    print(
        f"{what:>8}: {count} steps in {took}, memory {memory_mb() - before_mb:+.0f} MB", flush=True
    )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="the memory and disk space of a long run")
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--opened", type=int, default=10_000_000)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        open_as(options.child[0], Path(options.child[1]))
        return
    write_and_follow(options.steps)
    for steps, pauses in ((1000, 0), (options.opened, 0), (options.opened, options.events)):
        with tempfile.TemporaryDirectory() as folder:
            make_run(Path(folder), steps, pauses)
            print(f"a run of {steps} steps and {pauses} pauses, opened", flush=True)
            for what in ("replay", "open_run"):
                subprocess.run(
                    [sys.executable, "-m", "tests.bench.memory", "--child", what, folder],
                    check=True,
                )


if __name__ == "__main__":
    main()
