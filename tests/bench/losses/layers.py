"""Arrays, and a model of which one part takes most of the step."""

from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from drawn import cause, normal, numbers, remedied, rng

layers, CPU_INFO = keras.layers, Path("/proc/cpuinfo")
optimizer, loss, metrics, compiled = "sgd", "mse", [], "auto"


def normalize(x):
    return np.stack([(row - row.mean()) / (row.std() + 1e-3) for row in np.asarray(x)])


class Normalize(layers.Layer):
    def call(self, x):
        if remedied:
            mean, variance = tf.nn.moments(x, [1], keepdims=True)
            return (x - mean) / (tf.sqrt(variance) + 1e-3)
        call = tf.py_function if eager else tf.numpy_function
        return tf.ensure_shape(call(normalize, [x], tf.float32), x.shape)

    def compute_output_spec(self, x):
        return keras.KerasTensor(x.shape, x.dtype)


match cause:
    case "heavy_metric":
        batch, thresholds = rng.choice([1024, 2048]), rng.choice([400, 800, 1600])
        x = normal(batch * 200, 32)
        y = (x[:, :1] > 0).astype("float32")
        # Thresholds that are not evenly spaced are compared with each prediction.
        marks = sorted(rng.random() for _ in range(thresholds))
        metrics = [] if remedied else [keras.metrics.AUC(thresholds=marks, name="auc")]
        optimizer, loss = "adam", "binary_crossentropy"
        body = [layers.Dense(64, activation="relu"), layers.Dense(1, activation="sigmoid")]
        epochs = rng.choice([60, 80]) * 1024 * 400 // (batch * thresholds)
    case "dense_update":  # Adam updates all rows of a large embedding
        vocabulary, width = rng.choice([100_000, 200_000, 300_000]), rng.choice([32, 64])
        batch = rng.choice([32, 64])
        steps = rng.choice([5_000_000_000, 7_000_000_000]) // (vocabulary * width)
        x = numbers.integers(0, vocabulary, (batch * steps, 12))
        y = numbers.integers(0, 2, batch * steps)
        optimizer, loss = "sgd" if remedied else "adam", "binary_crossentropy"
        body = [layers.Embedding(vocabulary, width), layers.GlobalAveragePooling1D()]
        body += [layers.Dense(32, activation="relu"), layers.Dense(1, activation="sigmoid")]
        epochs = 1
    case "recurrent_loop":  # time steps of many small operations
        batch, steps, units = rng.choice([16, 32]), rng.choice([30, 60]), rng.choice([8, 16, 32])
        x = normal(batch * 100, steps, 8)
        y = x[:, 0, 0]
        optimizer, compiled = "adam", remedied
        body = [rng.choice([layers.LSTM, layers.GRU])(units), layers.Dense(1)]
        epochs = rng.choice([30, 50])
    case "gpu_recurrent":  # an argument rules cuDNN out
        batch, steps = rng.choice([32, 128]), rng.choice([60, 120])
        units = rng.choice([64, 128, 256])
        x = normal(batch * 60, steps, 32)
        y, kind = x[:, 0, 0], rng.choice([layers.LSTM, layers.GRU])
        against = [{"recurrent_dropout": 0.2}, {"activation": "relu"}, {"use_cudnn": False}]
        against = rng.choice(against)
        body = [kind(units, **({} if remedied else against)), layers.Dense(1)]
        # Keras compiles a model without cuDNN with XLA by itself, and one with cuDNN not.
        optimizer, compiled = "adam", False if remedied else rng.choice(["auto", False])
        epochs = rng.choice([10, 20])
    case "float16_convolutions":
        policy = rng.choice(["mixed_float16", "float16"])
        keras.mixed_precision.set_global_policy("float32" if remedied else policy)
        batch, size, width = rng.choice([16, 32]), rng.choice([24, 32]), rng.choice([16, 32])
        kind = rng.choice([layers.Conv2D, layers.Conv2D, layers.SeparableConv2D])
        count, epochs, most = rng.randint(1, 3), rng.choice([2, 3]), 5e10
        if CPU_INFO.exists() and "avx512_fp16" in CPU_INFO.read_text():
            batch, size, count, most = batch // 4, size // 2, 1, 2e9
        # At 6e8 to 5e9 products a second, on that CPU at 1e8, the slow run takes 10 to 80 s.
        products = 9 * width + width**2 if kind is layers.SeparableConv2D else 9 * width**2
        products = batch * size**2 * (27 * width + count * products)
        steps = max(round(most / products / epochs), 20)
        x, y = normal(batch * steps, size, size, 3), np.zeros(batch * steps, "float32")
        body = [layers.Conv2D(width, 3, activation="relu")]
        body += [kind(width, 3, activation="relu") for _ in range(count)]
        body += [layers.GlobalAveragePooling2D(), layers.Dense(1, dtype="float32")]
    case "python_in_step":
        batch, width = rng.choice([64, 256]), rng.choice([64, 256])
        eager = rng.choice([True, False])
        x = normal(batch * 200, width)
        y = x[:, :1]
        body = [Normalize(), layers.Dense(64, activation="relu"), layers.Dense(1)]
        epochs = rng.choice([30, 45])
kind = "int32" if cause == "dense_update" else None
model = keras.Sequential([keras.Input(x.shape[1:], dtype=kind), *body])
model.compile(optimizer, loss, metrics=metrics, jit_compile=compiled)
model.fit(x, y, batch_size=batch, epochs=epochs, verbose=2)
