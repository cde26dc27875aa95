"""A GAN with a loop of its own: two optimizers, a traced step, and noise from a second data set."""

import keras
import numpy as np
import tensorflow as tf
from digest import digest

keras.utils.set_random_seed(2)
real = tf.data.Dataset.from_tensor_slices(np.random.normal(3, 1, (512, 8)).astype("float32"))
real = real.shuffle(512, seed=2).batch(32, drop_remainder=True)
noise = tf.data.Dataset.random(seed=7).batch(2)
noise = noise.map(lambda n: tf.random.stateless_normal((32, 4), tf.cast(n, tf.int32)))

generator = keras.Sequential(
    [keras.Input((4,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(8)]
)
discriminator = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)]
)
g_optimizer, d_optimizer = keras.optimizers.Adam(1e-3), keras.optimizers.Adam(1e-3)
loss_fn = keras.losses.BinaryCrossentropy(from_logits=True)


@tf.function
def train_step(images, seeds):
    with tf.GradientTape() as tape:
        fake = generator(seeds, training=True)
        d_loss = loss_fn(tf.ones((32, 1)), discriminator(images)) + loss_fn(
            tf.zeros((32, 1)), discriminator(fake)
        )
    d_optimizer.apply_gradients(
        zip(tape.gradient(d_loss, discriminator.trainable_weights), discriminator.trainable_weights)
    )
    with tf.GradientTape() as tape:
        g_loss = loss_fn(tf.ones((32, 1)), discriminator(generator(seeds, training=True)))
    g_optimizer.apply_gradients(
        zip(tape.gradient(g_loss, generator.trainable_weights), generator.trainable_weights)
    )
    return d_loss, g_loss


losses = []
for epoch in range(4):
    for step, (images, seeds) in enumerate(zip(real, noise)):
        d_loss, g_loss = train_step(images, seeds)
        losses += [d_loss, g_loss]
    print(f"epoch {epoch}: {step + 1} steps, d {float(d_loss):.4f} g {float(g_loss):.4f}")
for images in real.take(2):  # a look at some pictures
    print(images.shape, float(tf.reduce_mean(discriminator(images))).hex())
digest(generator, {"losses": losses})
