"""The first batch of an epoch: a new iterator, and a shuffle buffer that fills."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.findings import code_suggestions, input_advice
from tfwatch.judge.findings.finding import Advice, Fact, Finding

if TYPE_CHECKING:
    from tfwatch.judge.findings.situation import Situation

_LOOP_BEGINS = Advice(
    "one iterator for all epochs: iter(dataset.repeat()) before the loop, in place of a new one"
    " each epoch",
    code_suggestions.ONE_ITERATOR_OF_LOOP,
)
_FEWER_FITS = Advice("fewer, longer fits: more epochs in each call", code_suggestions.FEWER_FITS)


def find(now: Situation) -> Finding | None:
    """Find the time until the epochs' first batches."""
    regime = now.setting.regime
    spent = regime.spent
    first_s = regime.typical_s("first_batch_s")
    if not first_s:
        return None
    filled = now.manifest.filled_shuffle or "a shuffle buffer"
    fills = regime.fills_shuffle
    each = units.duration(first_s / max(regime.epochs, 1))
    what = f"filling {filled}" if fills else "a new iterator"
    steps = units.counted(round(spent.steps / max(regime.epochs, 1)), "step")
    brief = f"the first batch takes {each} per epoch of {steps}"
    advice = _advise(now)
    done = 1.0 if now.is_whole else _share_done(now)
    return Finding(
        "shuffle-fill" if fills else "first-batch",
        f"BETWEEN EPOCHS {units.percent(now.setting.regime.share(first_s))}",
        f"{brief}: {what}",
        advice.sentence,
        advice.edit,
        brief=brief,
        where=filled if fills else "",
        evidence=(Fact("first_batch", first_s, "s"), Fact("epochs", regime.epochs)),
        claims={"first_batch_s": _given_back_s(now, first_s) * done},
    )


def _given_back_s(now: Situation, first_s: float) -> float:
    """Return the seconds that the remedy gives back: maps that filled a shuffle buffer then run
    during the steps, and hide in their compute at most."""
    spent = now.setting.regime.spent
    hides = now.setting.regime.fills_shuffle and now.manifest.map_below_shuffle
    return min(first_s, spent.compute_s + spent.copy_s + spent.host_s) if hides else first_s


def _share_done(now: Situation) -> float:
    """Return the share of the first epoch that is done: its first batch is a part of all of it."""
    planned = now.manifest.steps_per_epoch
    regime = now.setting.regime
    return min(1.0, regime.spent.steps / planned) if planned and regime.epochs == 1 else 1.0


def _advise(now: Situation) -> Advice:
    regime = now.setting.regime
    if regime.fills_shuffle:
        return _advise_shuffle(now)
    if now.has_own_loop:
        return _LOOP_BEGINS
    if 2 * regime.fits > regime.epochs > 1:
        return _FEWER_FITS
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
