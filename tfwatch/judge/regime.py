"""The present regime of a run: the time since its last lasting change, and what it went to.

A switch, a cache that the first epoch has filled, and the begin of the first epoch begin a regime.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from tfwatch.core.events import CodeSampled, EpochStarted, PipelineSwitched, StagesFound, Traced
from tfwatch.core.knobs import CACHE
from tfwatch.core.rows import Flag
from tfwatch.judge.steps.time_breakdown import (
    RunningTimeBreakdown,
    TimeSpent,
    is_breakdown_event,
    make_time_breakdown,
)
from tfwatch.runs.sums import EpochSums

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from tfwatch.core.events import Event
    from tfwatch.core.rows import Phase, Rows

#: So many traces after the first one are a pattern.
_LEAST_AGAIN = 3
#: From so many epochs on their mean is usual.
_MANY = 8
#: Of many, what is above so many medians counts as so many: of 2 500 epochs of one step the mean
#: was twice the median, and all of it was given back by longer epochs.
_OUTLIER = 10
#: tf.data's autotuning thread sleeps for 20 ms, then for twice as long each time, up to a minute:
#: `Model::OptimizeLoop` in tensorflow/core/framework/model.cc. Whoever deletes its iterator waits
#: for it, and where it misses its wake-up, until it wakes by itself: 0.44 of the iterator's life in
#: the mean. 320 of 321 first batches of 0.1 to 10 s came within 22 ms of that moment.
_FIRST_SLEEP_S, _LONGEST_SLEEP_S = 0.02, 60.0
_DOUBLED_S = _FIRST_SLEEP_S * (2**12 - 1)
#: A first batch that takes this part of the rest of such a sleep has waited for it.
_MISSED = 0.9
#: So close to a wake-up, as a share of the life, it is open whether it was before.
_CLOSE = 0.05
Cause: TypeAlias = Literal["start", "switch", "cache"]


@dataclass(frozen=True, slots=True)
class CodeTime:
    """Seconds of the training thread at one place of the script, estimated from samples."""

    #: That of `CodeSample`.
    phase: str
    #: The class of the Keras callback that ran; empty without one.
    callback: str
    #: What the line called, e.g. `predict`; empty where it says nothing.
    call: str
    #: `train.py:41 in load_chunk`; empty where no line of the user's ran.
    place: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Regime:
    """The present regime."""

    cause: Cause = "start"
    #: Since the clock origin.
    begin_ns: int = 0
    spent: TimeSpent = field(default_factory=TimeSpent)
    #: The same of the epochs before it; of the whole run for the first regime: nothing.
    before: TimeSpent = field(default_factory=TimeSpent)
    #: The most seconds first.
    code: tuple[CodeTime, ...] = ()
    #: The number of models that trained in it.
    models: int = 1
    #: The number of `fit` calls, whole or begun.
    fits: int = 1
    #: The number of epochs with steps.
    epochs: int = 0
    #: The last ones of these: three or more where there are so many.
    newest: tuple[TimeSpent, ...] = ()
    #: A shuffle buffer was filled before its newest epoch: a cache fills later ones.
    fills_shuffle: bool = False
    #: What changed in the arguments of the step at the newest trace; empty where unknown.
    trace_change: str = ""
    #: The mean host time over the first and over the last tenth of its steps.
    host_growth_ms: tuple[float, float] = (math.nan, math.nan)
    #: The number of steps that hold most of the host time, and the mean of one, milliseconds.
    slow_host: tuple[int, float] = (0, 0.0)

    @property
    def single_steps(self) -> str:
        """`fits` or `epochs` where each of several has one step, which is its first: none is
        steady. Empty otherwise."""
        counts = {"fits": self.fits, "epochs": self.epochs}
        return next((name for name, n in counts.items() if n > 1 and n >= self.spent.steps), "")

    @property
    def first_traces(self) -> int:
        """The traces that no run can do without: one for each model at the start, and one where a
        loop makes the models."""
        models = self.models if self.models < _LEAST_AGAIN else 1
        return models if self.cause == "start" else 0

    @property
    def traces_again(self) -> int:
        """The traces after the first ones; a few more, e.g. of a last small batch, count as
        first."""
        again = self.spent.traces - self.first_traces
        return again if again >= _LEAST_AGAIN else 0

    @property
    def judged_s(self) -> float:
        """The seconds that losses are shares of: those of this training without its first traces,
        which take as long however long it trains."""
        traces = self.spent.traces
        first_s = self.spent.compile_s * (1 - self.traces_again / traces) if traces else 0.0
        return max(self.spent.active_s - first_s, 0.0)

    def share(self, seconds: float) -> float:
        """Return these seconds as a share of `judged_s`, 0 to 1."""
        return min(seconds / self.judged_s, 1.0) if self.judged_s > 0 else 0.0

    def typical_s(self, part: str) -> float:
        """Return the seconds of a part that an epoch takes, for all: of many the mean, without what
        is far above the median; of few what recurs in each."""
        values = self._newest(part)
        if len(values) < _MANY:
            return self.recurring_s(part)
        largest = _OUTLIER * values[(len(values) - 1) // 2]
        return self._of_all(part, sum(min(value, largest) for value in values) / len(values))

    def recurring_s(self, part: str) -> float:
        """Return the seconds of a part that recur in each epoch, for all: the lower quartile of the
        newest ones; epochs that took longer, or were cut short, are no property of the training.

        The median of two epochs still held the 1.8 s for which one of them waited for tf.data's
        autotuning thread.
        """
        values = self._newest(part)
        return self._of_all(part, values[(len(values) - 1) // 4] if values else math.inf)

    def _newest(self, part: str) -> list[float]:
        """Return the seconds of the newest whole epochs, the least first."""
        most = max((epoch.steps for epoch in self.newest), default=0)
        whole = (epoch for epoch in self.newest if 2 * epoch.steps >= most > 0)
        return sorted(getattr(epoch, part) for epoch in whole)

    def _of_all(self, part: str, usual_s: float) -> float:
        total: float = getattr(self.spent, part)
        return min(total, usual_s * self.epochs) if self.epochs else total

    @property
    def tuning_s(self) -> float:
        """The seconds for which epochs waited for the autotuning thread of the one before; 0.0
        where they fill a shuffle buffer meanwhile."""
        pairs = list(pairwise(self.newest))
        if self.fills_shuffle or not pairs:
            return 0.0
        waited_s = sum(_waited_s(one.iterator_s, then.first_batch_s) for one, then in pairs)
        return min(waited_s / len(pairs) * (self.epochs - 1), self.spent.first_batch_s)

    def code_in(self, *phases: str) -> list[CodeTime]:
        """Return the places of these phases, the most seconds first."""
        return [one for one in self.code if one.phase in phases]

    def share_without_callbacks(self, phase: str) -> float:
        """Return the share of a phase in which no callback ran, as far as it is sampled."""
        sampled = self.code_in(phase)
        all_s = sum(one.seconds for one in sampled)
        plain_s = sum(one.seconds for one in sampled if not one.callback)
        return plain_s / all_s if all_s > 0 else 1.0


def _waited_s(life_s: float, first_s: float) -> float:
    """Return the wait for an iterator's thread in a first batch; of one that lived until about its
    wake-up the thread may sleep again."""
    rest_s = _sleeps_on_s(life_s)
    again_s = rest_s + _sleeps_on_s(life_s + rest_s)
    if rest_s < _CLOSE * life_s and first_s >= _MISSED * again_s:
        return again_s
    return rest_s if first_s >= _MISSED * rest_s else 0.0


def _sleeps_on_s(life_s: float) -> float:
    """Return the time until the autotuning thread of an iterator that lived so long wakes up."""
    if life_s >= _DOUBLED_S:
        return _LONGEST_SLEEP_S - (life_s - _DOUBLED_S) % _LONGEST_SLEEP_S
    sleeps = math.floor(math.log2(life_s / _FIRST_SLEEP_S + 1)) + 1
    return float(_FIRST_SLEEP_S * (2**sleeps - 1) - life_s)


class RunningRegime:
    """Follows a run to its present regime, at the cost of the new rows and events."""

    def __init__(self) -> None:
        self._sums = EpochSums()
        self._events: list[Event] = []
        self._switched: PipelineSwitched | None = None
        self._switch_ns = 0
        self._keeps_elements = False
        self._code: dict[tuple[str, str, str, str], float] = {}
        self._hosts = _HostTimes()
        self._fills_shuffle = False
        self._trace_change = ""
        self._breakdown = RunningTimeBreakdown()
        self._begin_ns = -1
        self._taken: list[Event] = []

    def add(self, rows: Rows, events: Iterable[Event]) -> None:
        """Add plausible rows of `core.rows.STEP`, in the order of their start, and the events since
        the last call."""
        for event in events:
            self._note(event)
        switches = np.flatnonzero(rows["flags"] & Flag.SWITCH)
        if len(switches):
            rows = rows[switches[-1] :]
            self._begin(int(rows["start_ns"][0]))
        self._sums.add(rows)
        self._hosts.add(rows)
        starts = rows["flags"][rows["flags"] & np.uint16(Flag.EPOCH_START) != 0]
        if len(starts):
            self._fills_shuffle = bool(starts[-1] & Flag.SHUFFLE_FILL)

    def _note(self, event: Event) -> None:
        self._events.append(event)
        self._taken.append(event)
        if isinstance(event, PipelineSwitched):
            self._switched = event
        elif isinstance(event, StagesFound):
            self._keeps_elements = any("Cache" in kind for kind in event.kinds)
        elif isinstance(event, Traced):
            self._trace_change = event.change or self._trace_change
        elif isinstance(event, CodeSampled):
            self._count_samples(event)

    def _count_samples(self, event: CodeSampled) -> None:
        for one in event.samples:
            key = (one.phase, one.callback, one.call, one.place)
            self._code[key] = self._code.get(key, 0.0) + one.samples * event.every_ms / 1e3

    def _begin(self, at_ns: int) -> None:
        self._switch_ns = at_ns
        self._sums, self._hosts = EpochSums(), _HostTimes()
        kept = [event for event in self._events if event.at_ns >= at_ns]
        self._events, self._taken, self._begin_ns = [], [], -1
        self._code.clear()
        self._trace_change = ""
        for event in kept:
            self._note(event)

    def now(self, length_s: float, doing: Phase | None) -> Regime:
        """Return the regime of a run that lasts `length_s` so far. doing: the phase of the training
        thread."""
        rows = self._sums.rows
        cause: Cause = "switch" if self._switch_ns else "start"
        is_of_cache = self._switched is not None and self._switched.knob == CACHE
        fills = len(rows) > 1 and self._keeps_elements and (cause == "start" or is_of_cache)
        # The first batch after the filling waits for its end: three runs, 0.3 s each, once.
        begin_ns = int(rows["first_ns"][1]) if fills else self._epoch_begin_ns(rows)
        if begin_ns != self._begin_ns:
            self._begin_ns, self._breakdown = begin_ns, RunningTimeBreakdown(begin_ns)
            self._taken = [event for event in self._events if event.at_ns >= begin_ns]
            self._code.clear()
            for event in self._taken:
                if isinstance(event, CodeSampled):
                    self._count_samples(event)
        spent, newest = self._breakdown.take(rows[int(fills) :], self._taken, length_s, doing)
        started = [event for event in self._taken if isinstance(event, EpochStarted)]
        code = (CodeTime(*key, seconds) for key, seconds in self._code.items())
        return Regime(
            cause="cache" if fills else cause,
            begin_ns=begin_ns,
            spent=spent,
            before=self._before(rows[: int(fills)], begin_ns),
            code=tuple(sorted(code, key=lambda one: -one.seconds)),
            models=len({event.model for event in started}),
            fits=len({event.fit for event in started}),
            epochs=len(rows) - int(fills),
            newest=newest,
            fills_shuffle=self._fills_shuffle,
            trace_change=self._trace_change,
            host_growth_ms=self._hosts.growth_ms,
            slow_host=self._hosts.slow,
        )

    def _epoch_begin_ns(self, rows: Rows) -> int:
        if not len(rows):
            return self._switch_ns
        first_ns = int(rows["first_ns"][0])
        starts = [event.at_ns for event in self._events if isinstance(event, EpochStarted)]
        before = bisect_right(starts, first_ns)
        return max(starts[before - 1] if before else first_ns, self._switch_ns)

    def _before(self, rows: Rows, begin_ns: int) -> TimeSpent:
        """Return what filling the cache took."""
        if not len(rows):
            return TimeSpent()
        filled = [event for event in self._events if event.at_ns < begin_ns]
        first_ns = self._epoch_begin_ns(rows)
        return make_time_breakdown(rows, filled, begin_ns / 1e9, None, first_ns).total


class _HostTimes:
    """The host time over the steps, in at most `_MOST` blocks of as many steps each, and by its
    powers of two."""

    _MOST = 128
    #: Powers of two of microseconds, up to 6 days; the share of host time that is most of it.
    _POWERS, _MOST_TIME = 40, 0.75

    def __init__(self) -> None:
        self._steps = 1  # of a block
        self._block_ms = np.zeros(0)
        self._rest_ms = np.zeros(0)
        self._newest = np.zeros(0, np.float64)
        self._counts = np.zeros(self._POWERS, np.int64)
        self._sums_ms = np.zeros(self._POWERS)

    def add(self, rows: Rows) -> None:
        """Add rows of `core.rows.STEP`."""
        self._count(rows)
        rest_ms = np.concatenate([self._rest_ms, rows["host_ms"]])
        while len(blocks := self._blocks_of(rest_ms)):
            rest_ms = rest_ms[len(blocks) * self._steps :]
            self._block_ms = np.concatenate([self._block_ms, blocks])
            if len(self._block_ms) == self._MOST:
                self._block_ms = self._block_ms.reshape(-1, 2).mean(axis=1)
                self._steps *= 2
        self._rest_ms = rest_ms

    def _blocks_of(self, host_ms: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the means of the whole blocks that there is room for."""
        count = min(len(host_ms) // self._steps, self._MOST - len(self._block_ms))
        means: NDArray[np.float64] = (
            host_ms[: count * self._steps].reshape(count, self._steps).mean(axis=1)
        )
        return means

    def _count(self, rows: Rows) -> None:
        """Count the steps by their host time, but for the last ones of epochs, in which the
        callbacks at its end run."""
        host_ms = np.concatenate([self._newest, rows["host_ms"]])
        begins = rows["flags"][len(rows) - max(len(host_ms) - 1, 0) :] & Flag.EPOCH_START
        inside_ms = host_ms[:-1][begins == 0]
        powers = np.log2(np.maximum(1e3 * inside_ms, 1.0)).astype(int)
        powers = np.minimum(powers, self._POWERS - 1)
        self._counts += np.bincount(powers, minlength=self._POWERS)
        self._sums_ms += np.bincount(powers, inside_ms, self._POWERS)
        self._newest = host_ms[-1:]

    @property
    def slow(self) -> tuple[int, float]:
        """The number of the slowest steps that hold most of the host time, and the mean of one."""
        sums_ms, counts = np.cumsum(self._sums_ms[::-1]), np.cumsum(self._counts[::-1])
        most = int(np.searchsorted(sums_ms, self._MOST_TIME * sums_ms[-1]))
        count = int(counts[most])
        return count, float(sums_ms[most]) / count if count else 0.0

    @property
    def growth_ms(self) -> tuple[float, float]:
        """The median block over the first and over the last tenth of the steps, NaN without steps:
        a long step now and then is no growth."""
        if not len(self._block_ms):
            return math.nan, math.nan
        tenth = math.ceil(len(self._block_ms) / 10)
        first, last = self._block_ms[:tenth], self._block_ms[-tenth:]
        return float(np.median(first)), float(np.median(last))


def regime_of(rows: Rows, events: Sequence[Event], length_s: float, doing: Phase | None) -> Regime:
    """Return the present regime of a whole run."""
    running = RunningRegime()
    running.add(rows, filter(is_breakdown_event, events))
    return running.now(length_s, doing)
