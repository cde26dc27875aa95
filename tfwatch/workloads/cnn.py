"""A small convolutional network on JPEG files: reading and decoding them starve it."""

from workload_setup import arguments, begin, compiled, delayed, image_files, nothing_ahead, positive

parser = arguments(__doc__, epochs=20)
parser.add_argument(
    "--data", metavar="DIR", help="a folder with one folder of JPEG files per class"
)
parser.add_argument(
    "--image-size", type=positive, default=64, metavar="S", help="pixels a side (64)"
)
text = "simulated latency of the storage, in milliseconds a batch"
parser.add_argument("--storage-latency", type=float, default=0.0, metavar="MS", help=text)
args = parser.parse_args()

import keras
import tensorflow as tf

begin(args)
size = (args.image_size, args.image_size)
paths, labels, classes = image_files(args.data)
held = len(paths) // 10


def read(path, label):
    return tf.io.read_file(path), label


def decode(data, label):
    image = tf.io.decode_jpeg(data, channels=3)
    return tf.image.resize(image, size) / 255.0, label


def storage(images, labels):
    return delayed(images, args.storage_latency), labels


train = tf.data.Dataset.from_tensor_slices((paths[held:], labels[held:]))
train = train.shuffle(len(paths), seed=args.seed).map(read).map(decode).batch(args.batch_size)
if args.storage_latency:
    train = train.map(storage)
train = train.with_options(nothing_ahead())
held_out = tf.data.Dataset.from_tensor_slices((paths[:held], labels[:held]))
held_out = (
    held_out.map(read).map(decode, num_parallel_calls=tf.data.AUTOTUNE).batch(100).prefetch(2)
)

image = keras.Input((*size, 3))
x = keras.layers.RandomFlip("horizontal")(image)
for filters in (8, 16, 32, 64):
    x = keras.layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
    x = keras.layers.BatchNormalization(momentum=0.9)(x)
    x = keras.layers.Activation("relu")(x)
    x = keras.layers.MaxPooling2D()(x)
x = keras.layers.GlobalAveragePooling2D()(x)
x = keras.layers.Dense(classes, activation="softmax", dtype="float32")(x)
model = compiled(keras.Model(image, x), args, "sparse_categorical_crossentropy", "accuracy")
model.fit(train, validation_data=held_out, epochs=args.epochs, shuffle=False, verbose=2)
