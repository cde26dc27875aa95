"""Cheap maps before the batch; the calls cost more than the work."""

import tensorflow as tf
from drawn import dense, numbers, remedied, rng

batch, columns, units = rng.choice([256, 512, 1024]), rng.choice([8, 24, 64]), rng.choice([16, 64])
maps, epochs = rng.randint(1, 3), rng.choice([5, 8])
rows = numbers.integers(0, 255, (40_000, columns), "uint8")
data = tf.data.Dataset.from_tensor_slices((rows, rows[:, :1].astype("float32")))
if remedied:
    data = data.batch(batch)
data = data.map(lambda x, y: (tf.cast(x, tf.float32), y))
for _ in range(maps):
    data = data.map(lambda x, y: (x / 255.0, y))
if not remedied:
    data = data.batch(batch)
model = dense(columns, units)
model.compile("sgd", "mse")
model.fit(data, epochs=epochs, verbose=2)
