"""One convolution on images like CIFAR-10's: short steps, data in memory."""

from workload_setup import arguments, begin, compiled, nothing_ahead, patterns

args = arguments(__doc__, epochs=5).parse_args()

import keras
import tensorflow as tf

begin(args)


def scale(image, label):
    return tf.cast(image, tf.float32) / 255.0, label


train = tf.data.Dataset.from_tensor_slices(patterns(50_000, (32, 32, 3)))
train = train.shuffle(10_000, seed=args.seed).map(scale).batch(args.batch_size)
train = train.with_options(nothing_ahead())
held_out = tf.data.Dataset.from_tensor_slices(patterns(5_000, (32, 32, 3), seed=1))
held_out = held_out.batch(500).map(scale)

model = keras.Sequential(
    [
        keras.Input((32, 32, 3)),
        keras.layers.Conv2D(32, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        keras.layers.Dense(10, activation="softmax", dtype="float32"),
    ]
)
compiled(model, args, "sparse_categorical_crossentropy", "accuracy")
model.fit(train, validation_data=held_out, epochs=args.epochs, shuffle=False, verbose=2)
