"""Trainings that are formulas: they obey a `Control` as Watch does, without threads, and write runs
that a tuner follows."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.judge.plants import Plant
from tests.judge.step_rows import make_steps
from tests.runs.folders import FakeClock, add_steps, make_manifest
from tests.tuner.line import Line
from tfwatch.core.events import Event, PipelineSwitched, SwitchAsked, SwitchFailed
from tfwatch.core.knobs import Knobs
from tfwatch.core.rows import Flag, Phase, Rows
from tfwatch.runs.control import Control
from tfwatch.runs.writer import RunWriter
from tfwatch.tuner.client import Driver

#: Steps that are done between two looks of a tuner.
PACE = 5
#: How slow the steps are in which batches of the old pipeline are handed out, and a new one
#: settles, where `has_odd_steps`.
ODD_MS = 900.0


class Training:
    """Trains by a function of the knobs and the step that returns its row.

    Attributes:
        control: what it obeys. settings: the knobs of every step that was done. build_steps: that
        are done while a new pipeline is built; pace: between two looks of a tuner. epoch_steps:
        after so many each an epoch begins, 0 is never; epoch_end_ms: more host time of the last.
        flags: of steps, by their number. refuses: why knobs cannot be had. before_step: called with
        each step's number. last: the step at which it ends.
    """

    def __init__(
        self, row_of: Callable[[Knobs, int], Rows], knobs: Knobs | None = None, **manifest: Any
    ) -> None:
        self.clock = FakeClock()
        self.control = Control(knobs or Knobs())
        self.settings: list[dict[str, str]] = []
        self.build_steps, self.pace, self.epoch_steps, self.last = 0, PACE, 0, 100_000
        self.epoch_end_ms = 0.0
        self.flags: dict[int, Flag] = {}
        self.refuses: dict[str, str] = {}
        self.before_step: Callable[[int], None] = lambda step: None
        self.has_odd_steps = False
        self._odd: set[int] = set()
        self._row_of = row_of
        self._in_flight = 0
        self._next: tuple[Knobs, list[SwitchAsked]] | None = None
        values = {"knobs": self.control.knobs.values(), "switchable": ["prefetch", "workers"]}
        self.writer = RunWriter(None, make_manifest(**{**values, **manifest}), self.clock.clock)
        self.line = Line(self.writer, self.control)

    def driver(self, each: Callable[[], None] | None = None) -> Driver:
        """A tuner's view of it, in whose pauses it trains; `each` is called after each of them."""

        def pause() -> None:
            self.train(self.pace)
            if each:
                each()

        return self.line.driver(self.clock.clock, pause)

    def events(self, kind: type[Event]) -> list[Any]:
        """The events of one kind so far."""
        self.writer.flush()
        return list(self.line.driver(self.clock.clock, None).snapshot.events.of(kind))

    def train(self, steps: int) -> None:
        """Train so many steps."""
        for _ in range(steps):
            if len(self.settings) == self.last or self.control.stop.is_set():
                self.writer.end("finished")
                break
            self._train()
        at_ns = round(self.clock.at_s * 1e9)
        self.writer.sample(
            at_ns, {"process_bytes": 1e9, "memory_available_bytes": 2.0**33, "cpu_cores": 1.0}
        )
        self.writer.status = (Phase.COMPUTE, at_ns, len(self.settings), 0, "")
        self.writer.flush()

    def _train(self) -> None:
        step = len(self.settings) + 1
        self.before_step(step)
        flags = self._obey(step) | self.flags.get(step, Flag(0))
        if self.epoch_steps and (step - 1) % self.epoch_steps == 0:
            flags |= Flag.EPOCH_START
        row = self._row_of(self.control.knobs, step)
        if self.epoch_steps and step % self.epoch_steps == 0:
            row["host_ms"] += self.epoch_end_ms
        if step in self._odd:
            row["wait_ms"] = ODD_MS
        row["step"], row["start_ns"], row["flags"] = step, round(self.clock.at_s * 1e9), int(flags)
        add_steps(self.writer, row)
        self.settings.append(self.control.knobs.values())
        parts = (float(row[f"{part}_ms"][0]) for part in ("wait", "compute", "host"))
        self.clock.at_s += sum(parts) / 1e3

    def _obey(self, step: int) -> Flag:
        """Take what is asked for; it comes when what is buffered is used up. Returns the step's
        flags."""
        now = round(self.clock.at_s * 1e9)
        if self._next is None and self.control.has_requests:
            self._take_requests(step, now)
        if self._next is None:
            return Flag(0)
        if self._in_flight:
            self._in_flight -= 1
            return Flag(0)
        (knobs, asked), self._next = self._next, None
        self.control.knobs = knobs
        self._odd = {step + 1, step + 2} if self.has_odd_steps else set()
        for one in asked:
            self.writer.event(
                PipelineSwitched(now, one.knob, one.old, one.new, one.step, step, 1.0, one.by)
            )
        return Flag.SWITCH

    def _take_requests(self, step: int, now: int) -> None:
        knobs, asked = self.control.knobs, []
        for one in self.control.take(step - 1):
            old = getattr(knobs, one.knob)
            if why := self.refuses.get(one.knob):
                failed = SwitchFailed(now, one.knob, why, old, one.value, step - 1, old)
                self.writer.event(failed)
                continue
            turned = knobs.with_value(one.knob, one.value)
            asked += [
                SwitchAsked(now, *found, step - 1, one.by) for found in knobs.differences(turned)
            ]
            knobs = turned
        for event in asked:
            self.writer.event(event)
        depth = self.control.knobs.prefetch
        self._in_flight = self.build_steps + (int(depth) if depth.isdigit() else 0)
        self._odd = set(range(step, step + self._in_flight)) if self.has_odd_steps else set()
        self._next = (knobs, asked) if asked else None


def timed(
    step_ms: Callable[[Knobs, int], float], knobs: Knobs | None = None, **manifest: Any
) -> Training:
    """A training whose steps take `step_ms(knobs, step)`, and longer around a switch."""

    def row_of(knobs: Knobs, step: int) -> Rows:
        return make_steps(step_ms(knobs, step) - 2.0, 1.5, 0.5, 0.5)

    training = Training(row_of, knobs, **manifest)
    training.has_odd_steps = True
    return training


def of_plant(plant: Plant, knobs: Knobs | None = None, **manifest: Any) -> Training:
    """A training of a plant, after its first step."""
    rng = np.random.default_rng(0)
    values = {
        "accelerated": plant.accelerated,
        "machine": {"cores": plant.cores, "memory_bytes": 2**34},
        "batch_bytes": round(plant.batch_bytes),
        "batch_size": 32,
    }
    training = Training(
        lambda knobs, _: plant.rows(knobs.values(), 1, rng), knobs, **{**values, **manifest}
    )
    training.train(1)
    return training
