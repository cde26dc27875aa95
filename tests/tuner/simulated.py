"""A simulated training: steps of given lengths, switches obeyed as `watch.fit.fetch` does, no
threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.runs.folders import FakeClock, make_manifest, reader_of
from tests.tuner.line import Line
from tfwatch.core.events import PipelineSwitched, SwitchAsked, SwitchFailed
from tfwatch.core.knobs import Knobs
from tfwatch.core.rows import Flag
from tfwatch.runs.control import Control
from tfwatch.runs.writer import RunWriter

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.core.events import Event
    from tfwatch.runs.requests import SwitchRequest
    from tfwatch.tuner.client import Driver

#: Batches that a pipeline still hands out after a switch was asked, and how slow these odd steps
#: are made.
BUFFERED = 3
ODD_MS = 900.0


class Simulated:
    """A run in memory. `step_ms(knobs, step)`: how long a step takes.

    flags: of steps, by their number. refuses: why no switch can be made. before_step: called with
    each step's number.
    """

    def __init__(
        self,
        step_ms: Callable[[Knobs, int], float],
        *,
        knobs: Knobs | None = None,
        steps: int = 100_000,
        refuses: str = "",
        before_step: Callable[[int], None] = lambda step: None,
    ) -> None:
        self.clock = FakeClock()
        self.control = Control(knobs or Knobs())
        start = {
            "prefetch": self.control.knobs.prefetch,
            "workers": self.control.knobs.workers,
        }
        manifest = make_manifest(knobs=start, switchable=["prefetch", "workers"])
        self.writer = RunWriter(None, manifest, self.clock.clock)
        self.line = Line(self.writer, self.control)
        self.step = 0
        self.flags: dict[int, Flag] = {}
        self.odd: set[int] = set()
        self._step_ms = step_ms
        self._steps = steps
        self._refuses = refuses
        self._before_step = before_step
        self._asked: SwitchAsked | None = None
        self._request: SwitchRequest | None = None

    def driver(self) -> Driver:
        """A tuner's view of it; the training goes on while it waits."""
        return self.line.driver(self.clock.clock, self.advance)

    def advance(self, steps: int = 4) -> None:
        """Train on."""
        for _ in range(steps):
            if self.step == self._steps or self.control.stop.is_set():
                self.writer.end("finished")
                break
            self._train()
        self.writer.flush()

    def events(self) -> list[Event]:
        """All that was told so far."""
        self.writer.flush()
        return list(reader_of(self.writer, self.clock.clock).read().events)

    def _train(self) -> None:
        self._before_step(self.step + 1)
        flags = self._obey()
        self.step += 1
        flags |= self.flags.get(self.step, Flag(0))
        took_ms = ODD_MS if self.step in self.odd else self._step_ms(self.control.knobs, self.step)
        start_ns = self.writer.now_ns()
        self.clock.at_s += took_ms / 1e3
        self.writer.step(start_ns, self.step, 0, int(flags), took_ms - 2.0, 0.5, 1.5, 0.5)

    def _obey(self) -> Flag:
        """A switch is built, the old pipeline's batches are handed out, then the new one's first
        arrives."""
        now = self.writer.now_ns()
        if self._asked and self.step >= self._asked.step + BUFFERED:
            asked, request, self._asked = self._asked, self._request, None
            assert request is not None
            self.control.knobs = self.control.knobs.with_value(request.knob, request.value)
            self.writer.event(
                PipelineSwitched(
                    now, asked.knob, asked.old, asked.new, asked.step, self.step + 1, 5.0, asked.by
                )
            )
            self.odd = {self.step + 2, self.step + 3}
            return Flag.SWITCH
        if self._asked or not self.control.has_requests:
            return Flag(0)
        (self._request,) = self.control.take(self.step)
        old, new = getattr(self.control.knobs, self._request.knob), self._request.value
        self._asked = SwitchAsked(now, self._request.knob, old, new, self.step, self._request.by)
        self.writer.event(self._asked)
        if self._refuses:
            self.writer.event(
                SwitchFailed(now, self._request.knob, self._refuses, old, new, self.step, old)
            )
            self._asked = None
            return Flag(0)
        self.odd = set(range(self.step + 2, self.step + BUFFERED + 1))
        return Flag.SWITCH
