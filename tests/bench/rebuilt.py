"""The time of scripts' own pipelines, rebuilt.

`python -m tests.bench.rebuilt [ROUNDS]` prints wall and CPU time of a batch of a script's own
serial pipeline before and after a switch of workers, also as ratios of the same pipeline written in
parallel; the rounds interleave the forms, and each figure is a median. It exits with 1 where the
untouched pipeline is not the script's own object.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from tests.tfdata.batches import next_batch
from tfwatch.core.knobs import Knobs
from tfwatch.tfdata.live_switch import SwitchablePipeline
from tfwatch.watch.fit.switching.script_pipeline import ScriptPipeline

if TYPE_CHECKING:
    from collections.abc import Callable

_EXAMPLES, _BATCH, _CALLS, _BATCHES = 1024, 16, 2, 40


def _images() -> list[bytes]:
    noise = np.random.default_rng(0).integers(0, 255, (32, 160, 160, 3), dtype=np.uint8)
    return [tf.io.encode_jpeg(image).numpy() for image in noise]


def _decode(image: tf.Tensor) -> tf.Tensor:
    return tf.image.resize(tf.io.decode_jpeg(image, channels=3), [96, 96])


def _script(calls: int | None) -> tf.data.Dataset:
    """Return a pipeline; a table makes its map stateful, so that TensorFlow does not make it
    parallel by itself."""
    numbers = tf.range(32, dtype=tf.int64)
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(numbers, tf.constant(_images())), ""
    )
    data = tf.data.Dataset.range(_EXAMPLES).shuffle(_EXAMPLES, seed=1)
    decoded = data.map(lambda n: _decode(table.lookup(n % 32)), num_parallel_calls=calls)
    return decoded.batch(_BATCH).prefetch(2)


def _bare(data: tf.data.Dataset) -> Callable[[], Any]:
    iterator = iter(data)
    return lambda: next(iterator)


def _rebuilt(data: tf.data.Dataset, knobs: Knobs) -> Callable[[], Any]:
    script, iterator = ScriptPipeline(), iter(data)
    script.read(iterator)
    pipeline = SwitchablePipeline(script.build)
    pipeline.start(script.source(iterator, 0, knobs), knobs)
    return lambda: next_batch(pipeline)


def _batch_ms(take: Callable[[], Any]) -> tuple[float, float]:
    """Return the milliseconds of a batch, wall and CPU."""
    for _ in range(5):
        take()
    start_s, start_cpu_s = time.perf_counter(), time.process_time()
    for _ in range(_BATCHES):
        take()
    wall_s, cpu_s = time.perf_counter() - start_s, time.process_time() - start_cpu_s
    return wall_s * 1e3 / _BATCHES, cpu_s * 1e3 / _BATCHES


def main(rounds: int) -> int:
    """Print the table; return the exit code."""
    serial, parallel = _script(None), _script(_CALLS)
    forms: dict[str, Callable[[], Any]] = {
        "written in parallel": lambda: _bare(parallel),
        "serial, untouched": lambda: _bare(serial),
        "serial, workers 2": lambda: _rebuilt(serial, Knobs("default", str(_CALLS))),
        "serial, rebuilt as written": lambda: _rebuilt(serial, Knobs("default", "default")),
    }
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in forms}
    for _ in range(rounds):
        for name, make in forms.items():
            took[name].append(_batch_ms(make()))
    for name, each in took.items():
        pairs = list(zip(each, took["written in parallel"], strict=True))
        wall, cpu = (statistics.median(one[n] for one in each) for n in (0, 1))
        wall_ratio, cpu_ratio = (
            statistics.median(one[n] / other[n] for one, other in pairs) for n in (0, 1)
        )
        print(
            f"{name:28} wall {wall:6.2f} ms {wall_ratio:5.2f}   CPU {cpu:6.2f} ms {cpu_ratio:5.2f}"
        )
    iterator = iter(serial)
    ScriptPipeline().read(iterator)
    return 0 if iterator._dataset is serial else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rounds", nargs="?", type=int, default=7, help="rounds (7)")
    sys.exit(main(parser.parse_args().rounds))
