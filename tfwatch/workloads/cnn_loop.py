"""One convolution on images like MNIST's in a custom loop: --eager shows tf.function's gain."""

from workload_setup import arguments, begin, nothing_ahead, optimizer, patterns

args = arguments(__doc__, epochs=5, batch_size=100, steps_in_call=False).parse_args()

import keras
import tensorflow as tf

begin(args)


def scale(image, label):
    return tf.cast(image, tf.float32)[..., None] / 255.0, label


train = tf.data.Dataset.from_tensor_slices(patterns(60_000, (28, 28)))
train = train.shuffle(10_000, seed=args.seed).map(scale).batch(args.batch_size)
train = train.with_options(nothing_ahead())

model = keras.Sequential(
    [
        keras.Input((28, 28, 1)),
        keras.layers.Conv2D(32, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        keras.layers.Dense(10, activation="softmax", dtype="float32"),
    ]
)
loss_of = keras.losses.SparseCategoricalCrossentropy()
accuracy = keras.metrics.SparseCategoricalAccuracy()
descent = optimizer(args)
descent.build(model.trainable_variables)


def train_step(images, labels):
    with tf.GradientTape() as tape:
        predicted = model(images, training=True)
        loss = loss_of(labels, predicted)
        scaled = descent.scale_loss(loss)  # so that float16 gradients do not vanish
    gradients = tape.gradient(scaled, model.trainable_variables)
    descent.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    accuracy.update_state(labels, predicted)
    return loss


if not args.eager:
    train_step = tf.function(train_step, reduce_retracing=True, jit_compile=args.jit)

for epoch in range(args.epochs):
    accuracy.reset_state()
    for images, labels in train:
        loss = train_step(images, labels)
    print(f"epoch {epoch + 1}: loss {float(loss):.4f}, accuracy {float(accuracy.result()):.4f}")
