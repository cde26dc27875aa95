"""One rank of trainings on CPUs with `MultiWorkerMirroredStrategy` and a loop of its own, tracked,
some with a fault.

    python -m tests.bench.rank_program CASES STEPS RUNS_DIR     with TF_CONFIG in the environment

CASES: FAULT-RANK,... One training follows the other, in RUNS_DIR/0, RUNS_DIR/1 and so on. FAULT, on
that rank: none, data (each batch comes 20 ms late), compute (25 ms more in the step), host (20 ms
of Python after it).
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import tensorflow as tf

import tfwatch

LATE_S = 0.02
#: Products of 256 x 256 matrices on one core: about 25 ms.
_PRODUCTS = 48
_WIDTH, _ROWS = 256, 64


def data(fault: str, steps: int) -> Any:
    """Return the batches of a rank."""

    def read(x: Any) -> Any:
        time.sleep(LATE_S if fault == "data" else 0.001)
        return x

    def batch(number: Any) -> Any:
        x = tf.numpy_function(
            read, [tf.fill((_ROWS, _WIDTH), tf.cast(number % 7, tf.float32))], tf.float32
        )
        return tf.ensure_shape(x, (_ROWS, _WIDTH))

    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return tf.data.Dataset.range(steps).map(batch).with_options(options)


def make_step(strategy: Any) -> Any:
    """Return the step of all ranks, which ends in an all-reduce: of a batch, and a number of
    products before it."""
    with strategy.scope():
        weights = tf.Variable(tf.random.stateless_normal((_WIDTH, _WIDTH), (1, 2)) / 16)

    def of_replica(x: Any, more: Any) -> Any:
        with tf.GradientTape() as tape:
            y = x
            for _ in range(4):
                y = tf.tanh(y @ weights)
            loss = tf.reduce_mean(y * y)
        gradient, extra = tape.gradient(loss, weights), tf.zeros((_WIDTH, _WIDTH))
        for _ in tf.range(more):
            extra = tf.tanh((extra + weights) @ weights)
        context = tf.distribute.get_replica_context()
        weights.assign_sub(
            0.01 * context.all_reduce(tf.distribute.ReduceOp.MEAN, gradient + 0 * extra)
        )
        return loss

    return tf.function(lambda x, more: strategy.run(of_replica, (x, more)), jit_compile=False)


def train(step: Any, fault: str, steps: int, runs_dir: Path) -> None:
    """Run one training."""
    more = tf.constant(_PRODUCTS if fault == "compute" else 0)
    for x in tfwatch.track(data(fault, steps), str(runs_dir)):
        step(x, more)
        if fault == "host":
            time.sleep(LATE_S)


def main(cases: str, steps: int, runs_dir: str) -> None:
    """Run the trainings."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    own = str(strategy.cluster_resolver.task_id)
    step = make_step(strategy)
    step(tf.zeros((_ROWS, _WIDTH)), tf.constant(0))
    for number, case in enumerate(cases.split(",")):
        fault, _, rank = case.partition("-")
        train(step, fault if rank == own else "none", steps, Path(runs_dir, str(number)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
