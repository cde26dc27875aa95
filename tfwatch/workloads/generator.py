"""256-512-10 on a slow Python generator: its examples come one by one, never in parallel."""

from workload_setup import arguments, begin, compiled, nothing_ahead

args = arguments(__doc__, epochs=10).parse_args()

import keras
import numpy as np
import tensorflow as tf

begin(args)
features, classes = 256, 10
pattern = np.sin(np.arange(classes * features).reshape(classes, features)) / 2


def examples(count, seed):
    """Yield examples that take 0.2 ms of Python each."""
    rng = np.random.default_rng(seed)
    for label in rng.integers(0, classes, count):
        noise = [sum(four) / 4 for four in rng.random((features, 4))]
        yield (pattern[label] + noise).astype(np.float32), label


def dataset(count, seed):
    signature = (tf.TensorSpec((features,), tf.float32), tf.TensorSpec((), tf.int32))
    made = tf.data.Dataset.from_generator(lambda: examples(count, seed), output_signature=signature)
    return made.apply(tf.data.experimental.assert_cardinality(count)).batch(args.batch_size)


train = dataset(16_000, 0).with_options(nothing_ahead())
held_out = dataset(1_000, 1)

model = keras.Sequential(
    [
        keras.Input((features,)),
        keras.layers.Dense(512, activation="relu"),
        keras.layers.Dense(classes, activation="softmax", dtype="float32"),
    ]
)
compiled(model, args, "sparse_categorical_crossentropy", "accuracy")
model.fit(train, validation_data=held_out, epochs=args.epochs, shuffle=False, verbose=2)
