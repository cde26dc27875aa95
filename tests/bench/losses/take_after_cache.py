"""A cache that is not read to its end is filled again in each epoch."""

import keras
import tensorflow as tf
from drawn import pooled, remedied, rng

batch, taken, size = rng.choice([16, 32, 64]), rng.randint(20, 40), rng.choice([64, 96, 128])
work = rng.choice([8, 16])
pixels = batch * taken * work * size * size
epochs = max(4, rng.choice([1_000_000_000, 1_400_000_000]) // pixels)


def slow(seed):
    image = tf.random.stateless_uniform((size, size, 3), tf.stack([seed, seed]))
    for _ in range(work):
        image = tf.image.resize(tf.image.resize(image, (2 * size, 2 * size)), (size, size))
    return tf.image.resize(image, (32, 32)), tf.cast(seed % 10, tf.int32)


data = tf.data.Dataset.range(batch * taken * 2).map(lambda n: slow(tf.cast(n, tf.int32)))
data = data.batch(batch)
data = data.take(taken).cache() if remedied else data.cache().take(taken)
model = pooled(32, keras.layers.Conv2D(8, 3, activation="relu"))
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(data.prefetch(2), epochs=epochs, verbose=2)
