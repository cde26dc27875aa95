"""784-128-10 on images like MNIST's: steps of a millisecond, starved by picking single examples."""

from workload_setup import arguments, begin, compiled, nothing_ahead, patterns

args = arguments(__doc__, epochs=10).parse_args()

import keras
import tensorflow as tf

begin(args)


def scale(image, label):
    return tf.cast(tf.reshape(image, [784]), tf.float32) / 255.0, label


images, labels = patterns(60_000, (28, 28))
train = tf.data.Dataset.from_tensor_slices((images, labels))
train = train.shuffle(10_000, seed=args.seed).map(scale).batch(args.batch_size)
train = train.with_options(nothing_ahead())
held_out = tf.data.Dataset.from_tensor_slices(patterns(10_000, (28, 28), seed=1))
held_out = held_out.batch(500).map(
    lambda images, labels: (tf.reshape(tf.cast(images, tf.float32), [-1, 784]) / 255.0, labels)
)

model = keras.Sequential(
    [
        keras.Input((784,)),
        keras.layers.Dense(128, activation="relu"),
        keras.layers.Dense(10, activation="softmax", dtype="float32"),
    ]
)
compiled(model, args, "sparse_categorical_crossentropy", "accuracy")
model.fit(train, validation_data=held_out, epochs=args.epochs, shuffle=False, verbose=2)
