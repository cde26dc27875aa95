"""The advice on the time between epochs, and the callbacks that take time there or after each
step."""

from __future__ import annotations

import statistics
from bisect import bisect_left
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core.events import EpochEnded, Paused
from tfwatch.core.rows import Flag
from tfwatch.judge.findings import code_suggestions, input_advice
from tfwatch.judge.findings.situation import Advice

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tfwatch.core.events import Event
    from tfwatch.core.rows import Rows
    from tfwatch.judge.findings.situation import Situation
    from tfwatch.judge.steps.time_breakdown import TimeSpent

#: Above this share of an epoch, the time between epochs is the finding: the threshold of HIGHLY.
BETWEEN_SHARE = 0.2
_LOOP_BEGINS = Advice(
    "one iterator for all epochs: iter(dataset.repeat()) before the loop, in place of a new one"
    " each epoch",
    code_suggestions.ONE_ITERATOR_OF_LOOP,
)
_LOOP_ENDS = Advice("do less between two epochs of the loop (validation, saving), or longer epochs")
_LOOP_VALIDATES = Advice("validate less often or on less data; or longer epochs")
_BETWEEN_FITS = Advice(
    "do less between two calls of fit (predict, saving), or more epochs in each call",
    code_suggestions.FEWER_FITS,
)
_FIT_BEGINS = Advice("fewer, longer fits: more epochs in each call", code_suggestions.FEWER_FITS)
_VALIDATION = Advice(
    "validate less often or on less data: validation_freq=2, validation_steps; or longer epochs",
    code_suggestions.VALIDATE_LESS,
)
_FIRST_BATCH = "first batch"
#: A callback is named where it takes this share of the host time of a step, this many times; one
#: that takes this share of an epoch's end is named too.
_MOST = 0.5
_TIMES = 3
#: A callback's part of an epoch's end is this near to Watch's own.
_NEAR_NS = 100_000_000


def parts_between(
    spent: TimeSpent, end: str = "epoch's end", first: str = _FIRST_BATCH
) -> dict[str, float]:
    """Return the seconds between epochs by part, the longest first; parts below a tenth are left
    out.

    end: the name of the last part. first: that of the first batch.
    """
    parts = {"validation": spent.validation_s, first: spent.first_batch_s, end: spent.epoch_end_s}
    longest = sorted(
        (part for part in parts if parts[part] >= 0.1 * spent.between_s),
        key=lambda part: -parts[part],
    )
    return {part: parts[part] for part in longest}


def advise_between_epochs(now: Situation, spent: TimeSpent) -> Advice:
    """Advise on epochs that lose most time between them."""
    part = next(iter(parts_between(spent)))
    if part == _FIRST_BATCH and now.setting.has_shuffle_fill and not now.setting.fits_end_epochs:
        return _advise_shuffle(now)
    if now.has_own_loop:
        return {_FIRST_BATCH: _LOOP_BEGINS, "validation": _LOOP_VALIDATES}.get(part, _LOOP_ENDS)
    if part == "epoch's end":
        return _advise_epoch_end(now, spent)
    if part == "validation":
        return _VALIDATION
    if now.setting.fits_end_epochs:
        return _FIT_BEGINS
    return input_advice.advise_longer_epochs(now)


def _advise_shuffle(now: Situation) -> Advice:
    """Advise on a buffer that is filled before each epoch: a shuffle of what costs nothing fills at
    once.

    A `repeat` at the end of the pipeline keeps its iterator, and still has each epoch wait for the
    buffer.
    """
    shuffle, below = (
        code_suggestions.call(now.manifest.filled_shuffle or "shuffle"),
        now.manifest.map_below_shuffle,
    )
    edit = code_suggestions.shuffle_lines(
        shuffle, below, now.manifest.steps_per_epoch, of_loop=now.has_own_loop
    )
    if below:
        first = f"put .{shuffle} before .{code_suggestions.call(below)}"
        return Advice(f"{first}, or .repeat() right after .shuffle()", edit)
    one = "one iterator" if now.has_own_loop else "steps_per_epoch"
    return Advice(f".repeat() right after .{shuffle} with {one}, or a smaller buffer", edit)


def _advise_epoch_end(now: Situation, spent: TimeSpent) -> Advice:
    slow = now.setting.slow_epoch_end
    if slow is None or slow.took_ms < _MOST * spent.epoch_end_s * 1e3:
        if now.setting.fits_end_epochs:
            return _BETWEEN_FITS
        longer = input_advice.advise_longer_epochs(now)
        return Advice(f"{longer.sentence}, or less in on_epoch_end", longer.edit)
    if slow.cause == "checkpoint":
        return Advice(
            f"save less often ({slow.detail}), or longer epochs", code_suggestions.SAVE_LESS
        )
    return Advice(f"do less in {slow.detail}.on_epoch_end, or longer epochs")


def find_slow_epoch_end(events: Iterable[Event]) -> Paused | None:
    """Find the callback that takes most of the epochs' ends, with its milliseconds per epoch; None
    without one.

    Events report only callbacks of 15 ms or more.
    """
    events = list(events)
    ends = [event.at_ns for event in events if isinstance(event, EpochEnded)]
    took: dict[tuple[str, str], float] = {}
    for event in events:
        if (
            isinstance(event, Paused)
            and event.cause in ("callback", "checkpoint")
            and _is_near(event, ends)
        ):
            took[event.cause, event.detail] = (
                took.get((event.cause, event.detail), 0.0) + event.took_ms
            )
    if not took:
        return None
    cause, name = max(took, key=lambda one: took[one])
    return Paused(ends[-1], cause, took[cause, name] / len(ends), name)


def _is_near(pause: Paused, ends: list[int]) -> bool:
    """Return True if an epoch ended during a pause, or just before or after it; `ends` are
    sorted."""
    at = bisect_left(ends, pause.at_ns - round(pause.took_ms * 1e6) - _NEAR_NS)
    return at < len(ends) and ends[at] <= pause.at_ns + _NEAR_NS


def has_shuffle_fill(rows: Rows) -> bool:
    """Return True if a shuffle buffer was filled before the newest epoch's first batch: a cache
    fills later ones."""
    starts = np.flatnonzero(rows["flags"] & np.uint16(Flag.EPOCH_START))
    return len(starts) > 0 and bool(rows["flags"][starts[-1]] & np.uint16(Flag.SHUFFLE_FILL))


def find_slow_callback(pauses: Iterable[Paused], host_ms: float) -> str:
    """Return the class of the callback that takes most of the `host_ms` of a step; empty where
    unknown.

    Events report only callbacks of 15 ms or more.
    """
    took: dict[str, list[float]] = {}
    for pause in pauses:
        if pause.cause in ("callback", "checkpoint"):
            took.setdefault(pause.detail, []).append(pause.took_ms)
    usual_ms = {
        name: statistics.median(times) for name, times in took.items() if len(times) >= _TIMES
    }
    slowest = max(usual_ms, key=lambda name: usual_ms[name], default="")
    return slowest if slowest and usual_ms[slowest] >= _MOST * host_ms else ""
