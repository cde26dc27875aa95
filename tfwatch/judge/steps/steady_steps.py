"""Steady steps: those without a flag and without a single spike. Their split into data wait, copy,
compute and host, and the verdict on their data wait by the TensorFlow profiler's thresholds.

With `steps_per_execution` several steps run in one call. The row of the last step of a call holds
the host part of the whole call; the host part of its other steps is 0, which no other step has.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tfwatch.core.rows import Flag, step_ms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tfwatch.core.rows import Rows

#: Shares of step time: `kModeratelyInfeedBoundThresholdInPercent` and
#: `kHighlyInfeedBoundThresholdInPercent` in the TensorFlow profiler's input_pipeline_analysis /
#: op_stats_to_input_pipeline_analysis.cc.
MODERATELY_FROM = 0.05
HIGHLY_FROM = 0.20
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
#: The last steps of epochs are left out where they are at most this share of the steps.
_ENDS = 0.25
#: Batches come in bursts where the mean step is this many times the median: a few steps wait for
#: many.
BURSTS = 1.25


@dataclass(frozen=True, slots=True)
class Stat:
    """The median, mean and 95th percentile of one part over a stretch of steps, milliseconds."""

    median: float
    mean: float
    p95: float


class Verdict(Enum):
    """The TensorFlow profiler's own words; its thresholds are 5 % and 20 % of step time."""

    NOT = "NOT input-bound"
    MODERATELY = "MODERATELY input-bound"
    HIGHLY = "HIGHLY input-bound"


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
    def is_enough(self) -> bool:
        """True where there are enough steps for a verdict."""
        return self.steps >= NEEDED

    @property
    def verdict(self) -> Verdict | None:
        """The verdict on data wait; None without enough steps."""
        if not self.is_enough:
            return None
        if self.wait_share >= HIGHLY_FROM:
            return Verdict.HIGHLY
        return Verdict.MODERATELY if self.wait_share >= MODERATELY_FROM else Verdict.NOT

    @property
    def in_bursts(self) -> bool:
        """True where batches come in bursts: the median step shows no data wait then."""
        return self.step.mean > BURSTS * self.step.median

    def typical_ms(self, part: Stat) -> float:
        """Return the median of a part, which a busy second of the machine does not move; in bursts
        the mean, which alone contains their data wait."""
        return part.mean if self.in_bursts else part.median

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

    @property
    def launch_share(self) -> float:
        """The time until the step's call returns as a share of compute, 0 to 1."""
        return self.dispatch.mean / self.compute.mean if self.compute.mean > 0 else 0.0


def judge(rows: Rows) -> Breakdown | None:
    """Split the newest steps of `rows`: the last max(20 steps, 2 s), steady ones; None without any.

    Steps before the newest switch belong to another setting and are not judged.
    """
    return breakdown(_window(rows))


def _window(rows: Rows) -> Rows:
    for newest in (rows[-_USUALLY:], rows):
        switches = np.flatnonzero(newest["flags"] & Flag.SWITCH)
        of_setting = newest[switches[-1] :] if len(switches) else newest
        plain = of_setting[without_ends(of_setting, of_setting["flags"] == 0)]
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


def steady(rows: Rows) -> Rows:
    """Return a copy of the rows without flags, single spikes and ends of epochs, each with its
    share of its call's host time.

    Slow steps that recur, or that follow one another, are typical of the run and are kept.
    """
    kept: Rows = np.asarray(rows).take(np.flatnonzero(_is_steady(rows)))
    kept["host_ms"] = spread_hosts(kept["host_ms"])
    return kept


def steady_breakdown(rows: Rows) -> Breakdown | None:
    """Split the time of the steady rows; None without any. They are not copied: ten million take
    360 MB, and a second."""
    kept = _is_steady(rows)
    parts = {name: rows[f"{name}_ms"][kept] for name in (*_PARTS, "copy")}
    return _split({**parts, "host": spread_hosts(parts["host"])})


def _is_steady(rows: Rows) -> NDArray[np.bool_]:
    return without_ends(rows, (rows["flags"] == 0) & ~single_spikes(rows))


def without_ends(rows: Rows, kept: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the mask without the calls that end an epoch: their host part has its callbacks and
    the next one's iterator, 28 ms of steps of 12 ms. Where they are many, in epochs of a few steps,
    they stay."""
    follows = rows["step"][1:] == rows["step"][:-1] + 1
    (at,) = np.nonzero(follows & (rows["flags"][1:] & Flag.EPOCH_START > 0))
    if not len(at):
        return kept
    calls = np.cumsum(rows["host_ms"] != 0) - (rows["host_ms"] != 0)
    others: NDArray[np.bool_] = kept & ~np.isin(calls, calls[at])
    # One more: of epochs of five steps a stretch has a quarter or a little more, as it is cut.
    return others if others.sum() + 1 >= (1 - _ENDS) * kept.sum() else kept


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
    median, p95 = np.quantile(values, (0.5, 0.95)).tolist()
    return Stat(median, float(values.mean(dtype=np.float64)), p95)


# -- single spikes ---------------------------------------------------------------------------------

#: The number of calls that a median host part needs.
_CALLS = 3
#: A step without a flag is a spike if it exceeds the median around it by more than this and by more
#: than that median. A delay of 30 ms is found even in an otherwise short step; in 10 000 plain
#: steps the largest excess was 14 ms.
LEAST_MS = 25.0
#: The number of steps in a median, and the distance between medians: each one costs time.
_AROUND = 65
_STRIDE = 16
_ANCHORS_AT_ONCE = 8192
#: More than `_SINGLE` slow steps within `_NEAR` steps on either side are typical of the run and no
#: spikes: every tenth batch is slow, or a stretch starves.
_NEAR = 100
_SINGLE = 2


def single_spikes(rows: Rows) -> NDArray[np.bool_]:
    """Return a mask of the spikes among rows of `core.rows.STEP`.

    A step without a flag is a spike where it exceeds the median of the unflagged steps around it by
    more than max(25 ms, median), and where such steps are rare: one or two in 200.
    """
    plain = rows["flags"] == 0
    if not plain.any():
        return np.zeros(len(rows), dtype=np.bool_)
    times = rows["wait_ms"] + rows["compute_ms"] + _hosts_over_usual(rows)
    medians = _medians_around(times, plain)
    return _rare(plain & (times - medians > np.maximum(LEAST_MS, medians)))


def spread_hosts(hosts: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the host part of each call spread over its steps; unchanged where each step is a call.

    Steps of a call in progress keep their 0.
    """
    ends = np.flatnonzero(hosts)
    if not len(ends) or len(ends) == len(hosts):
        return hosts
    sizes = np.diff(ends, prepend=-1)
    spread = hosts.copy()
    spread[: ends[-1] + 1] = np.repeat(hosts[ends] / sizes, sizes)
    return spread


def _hosts_over_usual(rows: Rows) -> NDArray[np.float32]:
    """Return each row's host part; where calls have several steps, its excess over the median of
    all calls."""
    hosts: NDArray[np.float32] = rows["host_ms"]
    if np.count_nonzero(hosts) == len(hosts):
        return hosts
    calls = hosts[(hosts > 0) & (rows["flags"] == 0)]
    if len(calls) < _CALLS:
        return hosts
    over: NDArray[np.float32] = np.maximum(hosts - np.median(calls), 0)
    return over


def _medians_around(times: NDArray[np.float32], plain: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return the median of the unflagged step times around each row; at least one is unflagged."""
    ordinary = times[plain]
    # The windows are centred on every `_STRIDE`th step.
    centres = np.arange(0, len(ordinary), _STRIDE) + _STRIDE // 2
    starts = np.clip(centres - _AROUND // 2, 0, max(len(ordinary) - _AROUND, 0))
    windows = sliding_window_view(ordinary, min(_AROUND, len(ordinary)))
    medians = np.concatenate(
        [
            _medians(windows[starts[at : at + _ANCHORS_AT_ONCE]])
            for at in range(0, len(starts), _ANCHORS_AT_ONCE)
        ]
    )
    # That of the nearest unflagged step before the row, or of the first.
    anchors = np.maximum(np.cumsum(plain, dtype=np.int32) - 1, 0) // _STRIDE
    of_rows: NDArray[np.float32] = medians[anchors]
    return of_rows


def _medians(windows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the median of each window; `np.median` orders each a second time, in search of NaN."""
    middle, is_odd = divmod(windows.shape[1], 2)
    if not is_odd:
        return np.asarray(np.median(windows, axis=1))
    return np.partition(windows, middle, axis=1)[:, middle]


def _rare(is_spike: NDArray[np.bool_]) -> NDArray[np.bool_]:
    at = np.flatnonzero(is_spike)
    near = np.searchsorted(at, at + _NEAR, side="right") - np.searchsorted(
        at, at - _NEAR, side="left"
    )
    rare = np.zeros(len(is_spike), dtype=np.bool_)
    rare[at[near <= _SINGLE]] = True
    return rare
