"""The machine while a run is followed: its last seconds, energy so far, and growth of memory."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.analysis.findings.hardware.machine import Machine, check_gpu, growth, recent, summarise_machine
from tfwatch.analysis.findings.hardware.memory_course import MemoryCourse, memory_course
from tfwatch.analysis.findings.hardware.strategy_gpus import find_gpus, gpu_lanes, recent_rows
from tfwatch.analysis.findings.starving_cost import Energy, RunningEnergy
from tfwatch.core.events import (
    ExperimentEnded,
    GpuFound,
    GpusFound,
    PipelineSwitched,
    SensorMissing,
    without_experiments,
)
from tfwatch.core.rows import Phase
from tfwatch.runs.liveness import Life

if TYPE_CHECKING:
    from tfwatch.analysis.findings.hardware.machine import Growth
    from tfwatch.core.rows import Rows
    from tfwatch.runs.reader import Snapshot

#: A slope over minutes does not change faster.
_GROWTH_EVERY_S = 10.0
#: Counters of a GPU average over up to a second, and so lag behind a switch.
_LAG_S = 1.0


def _process_memory(snapshot: Snapshot) -> MemoryCourse | None:
    """Return the memory of the training process from the first step on: an import takes less."""
    begin_ns = snapshot.steps["start_ns"][0] if len(snapshot.steps) else 0
    return memory_course(snapshot.samples[snapshot.samples["at_ns"] >= begin_ns])


class MachineFollower:
    """Takes a run's steps and samples in as they come."""

    def __init__(self) -> None:
        self._energy: RunningEnergy | None = None
        self._growth: Growth | None = None
        self._due_s = -math.inf
        self._whole: tuple[int, Machine] | None = None

    def take(self, snapshot: Snapshot, steps: Rows) -> None:
        """Steps that came since the last call, plausible ones."""
        if self._energy is None:
            self._energy = RunningEnergy(snapshot.manifest.accelerated)
        self._energy.add(snapshot.samples, steps)

    def machine(self, snapshot: Snapshot) -> Machine | None:
        """The machine over the last seconds, over the whole run where that has ended; None before a first sample."""
        samples, events = snapshot.samples, snapshot.events
        if not len(samples):
            return None
        words = events.of(GpuFound, GpusFound, SensorMissing)
        if snapshot.life is Life.ENDED:
            if self._whole is None or self._whole[0] != len(samples):
                whole = summarise_machine(samples, words, typical=True)
                gpus = gpu_lanes(snapshot.gpus, find_gpus(words), np.median)
                self._whole = len(samples), replace(whole, process_memory=_process_memory(snapshot), gpus=gpus)
            return self._whole[1]
        if snapshot.now_s >= self._due_s:
            self._due_s = snapshot.now_s + _GROWTH_EVERY_S
            self._growth = growth(samples)
        changes_ns = [switch.at_ns for switch in without_experiments(events.of(PipelineSwitched))]
        changes_ns += [ended.at_ns for ended in events.of(ExperimentEnded)]
        since_s = max(changes_ns) / 1e9 + _LAG_S if changes_ns else 0.0
        machine = summarise_machine(recent(samples, snapshot.now_s), words, self._growth, since_s=since_s)
        return replace(
            machine,
            gpu_check=check_gpu(snapshot.steps, samples, snapshot.now_s, since_s),
            gpus=gpu_lanes(recent_rows(snapshot.gpus, snapshot.now_s), find_gpus(words)),
        )

    def energy(self, snapshot: Snapshot) -> Energy | None:
        """The energy so far; None where no power is read."""
        if self._energy is None:
            return None
        pulse = snapshot.pulse
        waits = pulse is not None and pulse.phase is Phase.WAIT and snapshot.life is Life.RUNNING
        return self._energy.so_far(snapshot.samples, pulse.since_ns / 1e9 if pulse and waits else None)
