"""Epochs of a rebuilt pipeline with random switches among its batches."""

import itertools
import random
from dataclasses import replace
from typing import Any

import tensorflow as tf

from tests.tfdata.batches import next_batch
from tests.tfdata.grammar import built, names
from tfwatch.core.knobs import Knobs
from tfwatch.tfdata.live_switch import SwitchablePipeline
from tfwatch.watch.fit.switching.script_pipeline import ScriptPipeline

#: Settings that begin an epoch, and settings whose pipelines restart, so that a switch takes a
#: millisecond. To build a pipeline takes fifty, and to begin one that cannot restart fifteen: every
#: tenth switch.
FIRST = (Knobs("default", "default"), Knobs("auto", "auto"))
RESTARTING = (Knobs("off", "3"), Knobs("1", "2"), Knobs("1", "off"))
NEW_EACH_TIME = Knobs("off", "default")


def made_of(text: str) -> Any:
    """Return the data set of a text in the words of the grammar; one that begins with a dot stands
    over 201 numbers: with batches of two, 100 batches an epoch."""
    return built(f"Dataset.range(201){text}" if text.startswith(".") else text, names(""))


def in_python(batch: Any) -> Any:
    """Return a batch as lists."""
    return tf.nest.map_structure(lambda part: part.numpy().tolist(), batch)


def script_of(data: Any) -> Any:
    """Return the pipeline of a script over a data set, or of its iterator, as it was read."""
    script = ScriptPipeline()
    script.read(iter(data))
    return script


def replayed(iterator: Any, script: Any, got: list[Any]) -> Any:
    """Return a source that a thread takes to the place of an iterator, which gives batches to `got`
    meanwhile."""
    replay = script.replay(iterator, len(got))
    for batch in itertools.islice(iterator, 2):
        got.append(in_python(batch))
        replay.follow(len(got))
    return replay.finish()


def rebuilt_epoch(
    iterator: Any, script: Any, chooser: random.Random, *, cache: bool = False
) -> tuple[list[Any], int]:
    """Return the batches of an epoch, and the number of switches among them.

    cache: it begins with the cache on.
    """
    waits = cache or bool(script.why_not_now) or bool(script.why_not)
    got = [in_python(next(iterator)) for _ in range(0 if waits else chooser.randrange(4))]
    pipeline, switches = SwitchablePipeline(script.build), 0
    first, others = chooser.choice(FIRST), chooser.sample(RESTARTING, 2)
    knobs = replace(chooser.choice((first, *others)), cache="on" if cache else "off")
    is_far = bool(got) and chooser.random() < 0.5
    source = replayed(iterator, script, got) if is_far else script.source(iterator, len(got), knobs)
    pipeline.start(source, first)
    while True:
        if not pipeline.is_switching:
            pipeline.switch(NEW_EACH_TIME if switches % 10 == 5 else others[switches % 2])
            switches += 1
        try:
            batch = next_batch(pipeline)
        except StopIteration:
            break
        got.append(in_python(pipeline.batches.shape.pack(batch)))
    pipeline.close()
    return got, switches
