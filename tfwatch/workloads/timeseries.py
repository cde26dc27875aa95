"""An LSTM on windows of a series: many small kernels one after another."""

from workload_setup import arguments, begin, compiled, nothing_ahead

args = arguments(__doc__, epochs=5).parse_args()

import keras
import numpy as np
import tensorflow as tf

begin(args)
count, held, window = 20_000, 2_000, 64
at = np.arange(count + held + window + 1)
waves = np.sin(at / 7) + np.sin(at / 31) / 2 + np.sin(at / 101) / 3
series = (waves + np.random.default_rng(0).normal(0, 0.05, len(at))).astype(np.float32)


def cut(number):
    """Return the window that begins at a number, shape [64, 1], and the value after it."""
    places = number + tf.range(window, dtype=tf.int64)
    return tf.gather(series, places)[:, None], tf.gather(series, number + window)


train = tf.data.Dataset.range(count).shuffle(count, seed=args.seed).map(cut)
train = train.batch(args.batch_size).with_options(nothing_ahead())
held_out = tf.data.Dataset.range(count, count + held).map(cut).batch(200)

model = keras.Sequential(
    [keras.Input((window, 1)), keras.layers.LSTM(32), keras.layers.Dense(1, dtype="float32")]
)
compiled(model, args, "mse", "mean_absolute_error")
model.fit(train, validation_data=held_out, epochs=args.epochs, shuffle=False, verbose=2)
