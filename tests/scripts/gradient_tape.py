"""A training loop of its own over a slow data set, with validation, checkpoints and an iterator in
a function."""

import tempfile
import time

import keras
import numpy as np
import tensorflow as tf
from digest import digest

keras.utils.set_random_seed(9)
rng = np.random.default_rng(9)
x = rng.normal(size=(320, 8)).astype("float32")
y = x.sum(axis=1, keepdims=True)


def read(inputs, targets):
    time.sleep(0.01)
    return inputs, targets


def slowly(inputs, targets):
    inputs, targets = tf.numpy_function(read, [inputs, targets], [tf.float32, tf.float32])
    return tf.ensure_shape(inputs, (None, 8)), tf.ensure_shape(targets, (None, 1))


train = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(320, seed=9).batch(32).map(slowly)
val = tf.data.Dataset.from_tensor_slices((x, y)).batch(64)
model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)]
)
optimizer, loss_fn = keras.optimizers.SGD(1e-2), keras.losses.MeanSquaredError()
metric = keras.metrics.MeanAbsoluteError()


@tf.function
def train_step(inputs, targets):
    with tf.GradientTape() as tape:
        loss = loss_fn(targets, model(inputs, training=True))
    optimizer.apply(tape.gradient(loss, model.trainable_weights), model.trainable_weights)
    return loss


@tf.function
def test_step(inputs, targets):
    metric.update_state(targets, model(inputs, training=False))


losses = []
for epoch in range(3):
    for step, (inputs, targets) in enumerate(train):
        losses.append(train_step(inputs, targets))
        if step == 5 and epoch == 2:
            break
    for inputs, targets in val:
        test_step(inputs, targets)
    print(epoch, step, float(metric.result()).hex())
    metric.reset_state()

iterator = iter(val)
next(iterator)
with tempfile.TemporaryDirectory() as folder:
    path = tf.train.Checkpoint(iterator=iterator, weight=tf.Variable(1.0)).save(f"{folder}/at")
    left = sum(1 for _ in iterator)
    tf.train.Checkpoint(iterator=iterator).restore(path).expect_partial()
    print(
        left,
        sum(1 for _ in iterator),
        type(iterator).__name__,
        isinstance(iterator, tf.data.Iterator),
    )


@tf.function
def two(batches):
    return tf.reduce_sum(next(batches)[0]) + tf.reduce_sum(next(batches)[0])


print(
    float(two(iter(val))).hex(),
    sum(int(tf.size(inputs)) for inputs, _ in val),
    iter(val).element_spec,
)
digest(model, {"losses": losses})
