"""The tf.data service: the data wait share without it and with 1, 2 and 4 workers, and the number forecast.

    python -m tests.bench.feed [STEPS]

A serial map of matrix work starves a step that sleeps. For a machine with at least eight cores.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf

from tfwatch.analysis.tuning.forecasting.feed_workers import forecast_workers
from tfwatch.tfdata.feed.moved_part import find_moved_part
from tfwatch.tfdata.feed.processes import start_local

_BATCH = 8
#: Supply over step: 2.5 asks for three workers.
_STARVING = 2.5
_FED_SHARE = 0.05
_WARM_UP = 20
_WORKERS = (1, 2, 3, 4)


def _work(seed: Any) -> Any:
    """Return an image after work of one core: hashing that no thread pool shares."""
    image = tf.random.stateless_uniform((128 * 128 * 3,), seed=tf.stack([seed, seed]))
    for _ in range(12):
        image = tf.math.sin(image) + tf.math.sqrt(tf.abs(image))
    return tf.reshape(image, (128, 128, 3))


def make_pipeline(steps: int) -> Any:
    """Return a pipeline whose map runs one call at a time."""
    options = tf.data.Options()
    options.experimental_optimization.map_parallelization = False
    options.threading.private_threadpool_size = 2
    data = tf.data.Dataset.range(steps * _BATCH).map(_work).batch(_BATCH, drop_remainder=True)
    return data.prefetch(4).with_options(options)


def measure(data: Any, step_s: float) -> tuple[float, float]:
    """Return the milliseconds of a step, and the data wait as a share of it."""
    waits: list[float] = []
    began = 0.0
    batches = iter(data)
    while True:
        if len(waits) == _WARM_UP:
            began = time.perf_counter()
        asked = time.perf_counter()
        try:
            next(batches)
        except StopIteration:
            break
        waits.append(time.perf_counter() - asked)
        time.sleep(step_s)
    total = asked - began
    return 1e3 * total / (len(waits) - _WARM_UP), sum(waits[_WARM_UP:]) / total


def main(steps: int) -> None:
    """Print the table."""
    supply_ms, _ = measure(make_pipeline(_WARM_UP + steps // 4), 0.0)
    step_s = supply_ms / _STARVING / 1e3
    data = make_pipeline(steps)
    before_ms, share = measure(data, step_s)
    forecast = forecast_workers(before_ms, before_ms * (1 - share), os.cpu_count() or 1)
    print(f"{os.cpu_count()} cores; no service: {before_ms:.1f} ms/step, data wait {share:.0%}")
    print(forecast.words if forecast else "no forecast: it does not starve", flush=True)
    enough = 0
    for workers in _WORKERS:
        feed = start_local(workers)
        try:
            fed = find_moved_part(data).through(feed.address, is_local=True)
            step_ms, share = measure(fed, step_s)
        finally:
            feed.stop()
        enough = enough or (workers if share <= _FED_SHARE else 0)
        print(f"{workers} workers: {step_ms:.1f} ms/step, data wait {share:.0%}", flush=True)
    took = str(enough) if enough else f"more than {_WORKERS[-1]}"
    print(f"forecast {forecast.workers if forecast else 'n/a'}, it takes {took}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
