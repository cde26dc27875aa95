"""One square matrix product: the most that the device can do."""

from workload_setup import arguments, begin, compiled, nothing_ahead, positive

parser = arguments(__doc__, epochs=1, learning_rate=2e-4)
parser.add_argument(
    "--size", type=positive, default=2048, metavar="N", help="rows and columns (2048)"
)
args = parser.parse_args()

import keras
import tensorflow as tf

begin(args)


def matrix(number):
    """Return a square matrix, and the one to learn: the same with its columns shifted by one."""
    values = tf.random.stateless_uniform((args.size, args.size), (0, number), -0.5, 0.5)
    return values, tf.roll(values, 1, axis=-1)


train = tf.data.Dataset.range(200).map(matrix).with_options(nothing_ahead())

model = keras.Sequential([keras.Input((args.size,)), keras.layers.Dense(args.size, use_bias=False)])
compiled(model, args, "mse", "mean_absolute_error")
model.fit(train, epochs=args.epochs, shuffle=False, verbose=2)
