"""One convolution on images of 256x256: enough arithmetic for the device to matter."""

from workload_setup import arguments, begin, compiled, nothing_ahead, patterns

# The dense layer has half a million inputs: at Adam's usual rate a step changes its outputs by
# hundreds.
args = arguments(__doc__, epochs=2, learning_rate=1e-5).parse_args()

import keras
import tensorflow as tf

begin(args)
shape = (256, 256, 3)
images, classes = patterns(10, shape)


def light(number):
    """Return one of ten images in its own brightness, and its class."""
    share = 0.5 + tf.cast(number % 97, tf.float32) / 194
    image = tf.cast(tf.gather(images, number % 10), tf.float32) / 255.0
    return image * share, tf.gather(classes, number % 10)


train = tf.data.Dataset.range(8_000).shuffle(8_000, seed=args.seed).map(light)
train = train.batch(args.batch_size).with_options(nothing_ahead())
held_out = tf.data.Dataset.range(8_000, 8_320).map(light).batch(32).prefetch(1)

model = keras.Sequential(
    [
        keras.Input(shape),
        keras.layers.Conv2D(32, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        keras.layers.Dense(10, activation="softmax", dtype="float32"),
    ]
)
compiled(model, args, "sparse_categorical_crossentropy", "accuracy")
model.fit(train, validation_data=held_out, epochs=args.epochs, shuffle=False, verbose=2)
