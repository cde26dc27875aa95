"""A simulated run of ten hours: 720 000 steps, 500 epochs, 40 stalls and 30 switches.

    python -m tests.bench.ten_hours FOLDER

The writer of the program makes its folder, over a clock that the maker moves, with an older run of
the same workload beside it. It takes ten seconds.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from tests.screens.hardware import nvidia
from tfwatch.core import events as facts
from tfwatch.core.clock import Clock
from tfwatch.core.rows import Flag, Phase
from tfwatch.runs.format import Manifest
from tfwatch.runs.machine_info import boot_id
from tfwatch.runs.writer import RunWriter

if TYPE_CHECKING:
    from tests.screens.canned import Split

WALL_NS = 1_795_169_823_000_000_000
_GIB = 2**30
#: Wait, compute and host of a step, ms, by the value of prefetch.
_SPLITS = {
    "off": (21.0, 37.0, 2.0),
    "2": (3.5, 37.0, 2.0),
    "4": (0.6, 37.5, 2.0),
    "8": (0.5, 37.6, 2.0),
}
#: Every so many seconds of the run the writer flushes; its progress has a row then.
_FLUSH_S = 10.0
_SAMPLE_S = 0.5


@dataclass(frozen=True, slots=True)
class Plan:
    """The size of a simulated run. shuffle_every: epochs from one stall of its shuffle buffer to
    the next.

    speed: of its steps, compared with the usual one.
    """

    epochs: int = 500
    epoch_steps: int = 1440
    stalls: int = 40
    switches: int = 30
    shuffle_every: int = 40
    speed: float = 1.0
    seed: int = 7

    @property
    def steps(self) -> int:
        """The number of all steps."""
        return self.epochs * self.epoch_steps


TEN_MILLION = Plan(epochs=2000, epoch_steps=5000, stalls=200, switches=100)
SHORT = Plan(epochs=4, epoch_steps=360, stalls=1, switches=1)


class LongRun:
    """Writes a run of a plan by the program's own writer, over a clock that it moves."""

    def __init__(self, folder: Path | None, plan: Plan, began_s: float = 0.0) -> None:
        self.at_s = 5.0
        self.step = 0
        self.plan = plan
        wall_ns = WALL_NS + round(began_s * 1e9)
        self.clock = Clock(
            now_ns=lambda: round(self.at_s * 1e9),
            wall_ns=lambda: wall_ns + round(self.at_s * 1e9),
            thread_ns=time.thread_time_ns,
        )
        if folder:
            folder.mkdir(parents=True)
        self.writer = RunWriter(folder, _manifest(plan, wall_ns), self.clock)
        self._random = random.Random(plan.seed)
        self._split = _SPLITS["off"]
        self._setting = "off"
        self._sensors = nvidia(gpu_power_w=310.0)
        self._sampled_s = self._flushed_s = 0.0
        chosen = self._random.sample(
            range(plan.epoch_steps, plan.steps), plan.stalls + plan.switches
        )
        periodic = range(plan.shuffle_every, plan.epochs, plan.shuffle_every)
        self._shuffles = (
            {epoch * plan.epoch_steps + 1 for epoch in periodic} if plan.shuffle_every else set()
        )
        self._stalls = set(chosen[: max(plan.stalls - len(self._shuffles), 0)])
        self._switches = set(chosen[plan.stalls :])

    def make(self) -> LongRun:
        """Write the whole run, up to its last step."""
        self._event(
            facts.GpuFound,
            source="nvml",
            name="NVIDIA H100 80GB HBM3",
            memory_bytes=80 * _GIB,
            unified=False,
        )
        for epoch in range(self.plan.epochs):
            self._write_epoch(epoch)
        self.writer.flush()
        return self

    def end(self) -> LongRun:
        """End the run."""
        self.writer.status = (
            Phase.ENDED,
            round(self.at_s * 1e9),
            self.step,
            self.plan.epochs - 1,
            "",
        )
        self._event(facts.RunEnded, cause="finished", steps=self.step, detail="")
        self.writer.close()
        return self

    def write_steps(self, count: int, epoch: int) -> None:
        """Write steps of the last epoch: the run goes on."""
        for _ in range(count):
            self._write_step(epoch, 0)
        self.writer.status = (Phase.COMPUTE, round(self.at_s * 1e9), self.step + 1, epoch, "")
        self.writer.flush()

    def _write_epoch(self, epoch: int) -> None:
        plan = self.plan
        self._event(facts.EpochStarted, epoch=epoch, epochs=plan.epochs, steps=plan.epoch_steps)
        for n in range(plan.epoch_steps):
            flags = Flag.COMPILE if not self.step else Flag.EPOCH_START if not n else 0
            self._write_step(epoch, int(flags))
        self.at_s += 0.4
        self._event(facts.ValidationEnded, epoch=epoch, took_ms=400.0)
        self._event(
            facts.EpochEnded,
            epoch=epoch,
            step=self.step,
            metrics=_metrics(epoch, plan, self._random),
        )
        self.at_s += 0.01

    def _write_step(self, epoch: int, flags: int) -> None:
        self.step += 1
        if self.step in self._switches:
            flags |= int(Flag.SWITCH)
            self._switch()
        jitter = self._random.gauss(1.0, 0.03)
        wait, compute, host = (part * jitter * self.plan.speed for part in self._split)
        if self.step == 1:
            compute = 9000.0
        if self.step in self._stalls:
            wait += self._random.uniform(1500.0, 30_000.0)
        if self.step in self._shuffles:
            wait, flags = wait + 6000.0, flags | int(Flag.SHUFFLE_FILL)
        self.writer.step(
            round(self.at_s * 1e9),
            self.step,
            epoch & 0xFFFF,
            flags,
            wait,
            compute * 0.3,
            compute,
            host,
        )
        self.at_s += (wait + compute + host) / 1e3
        self._sample((wait, compute, host))
        self._flush(epoch)

    def _switch(self) -> None:
        old = self._setting
        self._setting = new = self._random.choice([value for value in _SPLITS if value != old])
        self._split = _SPLITS[new]
        change = {"knob": "prefetch", "old": old, "new": new, "by": "key"}
        self._event(facts.SwitchAsked, **change, step=self.step - 1)
        self._event(
            facts.PipelineSwitched, **change, asked_step=self.step - 1, step=self.step, took_ms=21.0
        )

    def _sample(self, split: Split) -> None:
        if self.at_s < self._sampled_s:
            return
        self._sampled_s = self.at_s + _SAMPLE_S
        leaked = 4 * _GIB * self.step / self.plan.steps
        figures = {"process_bytes": 6 * _GIB + leaked, "memory_used_bytes": 18 * _GIB + leaked}
        self.writer.sample(round(self.at_s * 1e9), {**self._sensors(split), **figures})

    def _flush(self, epoch: int) -> None:
        if self.at_s < self._flushed_s:
            return
        self._flushed_s = self.at_s + _FLUSH_S
        loss = _loss(self.step / self.plan.epoch_steps, self.plan)
        in_epoch = self.step - epoch * self.plan.epoch_steps
        self.writer.progress.append((self.step * 64, self.step, epoch, in_epoch, loss))
        self.writer.flush()

    def _event(self, kind: type[facts.Event], **values: object) -> None:
        self.writer.event(kind(at_ns=round(self.at_s * 1e9), **values))


def _manifest(plan: Plan, wall_ns: int) -> Manifest:
    return Manifest(
        run="2026-11-20T10-17-03_cnn",
        workload="cnn",
        origin_ns=0,
        origin_wall_ns=wall_ns,
        pid=os.getpid(),
        process_started_s=psutil.Process().create_time(),
        boot_id=boot_id(),
        device="GPU:0 NVIDIA H100 80GB HBM3",
        accelerated=True,
        knobs={"prefetch": "off", "workers": "off"},
        switchable=["prefetch", "workers"],
        batch_size=64,
        epochs=plan.epochs,
        steps_per_epoch=plan.epoch_steps,
        machine={"host": os.uname().nodename, "cores": 16, "memory_bytes": 128 * _GIB},
    )


def _loss(epochs: float, plan: Plan) -> float:
    """Return the loss after so many epochs; it falls as slowly as the steps are."""
    return 0.12 + 2.2 * math.exp(-epochs / plan.epochs * 12.5 / plan.speed**4)


def _metrics(epoch: int, plan: Plan, source: random.Random) -> dict[str, float]:
    """Return the figures of an epoch; the validation is best at two thirds of the run."""
    loss = _loss(epoch, plan) * source.gauss(1, 0.01)
    over = max(0.0, epoch / plan.epochs - 0.66)
    val_loss = (_loss(epoch, plan) + 0.05 + over) * source.gauss(1, 0.02)
    return {
        "loss": loss,
        "accuracy": 1 - loss / 3,
        "val_loss": val_loss,
        "val_accuracy": 1 - val_loss / 3,
    }


def keep(folder: Path) -> Path:
    """Make the long run below a folder, and an older run of the same workload; return the long
    one."""
    LongRun(
        folder / "2026-11-19T09-00-00_cnn", Plan(speed=1.15, seed=3, stalls=20), -86_400.0
    ).make().end()
    LongRun(folder / "2026-11-20T10-17-03_cnn", Plan()).make().end()
    return folder / "2026-11-20T10-17-03_cnn"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description="make a simulated run of ten hours, and one before it"
    )
    parser.add_argument("folder", type=Path)
    print(keep(parser.parse_args().folder))
