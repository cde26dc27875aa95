"""The first batch of an epoch: a new iterator, and a shuffle buffer that fills.

Remedy: a smaller shuffle buffer, or a shuffle of file names before the map that reads them; one
iterator for all epochs (`.repeat()` with `steps_per_epoch`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.judge.findings.finding import Advice, Finding
from tfwatch.judge.findings.situation import SourceKind

if TYPE_CHECKING:
    from tfwatch.judge.findings.situation import Situation

_LOOP_BEGINS = Advice(
    "one iterator for all epochs: iter(dataset.repeat()) before the loop, in place of a new one"
    " each epoch",
    "batches = iter(dataset.repeat())  # before the loop; next(batches) in each step",
)
#: Rows of 2 kB in batches of 256 took 0.4 ms a batch this way, as in Keras, and 1.3 ms by
#: `from_tensor_slices`.
_FROM_ARRAYS = """with tf.device("CPU"): x, y = tf.constant(x), tf.constant(y)
order = tf.data.Dataset.range(len(x)).shuffle(len(x)).batch(batch_size).repeat()
rows = lambda n: (tf.gather(x, n), tf.gather(y, n))
dataset = order.map(rows, num_parallel_calls=tf.data.AUTOTUNE)
"""
#: A deleted iterator waits for tf.data's autotuning thread where that misses its wake-up: for 0.4
#: of its life in the mean, as the thread's period doubles, up to 60 s. Four fits of eight epochs of
#: 1 s waited for 1.8 s before first batches with an iterator for each epoch, and with one for all
#: for 0.3 s, and 1.8 s at the end.
_LAST_WAIT, _LONGEST_WAIT_S = 0.4, 60.0
_FEWER_FITS = Advice(
    "fewer, longer fits: more epochs in each call",
    "model.fit(..., epochs=epochs)  # in place of a loop over fit",
)


def find(now: Situation) -> Finding | None:
    """Find the time until the epochs' first batches."""
    regime, spent, epochs = now.regime, now.regime.spent, max(now.regime.epochs, 1)
    first_s = regime.typical_s("first_batch_s")
    if not first_s:
        return None
    fills, filled = regime.fills_shuffle, now.manifest.filled_shuffle or "a shuffle buffer"
    brief = f"the first batch takes {units.duration(first_s / epochs)} {per_epoch(now)}"
    advice = _advise(now)
    given_s = max(first_s - _own_work_s(now), 0.0)
    if fills and now.manifest.map_below_shuffle:
        # Maps that filled the buffer then run during the steps, and hide in them at most: six pairs
        # on a Xeon gave back 0.93 to 1.04 of it, but for their waits for autotuning.
        given_s = min(first_s, spent.compute_s + spent.copy_s + spent.host_s)
    planned = now.manifest.steps_per_epoch
    if planned and regime.epochs == 1 and not now.is_whole:
        # The first batch is a part of all of its epoch.
        given_s *= min(1.0, spent.steps / planned)
    return Finding(
        "shuffle-fill" if fills else "first-batch",
        now.label("BETWEEN EPOCHS", first_s),
        f"{brief}: {f'filling {filled}' if fills else 'a new iterator'}",
        advice.sentence,
        advice.edit,
        brief=brief,
        where=filled if fills else "",
        claims={"first_batch_s": given_s},
        once_s=0.0 if fills else min(_last_wait_s(now, first_s), given_s),
    )


def per_epoch(now: Situation) -> str:
    """Return `per epoch of 25 steps`, also where a switch came in the middle of one; of several
    fits the mean."""
    regime = now.regime
    planned = now.manifest.steps_per_epoch if regime.fits <= 1 else None
    steps = planned or round(regime.spent.steps / max(regime.epochs, 1))
    return f"per epoch of {units.counted(steps, 'step')}"


def _own_work_s(now: Situation) -> float:
    """Return the time that the limiting stage works for the first batches, beyond the usual wait:
    it has no less to do in longer epochs."""
    if now.split is None or now.bottleneck is None or now.stages is None:
        return 0.0
    return max(now.stages.rate_ms - now.split.wait.mean, 0.0) / 1e3 * now.regime.epochs


def _last_wait_s(now: Situation, first_s: float) -> float:
    """Return the wait for tf.data's thread that a single iterator has at its end, of those that do
    not recur in each epoch."""
    irregular_s = first_s - now.regime.recurring_s("first_batch_s")
    return min(irregular_s, _LAST_WAIT * (now.regime.judged_s - first_s), _LONGEST_WAIT_S)


def _advise(now: Situation) -> Advice:
    regime = now.regime
    if regime.fills_shuffle:
        return _advise_shuffle(now)
    if now.has_own_loop:
        return _LOOP_BEGINS
    if 2 * regime.fits > regime.epochs > 1:
        return _FEWER_FITS
    return advise_longer_epochs(now)


def _advise_shuffle(now: Situation) -> Advice:
    """Advise on a buffer that is filled before each epoch: a shuffle of what costs nothing fills at
    once.

    A `repeat` at the end of the pipeline keeps its iterator, and still has each epoch wait for the
    buffer.
    """
    shuffle = _call(now.manifest.filled_shuffle or "shuffle")
    steps = _fit(now, "dataset")
    then = "batches = iter(dataset) before the loop, next(batches) in each step"
    repeat = f"dataset = dataset.{shuffle}.repeat()  # the buffer stays full; then "
    repeat = f"{repeat}{then if now.has_own_loop else steps}"
    if not now.manifest.map_below_shuffle:
        one = "one iterator" if now.has_own_loop else "steps_per_epoch"
        words = f".repeat() right after .{shuffle} with {one}, or a smaller buffer"
        return Advice(words, repeat)
    below = _call(now.manifest.map_below_shuffle)
    before = f"dataset = dataset.{shuffle}.{below}  # in place of .{below}.{shuffle}"
    one, line = "", ""
    if not now.has_own_loop:
        one, line = ", with .repeat() and steps_per_epoch", f"\n{one_iterator_line(now)}"
    return Advice(
        f"put .{shuffle} before .{below}{one}, or .repeat() right after .shuffle()",
        f"{before}{line}\n# or: {repeat}",
    )


def _call(stage: str) -> str:
    """Return a stage as a call: `map(...)` for `map`, whose function has no name."""
    return stage if stage.endswith(")") else f"{stage}(...)"


def advise_longer_epochs(now: Situation) -> Advice:
    """Advise on longer epochs for this kind of data."""
    kind = now.origin
    if kind is SourceKind.PY_DATASET:
        return Advice(
            "longer epochs: let the PyDataset's __len__ span several passes over the data"
        )
    if kind is SourceKind.GENERATOR:
        return Advice("longer epochs: a larger steps_per_epoch")
    if kind is not SourceKind.ARRAYS:
        return Advice("longer epochs (.repeat() with steps_per_epoch)", one_iterator_line(now))
    line = one_iterator_line(now, "dataset.prefetch(tf.data.AUTOTUNE)")
    return Advice(
        "longer epochs (tf.data's .repeat() with steps_per_epoch)", f"{_FROM_ARRAYS}{line}"
    )


def one_iterator_line(now: Situation, dataset: str = "dataset.repeat()") -> str:
    """Return the line of a `fit` whose epochs have one iterator."""
    return f"{_fit(now, dataset)}  # one iterator for all epochs"


def _fit(now: Situation, dataset: str) -> str:
    steps = now.manifest.steps_per_epoch or "..."
    return f"model.fit({dataset}, steps_per_epoch={steps}, epochs=...)"
