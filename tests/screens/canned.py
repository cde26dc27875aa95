"""Runs written by hand, with a clock that only the test moves."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import psutil

from tests.runs.folders import reader_of
from tfwatch.core import events as facts
from tfwatch.core.clock import Clock
from tfwatch.core.rows import Flag, Phase
from tfwatch.runs.format import Manifest
from tfwatch.runs.machine_info import boot_id
from tfwatch.runs.run import Run
from tfwatch.runs.snapshot import Snapshot
from tfwatch.runs.writer import RunWriter

WALL_NS = 1_795_169_823_000_000_000
#: Wait, compute and host of a step, ms.
STARVING = (9.6, 13.0, 0.8)
COMPUTE_BOUND = (0.2, 12.9, 0.8)
MODERATE = (1.9, 13.0, 0.8)
IDLE = (1.0, 0.0, 0.0)
Split: TypeAlias = tuple[float, float, float]
Staged: TypeAlias = tuple[str, str, float, float, float, float]
N_A = math.nan
STAGES: tuple[Staged, ...] = (
    ("list, shuffle", "ShuffleDatasetV3", 0.2, 1.0, 1000.0, 1000.0),
    ("map(read)", "Map files", 1.1, 1.0, N_A, N_A),
    ("map(decode)", "Map", 7.7, 1.0, N_A, N_A),
    ("batch(32)", "BatchV2", 0.6, 1.0, N_A, N_A),
)
PREFETCHED: Staged = ("prefetch", "Prefetch", 1.8, N_A, 4.0, 4.0)


class Canned:
    """A run written by hand. Seconds count from its clock origin."""

    def __init__(self, folder: Path | None, **changes: Any) -> None:
        self.at_s = 0.0
        self.clock = Clock(
            now_ns=lambda: round(self.at_s * 1e9),
            wall_ns=lambda: WALL_NS + round(self.at_s * 1e9),
            thread_ns=lambda: 0,
        )
        values: dict[str, Any] = {
            "run": "2026-11-20T10-17-03_cnn",
            "workload": "cnn",
            "origin_ns": 0,
            "origin_wall_ns": WALL_NS,
            "pid": os.getpid(),
            "process_started_s": psutil.Process().create_time(),
            "boot_id": boot_id(),
            "device": "CPU, 2 cores",
            "knobs": {"prefetch": "off", "workers": "off"},
            "switchable": ["prefetch", "workers"],
            "batch_size": 32,
            "epochs": 20,
            "steps_per_epoch": 250,
            "machine": {"host": os.uname().nodename, "cores": 2, "memory_bytes": 16 * 2**30},
        }
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        self.writer = RunWriter(folder, Manifest(**{**values, **changes}), self.clock)
        self.step = 0
        self.epoch = 0
        self._epoch_step = 0
        self._is_diverged = False
        #: The share by which the times of steps differ.
        self.jitter = 0.03
        self._reader: Run | None = None
        self._pipelines: list[tuple[list[str], list[str]]] = []
        #: Makes the columns of a sample from the split of its step; where set, steps are sampled
        #: twice a second.
        self.sensors: Callable[[Split], dict[str, float]] | None = None

    def event(self, kind: type[facts.Event], **values: Any) -> Canned:
        """Write an event now."""
        self._is_diverged = self._is_diverged or kind is facts.LossDiverged
        self.writer.event(kind(at_ns=round(self.at_s * 1e9), **values))
        return self

    def steps(self, count: int, split: Split, flags: int = 0) -> Canned:
        """Write `count` steps, the first with `flags`."""
        for _ in range(count):
            self.step += 1
            self._epoch_step += 1
            wait, compute, host = split
            jitter = 1 + self.jitter * math.sin(self.step * 2.1)
            parts = wait * jitter, compute * 0.3, compute * jitter, host
            self.writer.step(round(self.at_s * 1e9), self.step, self.epoch, flags, *parts)
            self.pass_s((parts[0] + parts[2] + parts[3]) / 1e3, split)
            flags = 0
            self._progress()
        return self

    def lasting(self, seconds: float, split: Split) -> Canned:
        """Write equal steps for so many seconds."""
        return self.steps(round(seconds * 1e3 / sum(split)), split)

    def pass_s(self, seconds: float, split: Split = IDLE) -> Canned:
        """Let time pass, with samples where sensors are set."""
        end_s = self.at_s + seconds
        if self.sensors:
            for half in range(int(self.at_s / 0.5) + 1, int(end_s / 0.5) + 1):
                self.at_s = half * 0.5
                self.sample(**self.sensors(split))
        self.at_s = end_s
        return self

    def _progress(self) -> None:
        if self.step % 25 == 0:
            share = min(1.0, self.step / 2000)
            counts = self.step * 32, self.step, self.epoch, self._epoch_step
            loss = None if self._is_diverged else 2.3 - 2 * share
            self.writer.progress.append((*counts, loss))
            self.writer.flush()

    def begin_epoch(self) -> Canned:
        """Begin the next epoch."""
        self.epoch += 1 if self.step else 0
        self._epoch_step = 0
        return self.event(facts.EpochStarted, epoch=self.epoch, epochs=20, steps=250)

    def switched(self, knob: str, old: str, new: str, by: str = "key") -> Canned:
        """Switch a knob; the next step is the first of the new pipeline."""
        change = {"knob": knob, "old": old, "new": new, "by": by}
        self.event(facts.SwitchAsked, **change, step=self.step)
        return self.event(
            facts.PipelineSwitched, **change, asked_step=self.step, step=self.step + 1, took_ms=21.0
        )

    def doing(self, phase: Phase, since_s: float, detail: str = "") -> Canned:
        """Set the phase of the training thread, which began `since_s` seconds ago."""
        step = self.step + (1 if phase in (Phase.WAIT, Phase.COMPUTE, Phase.COMPILE) else 0)
        self.writer.status = (phase, round((self.at_s - since_s) * 1e9), step, self.epoch, detail)
        return self

    def sample(self, **changes: float) -> Canned:
        """Write a sample of the machine now."""
        values = {
            "cpu_cores": 1.6,
            "process_cores": 1.4,
            "process_bytes": 1.2 * 2**30,
            "memory_used_bytes": 9.8 * 2**30,
            "memory_available_bytes": 6.2 * 2**30,
            "swap_used_bytes": 0.0,
        }
        self.writer.sample(round(self.at_s * 1e9), {**values, **changes})
        return self

    def staged(self, *stages: Staged) -> Canned:
        """Write the stages of tf.data's model now: name, kind, ms/batch, workers, buffered, buffer
        size."""
        at_ns = round(self.at_s * 1e9)
        names, kinds = [stage[0] for stage in stages], [stage[1] for stage in stages]
        if (names, kinds) not in self._pipelines:
            self._pipelines.append((names, kinds))
            self.event(
                facts.StagesFound, pipeline=len(self._pipelines) - 1, names=names, kinds=kinds
            )
        number = self._pipelines.index((names, kinds))
        for n, (_, _, busy_ms, workers, buffered, size) in enumerate(stages):
            elements = 0 if math.isnan(busy_ms) else 40
            figures = (busy_ms, workers, buffered, size, buffered * 2**20, math.nan)
            self.writer.stage(at_ns, number, n, elements, *figures)
        return self

    def started(self) -> Canned:
        """Write the start of the first epoch and the compile."""
        self.at_s = 6.2
        if self.sensors is None:
            self.event(
                facts.SensorMissing,
                sensor="GPU",
                reason="no GPU in this machine",
                fix="none is needed",
            )
        self.begin_epoch()
        self.sample().steps(1, (40.0, 2400.0, 1.0), int(Flag.COMPILE))
        return self.event(facts.Traced, step=self.step, took_ms=2500.0)

    def ended(self, cause: str = "finished", detail: str = "") -> Canned:
        """End the run."""
        self.doing(Phase.ENDED, 0.0)
        return self.event(facts.RunEnded, cause=cause, steps=self.step, detail=detail)

    @property
    def log(self) -> Path:
        """The log of a run with a folder."""
        assert self.writer.folder
        return self.writer.folder / "log.txt"

    def reader(self) -> Run:
        """Return a reader of the run so far."""
        return reader_of(self.writer, self.clock)

    def snapshot(self) -> Snapshot:
        """Return the run's snapshot now."""
        self._reader = self._reader or self.reader()
        self.writer.flush()
        return self._reader.read()


def usual(folder: Path | None, **changes: Any) -> Canned:
    """Make a run that starves until prefetch is switched on."""
    run = Canned(folder, **changes).started().steps(249, STARVING)
    run.event(facts.ValidationEnded, epoch=0, took_ms=300.0)
    run.event(facts.EpochEnded, epoch=0, step=250, metrics={"loss": 1.31, "accuracy": 0.42})
    run.at_s += 0.3
    run.begin_epoch().steps(1, (22.0, 13.0, 0.8), int(Flag.EPOCH_START)).steps(49, STARVING)
    run.switched("prefetch", "off", "4").steps(1, (30.0, 13.0, 0.8), int(Flag.SWITCH)).steps(
        150, COMPUTE_BOUND
    )
    return run.sample().doing(Phase.COMPUTE, 0.004)
