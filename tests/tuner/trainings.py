"""A training that is a formula: it obeys a `Control` as Watch does, and writes a run that a pilot
follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tests.runs.folders import FakeClock, add_steps, make_manifest
from tests.tuner.line import Line
from tfwatch.core.events import Event, PipelineSwitched, SwitchAsked, SwitchFailed
from tfwatch.core.rows import Flag, Phase
from tfwatch.runs.control import Control
from tfwatch.runs.writer import RunWriter

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.judge.plants import Plant
    from tfwatch.core.knobs import Knobs
    from tfwatch.tuner.client import Driver

#: Steps that are done between two looks of a pilot.
PACE = 5


class PlantTraining:
    """Trains a plant.

    Attributes:
        control: what it obeys. settings: the knobs of every step that was done. bytes_a_batch: what
        the process takes for each batch in the prefetch buffer. build_steps: that are done while a
        new pipeline is built;
        pace: between two looks of a pilot. epoch_steps: after so many each an epoch begins; 0 is
        never.
        refuses: knobs that cannot be had.
    """

    def __init__(self, plant: Plant, knobs: Knobs, seed: int = 0, **manifest: Any) -> None:
        self.clock = FakeClock()
        self.control = Control(knobs)
        self.settings: list[dict[str, str]] = []
        self.build_steps, self.pace, self.epoch_steps = 0, PACE, 0
        self.refuses: frozenset[str] = frozenset()
        self._plant = plant
        self._rng = np.random.default_rng(seed)
        self._in_flight = 0
        self._next: tuple[Knobs, list[SwitchAsked]] | None = None
        values = {
            "knobs": knobs.values(),
            "switchable": ["prefetch", "workers"],
            "accelerated": plant.accelerated,
            "machine": {"cores": plant.cores, "memory_bytes": 2**34},
            "batch_bytes": round(plant.batch_bytes),
            "batch_size": 32,
        }
        self.writer = RunWriter(None, make_manifest(**{**values, **manifest}), self.clock.clock)
        self.line = Line(self.writer, self.control)
        self.train(1)

    def driver(self, each: Callable[[PlantTraining], None] | None = None) -> Driver:
        """A tuner's view of it, in whose pauses it trains; `each` is called after each of them."""

        def pause() -> None:
            self.train(self.pace)
            if each:
                each(self)

        return self.line.driver(self.clock.clock, pause)

    def events(self, kind: type[Event]) -> list[Any]:
        """The events of one kind so far."""
        return list(self.line.driver(self.clock.clock, None).snapshot.events.of(kind))

    def train(self, steps: int) -> None:
        """Train so many steps."""
        for _ in range(steps):
            flags = self._obey() | self._begin_epoch()
            knobs = self.control.knobs.values()
            row = self._plant.rows(knobs, 1, self._rng)
            row["step"], row["start_ns"], row["flags"] = (
                len(self.settings) + 1,
                round(self.clock.at_s * 1e9),
                flags,
            )
            add_steps(self.writer, row)
            self.settings.append(knobs)
            self.clock.at_s += (
                float(row["wait_ms"][0] + row["compute_ms"][0] + row["host_ms"][0]) / 1e3
            )
        at_ns = round(self.clock.at_s * 1e9)
        self.writer.sample(
            at_ns,
            {"process_bytes": 1e9, "memory_available_bytes": 2.0**33, "cpu_cores": 1.0},
        )
        self.writer.status = (Phase.COMPUTE, at_ns, len(self.settings), 0, "")
        self.writer.flush()

    def _begin_epoch(self) -> int:
        begins = self.epoch_steps and len(self.settings) % self.epoch_steps == 0
        return int(Flag.EPOCH_START) if begins else 0

    def _obey(self) -> int:
        """Take what is asked for; it comes when what is buffered is used up. Returns the step's
        flags."""
        step, now = len(self.settings) + 1, round(self.clock.at_s * 1e9)
        if self._next is None and self.control.has_requests:
            knobs, asked = self.control.knobs, []
            for request in self.control.take(step - 1):
                if request.knob in self.refuses:
                    was = getattr(knobs, request.knob)
                    self.writer.event(
                        SwitchFailed(
                            now, request.knob, "no memory", was, request.value, step - 1, was
                        )
                    )
                    continue
                turned = knobs.with_value(request.knob, request.value)
                asked += [
                    SwitchAsked(now, *found, step - 1, request.by)
                    for found in knobs.differences(turned)
                ]
                knobs = turned
            for event in asked:
                self.writer.event(event)
            depth = self.control.knobs.prefetch
            self._in_flight = self.build_steps + (int(depth) if depth.isdigit() else 0)
            self._next = (knobs, asked) if asked else None
        if self._next is None:
            return 0
        if self._in_flight:
            self._in_flight -= 1
            return 0
        knobs, asked = self._next
        self._next, self.control.knobs = None, knobs
        for one in asked:
            self.writer.event(
                PipelineSwitched(now, one.knob, one.old, one.new, one.step, step, 1.0, one.by)
            )
        return int(Flag.SWITCH)
