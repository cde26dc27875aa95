"""Batches that Python reads slowly: all of them, or now and then one."""

import time

import keras
import tensorflow as tf
from drawn import cause, dense, normal, remedied, rng, tensor

batch, columns, layers, calls, epochs = 32, 64, 1, None, 1
options = tf.data.Options()
match cause:
    case "waiting_reads":  # of a remote store, one after another
        batch, units = rng.choice([32, 64]), rng.choice([256, 512, 1024])
        columns, layers = 128, 2
        wait_s, steps = rng.choice([0.01, 0.02, 0.04]), 200
        calls, epochs = 8 if remedied else None, round(rng.choice([0.08, 0.12]) / wait_s)
    case "python_dataset":
        wait_s, units, steps = rng.choice([0.02, 0.03, 0.05]), rng.choice([128, 256]), 150
        epochs = 3
    case "stalls":  # the storage does not answer for seconds
        units, batch, layers = rng.choice([256, 512]), rng.choice([64, 128]), 2
        one_in, slow_s, steps = rng.choice([80, 120, 160]), rng.choice([0.7, 1.0, 1.5, 2.0]), 1800
    case "kept_order":  # a parallel map waits for single slow elements
        units, calls, steps = rng.choice([128, 256]), rng.choice([8, 12, 16]), 500
        one_in, slow_s = rng.choice([30, 40, 50]), rng.choice([0.3, 0.4, 0.5])
        options.threading.private_threadpool_size, epochs = calls, 2
rows = normal(batch, columns)


def read(n):
    match cause:
        case "stalls":
            time.sleep(slow_s if n % one_in == one_in - 1 and not remedied else 0)
        case "kept_order":
            time.sleep(slow_s if n % one_in == 7 else 0.002)
        case _:
            time.sleep(wait_s)
    return rows


def batch_of(n):
    x = tensor(read, n, rows.shape)
    return x, x[:, :1]


class Files(keras.utils.PyDataset):
    def __len__(self):
        return steps

    def __getitem__(self, n):
        return read(n), rows[:, :1]


if cause == "python_dataset":
    data = Files(workers=16, max_queue_size=32) if remedied else Files()
else:
    is_ordered = not (cause == "kept_order" and remedied)
    data = tf.data.Dataset.range(steps)
    data = data.map(batch_of, num_parallel_calls=calls, deterministic=is_ordered)
    data = data.with_options(options)
    if cause == "stalls" or (cause == "waiting_reads" and remedied):
        data = data.prefetch(2 if cause == "stalls" else 8)
model = dense(columns, units, layers)
model.compile("sgd", "mse")
model.fit(data, epochs=epochs, verbose=2)
