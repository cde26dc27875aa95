"""How far the training is: what is said after each call, the rows made of it, and when its loss is no finite number."""

from __future__ import annotations

import math
import struct
from collections import deque
from typing import TYPE_CHECKING, Any, TypeAlias

from tfwatch.core.events import Noted
from tfwatch.core.losses import LossDiverged, LossRecovered
from tfwatch.core.reasons import reason

if TYPE_CHECKING:
    from tfwatch.core.events import Event

#: images, step, epoch, epoch_step, loss, metric; the last two None where they are missing.
Progress: TypeAlias = tuple[int, int, int, int, Any, Any]

_ROW = struct.Struct("<QQIIIIff")
_PERIOD_NS = 500_000_000
#: The largest number of four bytes.
_LARGEST = 3.4028234e38
#: So much is kept between two flushes: 0.1 s of ten thousand calls a second.
_MOST = 1024
#: A loss that comes and goes with every batch would fill the events; after so many times it is told as gone.
_MOST_TOLD = 50


class Advance:
    """told: what the training thread said since the last flush; it appends there and does nothing else."""

    def __init__(self) -> None:
        self.told: deque[Progress] = deque(maxlen=_MOST)
        self._newest: Progress | None = None
        self._due_ns = 0
        self._ended = False
        self._finite_step = 0
        self._diverged = False
        self._diverged_times = 0
        self._no_figures: set[str] = set()

    @property
    def has_begun(self) -> bool:
        """Whether a step is done."""
        return self._newest is not None or bool(self.told)

    def flush(self, now_ns: int, metric: str, *, last: bool) -> tuple[bytes, list[Event]]:
        """The row of `core.rows.PROGRESS` that is due, else nothing, and what is to be told of the loss and the metric.

        metric: its name. last: the run is over, and a row is due where none has been written since.
        """
        if self.told:
            self._newest, self._ended = self.told[-1], False
        events = [
            event
            for _, step, _, _, loss, _ in [self.told.popleft() for _ in range(len(self.told))]
            if (event := self._changed(now_ns, step, loss))
        ]
        if self._newest is None or (now_ns < self._due_ns and (self._ended or not last)):
            return b"", events
        images, step, epoch, epoch_step, *figures = self._newest
        singles = []
        for name, value in zip(("loss", metric or "metric"), figures, strict=True):
            single, why_not = _single(value)
            singles.append(single)
            if why_not and name not in self._no_figures:
                self._no_figures.add(name)
                events.append(Noted(now_ns, f"the {name} that the model reports is no number: {why_not}"))
        self._due_ns, self._ended = now_ns + _PERIOD_NS, last
        return _ROW.pack(now_ns, images, step, epoch, epoch_step, 0, *singles), events

    def _changed(self, at_ns: int, step: int, loss: Any) -> Event | None:
        """What is new of a step's loss. Only a float is looked at: asking what lies on a device would wait for it."""
        if not isinstance(loss, float):
            return None
        was_diverged = self._diverged
        if not math.isfinite(loss):
            self._diverged = True
            if was_diverged:
                return None
            self._diverged_times += 1
            return LossDiverged(at_ns, step, "NaN" if math.isnan(loss) else "infinite", self._finite_step)
        self._finite_step = step
        if not was_diverged or self._diverged_times >= _MOST_TOLD:
            return None
        self._diverged = False
        return LossRecovered(at_ns, step)


def _single(value: Any) -> tuple[float, str]:
    """A figure as four bytes hold it, and why it is none: a model may report anything. NaN where it is none."""
    if value is None:
        return math.nan, ""
    try:
        return float(value) if math.isnan(value) or abs(value) <= _LARGEST else math.copysign(math.inf, value), ""
    except Exception as error:  # noqa: BLE001  the value is the user's, and may raise anything
        return math.nan, reason(error)
