"""What this screen asks of the training, and what it remembers of it until the training answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.analysis.turns import Ask, as_value
from tfwatch.runs.control import Request

if TYPE_CHECKING:
    from tfwatch.core.clock import Clock
    from tfwatch.runs.control import Control

#: A terminal repeats a held-down key after up to 0.66 s and then quickly: presses closer than this are one.
HELD_S = 0.7


class Switchboard:
    """Passes requests on. `control` is None where the run can only be looked at."""

    def __init__(self, control: Control | None, clock: Clock) -> None:
        self.control = control
        self.asks: list[Ask] = []
        self._clock = clock
        self._pressed: dict[str, int] = {}

    def is_held(self, key: str) -> bool:
        """Whether this press only repeats the one before it."""
        now = self._clock.now_ns()
        before = self._pressed.get(key)
        self._pressed[key] = now
        return before is not None and now - before < HELD_S * 1e9

    def ask(self, knob: str, value: str, at_s: float) -> None:
        """Ask for a setting, in words; `at_s` is now, seconds since the run's clock origin."""
        if self.control is None:
            return
        self.asks = [ask for ask in self.asks if ask.knob != knob] + [Ask(knob, value, at_s)]
        self.control.ask(Request(knob, as_value(knob, value), by="key"))

    def stop(self) -> None:
        """Ask the training to end at the next batch."""
        if self.control is not None:
            self.control.stop.set()
