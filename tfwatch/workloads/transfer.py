"""MobileNetV2 at 224x224, its base frozen, on JPEG files: resizing and a large model."""

from workload_setup import arguments, begin, compiled, delayed, image_files, nothing_ahead

parser = arguments(__doc__, epochs=2)
parser.add_argument(
    "--data", metavar="DIR", help="a folder with one folder of JPEG files per class"
)
text = "initial weights of the base; Keras downloads ImageNet's once (none)"
parser.add_argument("--weights", choices=("imagenet", "none"), default="none", help=text)
text = "simulated latency of the storage, in milliseconds a batch"
parser.add_argument("--storage-latency", type=float, default=0.0, metavar="MS", help=text)
args = parser.parse_args()

import keras
import tensorflow as tf

begin(args)
paths, labels, classes = image_files(args.data)
held = min(len(paths) // 10, 200)


def load(path, label):
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    return tf.image.resize(image, (224, 224)) / 255.0, label


def storage(images, labels):
    return delayed(images, args.storage_latency), labels


train = tf.data.Dataset.from_tensor_slices((paths[held:], labels[held:]))
train = train.shuffle(len(paths), seed=args.seed).map(load).batch(args.batch_size)
if args.storage_latency:
    train = train.map(storage)
train = train.with_options(nothing_ahead())
held_out = tf.data.Dataset.from_tensor_slices((paths[:held], labels[:held]))
held_out = held_out.map(load, num_parallel_calls=tf.data.AUTOTUNE).batch(50).prefetch(1)

base = keras.applications.MobileNetV2(
    input_shape=(224, 224, 3),
    include_top=False,
    weights=None if args.weights == "none" else args.weights,
)
base.trainable = False
image = keras.Input((224, 224, 3))
x = base(keras.layers.Rescaling(2.0, offset=-1.0)(image), training=False)
x = keras.layers.GlobalAveragePooling2D()(x)
x = keras.layers.Dense(classes, activation="softmax", dtype="float32")(x)
model = compiled(keras.Model(image, x), args, "sparse_categorical_crossentropy", "accuracy")
model.fit(train, validation_data=held_out, epochs=args.epochs, shuffle=False, verbose=2)
