"""The memory of trainings against the estimate of `tfwatch train` and `tfwatch bench`.

    python -m tests.bench.estimate [WORKLOAD ...]

Each configuration trains six steps in a separate process; an `alone` one runs the operation that `tfwatch bench` times.
Prints the estimate, the growth of the process' largest resident memory after TensorFlow's import, and the ratio. Exits
with 1 where one takes more than estimated: the estimate must warn before memory runs out.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from typing import Any

import psutil

from tfwatch.checks import bench_program
from tfwatch.core.knobs import Knobs
from tfwatch.workloads import memory_estimate, registry

STEPS = 6
CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("matmul", {"size": 2048}),
    ("matmul", {"size": 4096}),
    ("conv", {"batch_size": 16}),
    ("conv", {"batch_size": 32}),
    ("cnn", {"batch_size": 128, "image_size": 128}),
    ("cnn", {"batch_size": 32, "image_size": 512}),
    ("cnn-loop", {"batch_size": 4096}),
    ("dense", {"batch_size": 128}),
    ("cifar10", {"batch_size": 512}),
    ("cifar10", {"batch_size": 4096}),
    ("large-images", {"batch_size": 64}),
    ("transfer", {"batch_size": 32, "weights": "none"}),
    ("transfer", {"batch_size": 64, "weights": "none"}),
    ("timeseries", {"batch_size": 4096}),
    ("array", {"batch_size": 16384}),
    ("generator", {"batch_size": 8192}),
)
ALONE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("matmul", {"size": 8192}),
    ("conv", {"batch_size": 64}),
)


def main(names: list[str]) -> None:
    """Run the benchmark."""
    print("workload                                     estimate       grew   ratio")
    short = False
    for name, settings in CASES:
        needed = memory_estimate.needed_bytes(name, registry.settle(name, settings))
        short |= (not names or name in names) and is_short("train", name, settings, needed)
    for name, settings in ALONE:
        needed = memory_estimate.needed_alone_bytes(name, registry.settle(name, settings))
        short |= (not names or name in names) and is_short("alone", name, settings, needed)
    sys.exit(short)


def is_short(how: str, name: str, settings: dict[str, Any], needed: int | None) -> bool:
    """Print a row; return True where it took more than estimated."""
    words = [sys.executable, "-m", "tests.bench.estimate", how, name, json.dumps(settings)]
    grew = int(
        subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()[-1]
    )
    assert needed
    label = " ".join(
        [
            name,
            *(f"{key}={value}" for key, value in settings.items()),
            *(["alone"] if how == "alone" else []),
        ]
    )
    print(
        f"{label:42} {needed / 1e6:7.0f} MB {grew / 1e6:7.0f} MB   {grew / needed:5.2f}", flush=True
    )
    return grew > needed


def measure(how: str, name: str, settings: dict[str, Any]) -> None:
    """Train, or run the operation, and print the bytes by which the process grew."""
    import keras

    keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)]).compile("adam", "mse")
    before = psutil.Process().memory_info().rss
    if how == "alone":
        run_operation(name, settings)
    else:
        train(name, settings)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(most * (1 if sys.platform == "darwin" else 1024) - before)


def run_operation(name: str, settings: dict[str, Any]) -> None:
    """Run six times the call that `tfwatch bench` times."""
    step, _ = bench_program.step_of(name, registry.settle(name, settings))
    for _ in range(STEPS):
        step()


def train(name: str, settings: dict[str, Any]) -> None:
    """Train six steps after a prefetch of one batch."""
    prepared = registry.load(name).prepare(
        registry.settle(name, {"seed": 1, **settings}), lambda _: None
    )
    model = prepared.model()
    batches = prepared.pipeline(prepared.source, Knobs(fast_pipeline=True, prefetch=1)).take(STEPS)
    if prepared.loop:
        body = prepared.loop(model)
        for batch in batches:
            body.train(batch)
    else:
        model.fit(batches, verbose=0)


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if sys.argv[1:2] in (["train"], ["alone"]):
        measure(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
    else:
        main(sys.argv[1:])
