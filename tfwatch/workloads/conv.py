"""One convolution on one image: a kernel that may be too small for a GPU."""

from workload_setup import arguments, begin, compiled, nothing_ahead

args = arguments(__doc__, epochs=1, batch_size=1, learning_rate=5e-3).parse_args()

import keras
import tensorflow as tf

begin(args)
side, filters = 256, 32


def example(number):
    """Return an image, and what the filters are to learn: the image, shifted."""
    image = tf.random.stateless_uniform((side, side, 3), (0, number), -0.5, 0.5)
    shifted = [tf.roll(image, (n % 3 - 1, n // 3 % 3 - 1), axis=(0, 1)) for n in range(11)]
    return image, tf.concat(shifted, axis=-1)[..., :filters]


train = tf.data.Dataset.range(2_000).map(example).batch(args.batch_size)
train = train.with_options(nothing_ahead())

model = keras.Sequential(
    [keras.Input((side, side, 3)), keras.layers.Conv2D(filters, 3, padding="same")]
)
compiled(model, args, "mse", "mean_absolute_error")
model.fit(train, epochs=args.epochs, shuffle=False, verbose=2)
