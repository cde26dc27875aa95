"""Train a model of which one part takes most of each step: step_parts_script.py PART SIZE."""

import sys

import keras
import numpy as np
import tensorflow as tf

part, size = sys.argv[1], int(sys.argv[2])  # size: 1, 2 or 3
layers, batch = keras.layers, 32
rng = np.random.default_rng(size)
loss, metrics, optimizer = "mse", [], "sgd"
images, rows = (32, 32, 3), (64,)


class Attention(keras.layers.Layer):
    """Attends to its own input."""

    def __init__(self, **options):
        super().__init__(**options)
        self.heads = layers.MultiHeadAttention(4, 32, name="heads")

    def call(self, inputs):
        return self.heads(inputs, inputs)


class OneByOne(keras.layers.Layer):
    """Multiplies the examples of a batch one after another."""

    def call(self, inputs):
        outputs = tf.map_fn(lambda row: tf.linalg.matvec(tf.ones((64, 64)), row), inputs)
        outputs.set_shape((None, 64))
        return outputs


def in_python(inputs):
    """Sort numbers by numpy."""
    many = np.repeat(inputs.numpy(), 40 * size, axis=1)
    return np.sort(many, axis=1)[:, :64].astype("float32")


def sort(inputs):
    outputs = tf.py_function(in_python, [inputs], tf.float32)
    outputs.set_shape((None, 64))
    return outputs


def pairs_loss(y, outputs):
    """Compare each pair of examples of a batch."""
    wide = keras.ops.tile(outputs, (1, 400 * size))
    pairs = keras.ops.matmul(wide, keras.ops.transpose(wide))
    return keras.ops.mean(keras.ops.square(pairs)) + keras.ops.mean(keras.ops.square(outputs - y))


match part:
    case "conv":
        shape = images
        body = [
            layers.Conv2D(8, 3, name="small"),
            layers.Conv2D(32 * size, 3, name="answer"),
            layers.GlobalAveragePooling2D(),
        ]
    case "dense":
        shape, body = rows, [layers.Dense(2000 * size, name="answer"), layers.Dense(8)]
    case "augmentation":
        shape = (64 + 32 * size, 64 + 32 * size, 3)
        body = [
            layers.RandomRotation(0.2, name="answer"),
            layers.Conv2D(2, 3, strides=8),
            layers.GlobalAveragePooling2D(),
        ]
    case "attention":
        shape = (64 * size, 32)
        body = [Attention(name="answer"), layers.GlobalAveragePooling1D()]
    case "embedding":
        shape, optimizer = (20,), "adam"
        table = layers.Embedding(60_000 * size, 32)
        body = [table, layers.GlobalAveragePooling1D()]
    case "metric":
        shape, body = rows, [layers.Dense(16)]
        marks = np.sort(rng.random(300 * size)).tolist()
        metrics, batch = [keras.metrics.AUC(thresholds=marks, name="answer")], 1024
    case "loss":
        shape, body, loss, batch = rows, [layers.Dense(64)], pairs_loss, 128
    case "python":
        shape, body = rows, [layers.Lambda(sort, name="answer", output_shape=(64,))]
    case "normalization":
        shape = (48 + 16 * size, 48 + 16 * size, 16)
        body = [layers.BatchNormalization(name="answer"), layers.GlobalAveragePooling2D()]
    case "launching":
        shape, body = rows, [layers.Dense(8, activation="relu") for _ in range(20 * size)]
    case "float32":
        tf.config.experimental.enable_tensor_float_32_execution(False)
        shape, batch = rows, 1024
        body = [layers.Dense(64), layers.Dense(4000 * size, name="answer"), layers.Dense(8)]
    case "map_fn":
        shape, body, batch = rows, [OneByOne(name="answer")], 32 * size
    case _:
        sys.exit(f"no part {part}")

model = keras.Sequential([keras.Input(shape), *body, layers.Dense(1, activation="sigmoid")])
model.compile(optimizer, loss, metrics=metrics, jit_compile=False if part == "python" else "auto")
x = rng.integers(0, 60_000, (batch * 40, *shape))
x = x.astype("int32") if part == "embedding" else rng.normal(size=x.shape).astype("float32")
y = (rng.random((batch * 40, 1)) > 0.5).astype("float32")
model.fit(x, y, batch_size=batch, epochs=2, verbose=2)
