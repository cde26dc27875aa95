"""One rank of a training on CPUs with `MultiWorkerMirroredStrategy` and a loop of its own, tracked, with a fault.

    python -m tests.bench.rank_program FAULT STEPS RUNS_DIR     with TF_CONFIG in the environment

FAULT: none, data (each batch comes 20 ms late), compute (25 ms more in the step), host (20 ms of Python after it).
"""

from __future__ import annotations

import sys
import time
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
        x = tf.numpy_function(read, [tf.fill((_ROWS, _WIDTH), tf.cast(number % 7, tf.float32))], tf.float32)
        return tf.ensure_shape(x, (_ROWS, _WIDTH))

    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return tf.data.Dataset.range(steps).map(batch).with_options(options)


def make_step(strategy: Any, fault: str) -> Any:
    """Return the step of all ranks, which ends in an all-reduce."""
    with strategy.scope():
        weights = tf.Variable(tf.random.stateless_normal((_WIDTH, _WIDTH), (1, 2)) / 16)
    more = tf.constant(_PRODUCTS if fault == "compute" else 0)

    def of_replica(x: Any) -> Any:
        with tf.GradientTape() as tape:
            y = x
            for _ in range(4):
                y = tf.tanh(y @ weights)
            loss = tf.reduce_mean(y * y)
        gradient, extra = tape.gradient(loss, weights), tf.zeros((_WIDTH, _WIDTH))
        for _ in tf.range(more):
            extra = tf.tanh((extra + weights) @ weights)
        context = tf.distribute.get_replica_context()
        weights.assign_sub(0.01 * context.all_reduce(tf.distribute.ReduceOp.MEAN, gradient + 0 * extra))
        return loss

    return tf.function(lambda x: strategy.run(of_replica, (x,)), jit_compile=False)


def main(fault: str, steps: int, runs_dir: str) -> None:
    """Train."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    step = make_step(strategy, fault)
    for x in tfwatch.track(data(fault, steps), runs_dir):
        step(x)
        if fault == "host":
            time.sleep(LATE_S)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
