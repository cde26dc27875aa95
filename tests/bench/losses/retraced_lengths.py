"""XLA compiles each batch of another length again."""

import keras
from drawn import normal, remedied, rng

units, batch = rng.choice([16, 32, 64]), rng.choice([8, 16, 32])
longest, steps = rng.choice([60, 90, 120]), rng.choice([60, 100])
lengths = [rng.randint(longest // 3, longest) for _ in range(steps)]


def batches():
    for length in lengths:
        padded = longest if remedied else length
        yield normal(batch, padded, 8), normal(batch, 1)


inputs = keras.Input((None, 8))
x = keras.layers.Conv1D(units, 5, padding="same", activation="relu")(inputs)
x = keras.layers.GlobalAveragePooling1D()(x)
model = keras.Model(inputs, keras.layers.Dense(1)(x))
model.compile("adam", "mse", jit_compile=True)
model.fit(batches(), steps_per_epoch=steps, epochs=1, verbose=2)
