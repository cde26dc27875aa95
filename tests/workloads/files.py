"""The parts of a user's own file, and a function that trains it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests import whole
from tfwatch.workloads import registry

if TYPE_CHECKING:
    from pathlib import Path

    from tfwatch.core.knobs import Knobs
    from tfwatch.runs.control import Scheduled
    from tfwatch.runs.opened import Run
    from tfwatch.training.trainer import Outcome

IMPORTS = "import keras\nimport tensorflow as tf\n"
MODEL = """
def model():
    layers = [keras.Input((4,)), keras.layers.Dense(8, "relu"), keras.layers.Dropout(0.2), keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    model.compile("adam", "mse", metrics=["mean_absolute_error"])
    return model
"""
EXAMPLE = """
def example(n):
    x = tf.random.stateless_uniform((4,), (n, 0))
    return x, tf.reduce_sum(x, keepdims=True)
"""
DATASET = """
def dataset(knobs):
    numbers = tf.data.Dataset.range(100).shuffle(100, seed=1)
    return numbers.map(example, num_parallel_calls=knobs.num_parallel_calls).batch(8)
"""
LIVE = """
def source():
    return tf.data.Dataset.range(100).shuffle(100, seed=1).batch(8)

def pipeline(source, knobs):
    if knobs.fast_pipeline:
        return source.map(lambda ns: tf.map_fn(example, ns, fn_output_signature=(tf.float32, tf.float32)))
    return source.unbatch().map(example, num_parallel_calls=knobs.num_parallel_calls).batch(8)
"""
VALIDATION = """
def validation():
    return tf.data.Dataset.range(100, 120).map(example).batch(8)
"""
ONCE = IMPORTS + EXAMPLE + DATASET + MODEL


def train(
    name: str, runs_dir: Path, knobs: Knobs | None = None, *switches: Scheduled, **asked: Any
) -> tuple[Run, Outcome]:
    """Train a file with the given settings and knobs."""
    return whole.train(name, registry.settle(name, asked), runs_dir, *switches, knobs=knobs)
