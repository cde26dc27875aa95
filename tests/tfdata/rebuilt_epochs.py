"""Epochs of a rebuilt pipeline with random switches among its batches."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.tfdata.batches import next_batch
from tfwatch.core.knobs import Knobs

if TYPE_CHECKING:
    import random

#: Settings that begin an epoch, and settings whose pipelines restart, so that a switch takes a millisecond.
FIRST = (Knobs("default", "default"), Knobs("auto", "auto"))
SETTINGS = (Knobs("off", 3), Knobs(1, 2), Knobs(1, "off"), Knobs("off", "default"))


def in_python(batch: Any) -> Any:
    """Return a batch as lists."""
    import tensorflow as tf

    return tf.nest.map_structure(lambda part: part.numpy().tolist(), batch)


def rebuilt_epoch(iterator: Any, script: Any, chooser: random.Random, *, cache: bool = False) -> tuple[list[Any], int]:
    """Return the batches of an epoch, and the number of switches among them. cache: it begins with the cache on."""
    from tfwatch.tfdata.live_switch import SwitchablePipeline

    waits = cache or bool(script.why_not_now) or bool(script.why_not)
    got = [in_python(next(iterator)) for _ in range(0 if waits else chooser.randrange(4))]
    pipeline, switches = SwitchablePipeline(script.build), 0
    knobs = replace(chooser.choice((*FIRST, *SETTINGS)), cache=cache)
    pipeline.start(script.source(iterator, len(got), knobs), chooser.choice(FIRST))
    while True:
        if not pipeline.is_switching:
            pipeline.switch(chooser.choice(SETTINGS))
            switches += 1
        try:
            batch = next_batch(pipeline)
        except StopIteration:
            break
        got.append(in_python(pipeline.batches.shape.pack(batch)))
    pipeline.close()
    return got, switches
