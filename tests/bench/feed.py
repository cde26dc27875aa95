"""The tf.data service: the data wait share without it and with 1 to 4 workers, and the number forecast.

    python -m tests.bench.feed [SECONDS]

A map decodes JPEGs, one call at a time, for steps that sleep: two lengths of step, of which the shorter one asks for
more workers. SECONDS: of each measurement, 7. Takes two minutes; for a machine with at least eight cores.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")  # the steps sleep

import tensorflow as tf

from tfwatch.analysis.findings.feed_advice import forecast_workers
from tfwatch.tfdata.feed.moved_part import find_moved_part
from tfwatch.tfdata.feed.processes import start_local

_BATCH = 8
#: The supply over the step: 1.6 asks for two workers, 3.2 for four.
_STARVING = (1.6, 3.2)
_FED_SHARE = 0.05
_WARM_UP = 20
_WORKERS = (1, 2, 3, 4)
_ENDLESS = 10**9
_JPEGS = 16


def _jpeg(seed: int) -> Any:
    """Return a JPEG of 960x720 with the detail of a photograph."""
    noise = tf.random.stateless_uniform((90, 120, 3), seed=(seed, 2), maxval=256, dtype=tf.int32)
    smooth = tf.image.resize(tf.cast(noise, tf.float32), (720, 960), method="bicubic")
    return tf.io.encode_jpeg(tf.cast(tf.clip_by_value(smooth, 0, 255), tf.uint8))


def make_pipeline() -> Any:
    """Return a pipeline whose map runs one call at a time."""
    jpegs = tf.constant([_jpeg(seed).numpy() for seed in range(_JPEGS)])

    def decode(number: Any) -> tuple[Any, Any]:
        jpeg = tf.gather(
            jpegs, number % _JPEGS
        )  # of a single one TensorFlow would decode a constant once
        image = tf.image.resize(tf.io.decode_jpeg(jpeg, channels=3), (224, 224))
        return tf.cast(image, tf.uint8), number

    options = tf.data.Options()
    options.experimental_optimization.map_parallelization = False
    data = tf.data.Dataset.range(_ENDLESS).map(decode).batch(_BATCH, drop_remainder=True)
    return data.prefetch(4).with_options(options)


def measure(data: Any, step_s: float, lasts_s: float) -> tuple[float, float]:
    """Return the milliseconds of a step, and the data wait as a share of it."""
    batches = iter(data)
    for _ in range(_WARM_UP):
        next(batches)
        time.sleep(step_s)
    waited_s, steps = 0.0, 0
    began_s = now_s = time.perf_counter()
    while now_s - began_s < lasts_s:
        next(batches)
        waited_s += time.perf_counter() - now_s
        time.sleep(step_s)
        steps, now_s = steps + 1, time.perf_counter()
    return 1e3 * (now_s - began_s) / steps, waited_s / (now_s - began_s)


def _measure_all(
    data: Any, steps_s: list[float], lasts_s: float, label: str
) -> list[tuple[float, float]]:
    found = [measure(data, step_s, lasts_s) for step_s in steps_s]
    cells = (f"{step_ms:7.1f} ms/step, data wait {share:4.0%}" for step_ms, share in found)
    print(f"{label:>9}: {'   |'.join(cells)}", flush=True)
    return found


def main(lasts_s: float) -> None:
    """Print the table, and for each length of step the number forecast and the number that it takes."""
    cores = os.cpu_count() or 1
    data = make_pipeline()
    supply_ms, _ = measure(data, 0.0, lasts_s)
    steps_s = [supply_ms / times / 1e3 for times in _STARVING]
    print(
        f"{cores} cores; one batch takes {supply_ms:.1f} ms, a step {[round(1e3 * one, 1) for one in steps_s]} ms"
    )
    before = _measure_all(data, steps_s, lasts_s, "0 workers")
    forecasts = [
        forecast_workers(step_ms, step_ms * (1 - share), _BATCH) for step_ms, share in before
    ]
    shares: dict[int, list[float]] = {}
    for workers in _WORKERS:
        feed = start_local(workers)
        try:
            fed = find_moved_part(data).through(feed.address, is_local=True)
            found = _measure_all(fed, steps_s, lasts_s, f"{workers} workers")
            shares[workers] = [share for _, share in found]
        finally:
            feed.stop()
    for n, forecast in enumerate(forecasts):
        enough = next(
            (workers for workers, found in shares.items() if found[n] <= _FED_SHARE), None
        )
        took = enough or f"more than {_WORKERS[-1]}"
        said = f"forecast {forecast.words}" if forecast else "no forecast: it does not starve"
        print(f"step of {1e3 * steps_s[n]:.1f} ms: {said}; it takes {took}")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 7.0)
