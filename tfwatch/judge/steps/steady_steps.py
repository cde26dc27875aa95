"""The split of a stretch of steady steps into data wait, copy, compute and host, and the verdict on
its data wait by the TensorFlow profiler's thresholds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core.rows import Flag, step_ms
from tfwatch.judge.steps.quantiles import quantiles
from tfwatch.judge.steps.spikes import SpikeSearch, spread_hosts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tfwatch.core.rows import Rows

#: Shares of step time: `kModeratelyInfeedBoundThresholdInPercent` and
#: `kHighlyInfeedBoundThresholdInPercent` in the TensorFlow profiler's input_pipeline_analysis /
#: op_stats_to_input_pipeline_analysis.cc.
MODERATELY_FROM = 0.05
HIGHLY_FROM = 0.20
#: Copy-bound: the copy of a batch to the device takes this share of a step, in which the device
#: idles.
COPY_FROM = 0.20
#: Launch-bound: launching the kernels takes more than half of the compute on an accelerator.
LAUNCH_FROM = 0.5
#: The window: this many steady steps, or this much step time, whichever is more.
NEEDED = 20
WINDOW_MS = 2000.0
#: Steps before the window that are needed to find single spikes in it.
_CONTEXT = 128
#: This many rows hold a window and its context where steps are longer than 5 ms; 4096 rows are 128
#: KB to read.
_USUALLY = 512

_PARTS = ("wait", "dispatch", "compute", "host")
#: Batches come in bursts where the mean step is this many times the median: a few steps wait for
#: many.
BURSTS = 1.25


@dataclass(frozen=True, slots=True)
class Stat:
    """The median, mean and 95th percentile of one part over a stretch of steps, milliseconds."""

    median: float
    mean: float
    p95: float


@dataclass(frozen=True, slots=True)
class Breakdown:
    """A stretch of steady steps; wait + copy + compute + host = step, and `dispatch` is in
    compute."""

    steps: int
    step: Stat
    wait: Stat
    dispatch: Stat
    compute: Stat
    host: Stat
    #: The sum of data wait over the sum of step time, 0 to 1.
    wait_share: float
    #: Of the batch to the device; None where it is not timed, and is a part of `compute`.
    copy: Stat | None = None

    @property
    def in_bursts(self) -> bool:
        """True where batches come in bursts: the median step shows no data wait then."""
        return self.step.mean > BURSTS * self.step.median

    @property
    def work_mean_ms(self) -> float:
        """The mean of copy, compute and host together."""
        return (self.copy.mean if self.copy else 0.0) + self.compute.mean + self.host.mean

    @property
    def work_median_ms(self) -> float:
        """The sum of the medians of copy, compute and host."""
        return (self.copy.median if self.copy else 0.0) + self.compute.median + self.host.median

    def copying_ms(self, copy_ahead_ms: float | None) -> float:
        """The mean time of a copy, of one ahead also where only launching waits for it; 0 where it
        is not timed."""
        return max(self.copy.mean, copy_ahead_ms or 0.0) if self.copy else 0.0

    def copying_share(self, copy_ahead_ms: float | None) -> float:
        """The time of a copy over that of a step, at most 1."""
        return (
            min(self.copying_ms(copy_ahead_ms) / self.step.mean, 1.0) if self.step.mean > 0 else 0.0
        )

    @property
    def dispatch_share(self) -> float:
        """The sum of dispatch over the sum of step time, 0 to 1."""
        return self.dispatch.mean / self.step.mean if self.step.mean > 0 else 0.0

    @property
    def launch_share(self) -> float:
        """The time until the step's call returns as a share of compute, 0 to 1."""
        return self.dispatch.mean / self.compute.mean if self.compute.mean > 0 else 0.0


class Verdict(Enum):
    """The TensorFlow profiler's own words; its thresholds are 5 % and 20 % of step time."""

    NOT = "NOT input-bound"
    MODERATELY = "MODERATELY input-bound"
    HIGHLY = "HIGHLY input-bound"


def verdict_of(wait_share: float) -> Verdict:
    """Return the verdict on data wait as a share of the time, 0 to 1."""
    if wait_share >= HIGHLY_FROM:
        return Verdict.HIGHLY
    return Verdict.MODERATELY if wait_share >= MODERATELY_FROM else Verdict.NOT


@dataclass(frozen=True, slots=True)
class Judgement:
    """A window of `steps` steady steps; `needed` is the least number for a verdict."""

    steps: int
    needed: int
    breakdown: Breakdown | None

    @property
    def is_enough(self) -> bool:
        """True where there are enough steps for a verdict."""
        return self.breakdown is not None and self.breakdown.steps >= self.needed

    @property
    def verdict(self) -> Verdict | None:
        """The verdict on its data wait; None without enough steps."""
        return verdict_of(self.breakdown.wait_share) if self.breakdown and self.is_enough else None


NOT_JUDGED = Judgement(0, NEEDED, None)


def judge(rows: Rows) -> Judgement:
    """Judge the newest steps of `rows` (the last max(20 steps, 2 s), steady ones).

    Steps before the newest switch belong to another setting and are not judged.
    """
    window = _window(rows)
    return Judgement(len(window), NEEDED, breakdown(window))


def _window(rows: Rows) -> Rows:
    """Return the newest steady rows of the current setting, to judge by."""
    for newest in (rows[-_USUALLY:], rows):
        switches = np.flatnonzero(newest["flags"] & Flag.SWITCH)
        of_setting = newest[switches[-1] :] if len(switches) else newest
        plain = of_setting[of_setting["flags"] == 0]
        first = _window_start(plain) - _CONTEXT
        if first >= 0 or len(switches):
            break
    window = steady(plain[max(first, 0) :])
    return window[_window_start(window) :]


def _window_start(rows: Rows) -> int:
    """Return the start of the newest max(20 steps, 2 s of step time) of `rows`."""
    newest = step_ms(rows)[::-1]
    in_time = int(np.searchsorted(np.cumsum(newest, dtype=np.float64), WINDOW_MS, side="right"))
    return max(len(rows) - max(in_time, NEEDED), 0)


class SteadySteps:
    """The rows without flags and single spikes, each with its share of its call's host time.

    Slow steps that recur, or that follow one another, are typical of the run and are kept. It holds
    columns, and no rows before they are asked for: a copy of ten million takes 360 MB, and a
    second.
    search: the search over these rows, if there is one already.
    """

    def __init__(self, rows: Rows, search: SpikeSearch | None = None) -> None:
        self._rows = np.asarray(rows)
        self._kept = (rows["flags"] == 0) & ~(search or SpikeSearch(rows)).single
        self._hosts = spread_hosts(self._column("host"))

    def __len__(self) -> int:
        return len(self._hosts)

    @cached_property
    def breakdown(self) -> Breakdown | None:
        """The split of their time; None without any."""
        names = (name for name in (*_PARTS, "copy") if name != "host")
        return _split({**{name: self._column(name) for name in names}, "host": self._hosts})

    def newest(self, count: int | None = None) -> Rows:
        """Return a copy of the last `count` of them, of all for None."""
        first = 0 if count is None else max(len(self) - count, 0)
        rows: Rows = self._rows.take(np.flatnonzero(self._kept)[first:])
        rows["host_ms"] = self._hosts[first:]
        return rows

    def _column(self, name: str) -> NDArray[np.float32]:
        column: NDArray[np.float32] = self._rows[f"{name}_ms"][self._kept]
        return column


def steady(rows: Rows) -> Rows:
    """Return a copy of the steady rows; see `SteadySteps`."""
    return SteadySteps(rows).newest()


def breakdown(rows: Rows) -> Breakdown | None:
    """Split the time of all rows; None without rows."""
    return _split({name: np.ascontiguousarray(rows[f"{name}_ms"]) for name in (*_PARTS, "copy")})


def _split(parts: dict[str, NDArray[np.float32]]) -> Breakdown | None:
    """Split the time of steps by their columns, milliseconds; None without steps."""
    copies, count = parts.pop("copy"), len(parts["wait"])
    if not count:
        return None
    step = _stat(parts["wait"] + parts["compute"] + parts["host"])
    is_timed = not np.isnan(copies).any()
    if is_timed:
        parts["compute"] = parts["compute"] - copies
    stats = {name: _stat(values) for name, values in parts.items()}
    share = stats["wait"].mean / step.mean if step.mean > 0 else 0.0
    return Breakdown(
        count, step, **stats, wait_share=share, copy=_stat(copies) if is_timed else None
    )


def _stat(values: NDArray[np.float32]) -> Stat:
    """Return the statistics of one part."""
    median, p95 = quantiles(values, (0.5, 0.95))
    return Stat(median, float(values.mean(dtype=np.float64)), p95)


_WINDOW_S = 60.0


def left_s(progress: Rows, steps: int | None) -> float | None:
    """Estimate the seconds until step `steps` at the pace of the last minute, pauses included; None
    where unknown.

    `progress` holds rows of `core.rows.PROGRESS`.
    """
    if steps is None or len(progress) < 2:
        return None
    recent = progress[-256:]
    recent = recent[recent["at_ns"] >= recent["at_ns"][-1] - _WINDOW_S * 1e9]
    took_s = (float(recent["at_ns"][-1]) - float(recent["at_ns"][0])) / 1e9
    done = int(recent["step"][-1]) - int(recent["step"][0])
    if done <= 0 or took_s < 1.0:
        return None
    return max(0, steps - int(recent["step"][-1])) * took_s / done
