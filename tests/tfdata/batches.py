"""Batches of a switchable pipeline, fetched as `Fetch` does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfwatch.tfdata.live_switch import SwitchablePipeline


def next_batch(pipeline: SwitchablePipeline) -> Any:
    """Return the next batch, also of the pipelines that follow the current one."""
    while True:
        try:
            return pipeline.batches.next()
        except StopIteration:
            if not pipeline.has_successor:
                raise
        pipeline.take_over()


def without_autotune() -> Any:
    """Return the options of a data set without autotuning: tf.data keeps no model of its stages,
    and deletes its iterator without a wait."""
    import tensorflow as tf

    chosen = tf.data.Options()
    chosen.autotune.enabled = False
    return chosen
