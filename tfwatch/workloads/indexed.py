"""The source of a workload whose examples have numbers: batches of numbers, cheap to make and to gate."""

from __future__ import annotations

import math
import secrets
from typing import TYPE_CHECKING

from tfwatch.core.knobs import Knobs
from tfwatch.training import hands

if TYPE_CHECKING:
    import tensorflow as tf

    from tfwatch.training.shuffle import Shuffle
    from tfwatch.workloads.workload import Settings


def seed_of(settings: Settings) -> int:
    """Of a source's shuffle: what was asked for, else another one each time."""
    return secrets.randbits(31) if settings.seed is None else settings.seed


def source(shuffle: Shuffle, batch_size: int) -> tf.data.Dataset:
    """Numbers, int64 of shape [batch]; each pass shuffles anew, the same for the same seed."""
    return shuffle.numbers.batch(batch_size).with_options(hands.options(Knobs())).with_options(hands.untuned())


def in_order(count: int, batch_size: int) -> tf.data.Dataset:
    """Numbers as `source` gives them, in order; for validation."""
    import tensorflow as tf

    return tf.data.Dataset.range(count).batch(batch_size).with_options(hands.untuned())


def finished(batches: tf.data.Dataset, knobs: Knobs) -> tf.data.Dataset:
    """The end of every pipeline: prefetch as asked, and nothing that works ahead unasked."""
    ahead = hands.buffer_size(knobs.prefetch)
    return (batches if ahead is None else batches.prefetch(ahead)).with_options(hands.options(knobs))


def steps_per_epoch(count: int, batch_size: int) -> int:
    """Batches of an epoch, the ragged last one with them."""
    return math.ceil(count / batch_size)
