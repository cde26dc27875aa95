"""Scripts in the style of keras.io: each slow in a way of its own, or not at all."""

from __future__ import annotations

#: The names of healthy scripts begin with it.
HEALTHY = "healthy_"
_HEAD = """\
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed({seed})
rng = np.random.default_rng({seed})
"""
_ROWS = """
x_train = rng.random(({count}, 32), dtype="float32")
y_train = (x_train.sum(axis=1) > 16).astype("int32")
"""
_IMAGES = """
x_train = rng.integers(0, 255, ({count}, 32, 32, 3), dtype="uint8")
y_train = rng.integers(0, 4, {count})
"""
_MLP = """
model = keras.Sequential(
    [
        keras.Input((32,)),
        *(layers.Dense({units}, activation="relu") for _ in range({deep})),
        layers.Dense(4),
    ]
)
"""
_CNN = """
inputs = keras.Input((32, 32, 3))
x = layers.Rescaling(1 / 255)(inputs)
x = layers.Conv2D({units}, 3, strides=2, activation="relu")(x)
x = layers.Conv2D({units}, 3, strides=2, activation="relu")(x)
x = layers.GlobalAveragePooling2D()(x)
outputs = layers.Dense(4)(x)
model = keras.Model(inputs, outputs)
"""
_LSTM = """
model = keras.Sequential(
    [keras.Input((32,)), layers.Reshape((8, 4)), layers.LSTM({units}), layers.Dense(4)]
)
"""
_COMPILE = """
model.compile(
    optimizer="adam",
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],{more}
)
"""
_ARRAYS = "model.fit(x_train, y_train, batch_size={batch}, epochs={epochs}, verbose=2)\n"
_DATA = "model.fit(train_ds, epochs={epochs}, verbose=2)\n"
_SLICES = "tf.data.Dataset.from_tensor_slices((x_train, y_train))"
_BLUR = """
def prepare(image, label):
    image = tf.cast(image, tf.float32)
    for _ in range({work}):
        image = tf.image.resize(tf.image.resize(image, (48, 48)), (32, 32))
    return image, label
"""
_WAIT = """
def read(image, label):
    def load(value):
        time.sleep(0.002)  # a slow disk
        return value

    image = tf.numpy_function(load, [image], tf.uint8)
    image.set_shape((32, 32, 3))
    return image, label
"""
_CHEAP = (
    ".map(lambda x, y: (x - 0.5, y))",
    ".map(lambda x, y: (x * 2.0, y))",
)


_SIZES = {"units": 32, "deep": 2, "batch": 32, "count": 4096, "work": 16, "epochs": 3}


def _script(seed: int, *parts: str, more: str = "", **sizes: int) -> str:
    sizes = {**_SIZES, "seed": seed, **sizes}
    text = "".join((_HEAD, *parts)).replace("{more}", f"\n    {more}," if more else "")
    for name, value in sizes.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text


def _pipeline(*calls: str, source: str = _SLICES) -> str:
    lines = "\n".join(f"    {call}" for call in calls)
    return f"\ntrain_ds = (\n    {source}\n{lines}\n)\n"


def _lines(*calls: str) -> str:
    return f"\ntrain_ds = {_SLICES}\n" + "".join(f"train_ds = train_ds{one}\n" for one in calls)


def slow_scripts() -> dict[str, str]:
    """Return scripts that lose time, by what they lose it to."""
    batch, auto = ".batch({batch})", "tf.data.AUTOTUNE"
    made = {
        "cheap_maps": (_ROWS, _pipeline(*_CHEAP, batch), _MLP, _COMPILE, _DATA),
        "cheap_maps_lines": (_ROWS, _lines(*_CHEAP, batch), _MLP, _COMPILE, _DATA),
        "cheap_maps_shuffled": (
            *(_ROWS, _pipeline(".shuffle(1024, seed=1)", *_CHEAP, ".batch({batch})")),
            *(_MLP, _COMPILE, _DATA),
        ),
        "serial_map": (_IMAGES, _BLUR, _pipeline(".map(prepare)", batch), _CNN, _COMPILE, _DATA),
        "serial_map_lines": (_IMAGES, _BLUR, _lines(".map(prepare)", batch), _CNN, _COMPILE, _DATA),
        "serial_map_prefetched": (
            *(_IMAGES, _BLUR, _pipeline(".map(prepare)", batch, ".prefetch(1)")),
            *(_CNN, _COMPILE, _DATA),
        ),
        "no_prefetch": (
            *(_IMAGES, _BLUR, _pipeline(f".map(prepare, num_parallel_calls={auto})", batch)),
            *(_CNN, _COMPILE, _DATA),
        ),
        "waiting_reads": (_IMAGES, _WAIT, _pipeline(".map(read)", batch), _CNN, _COMPILE, _DATA),
        "waiting_reads_two": (
            *(_IMAGES, _WAIT, _pipeline(".map(read, num_parallel_calls=2)", batch, ".prefetch(2)")),
            *(_CNN, _COMPILE, _DATA),
        ),
        "take_after_cache": (
            *(_IMAGES, _BLUR, _pipeline(".map(prepare)", ".cache()", ".take(1024)", batch)),
            *(_CNN, _COMPILE, _DATA),
        ),
        "take_after_cache_lines": (
            *(_IMAGES, _BLUR, _lines(".map(prepare)", ".cache()", ".take(1024)", batch)),
            *(_CNN, _COMPILE, _DATA),
        ),
        "eager_arrays": (_ROWS, _MLP, _COMPILE, _ARRAYS),
        "eager_data": (_IMAGES, _pipeline(batch, ".prefetch(2)"), _CNN, _COMPILE, _DATA),
        "tiny_steps": (_ROWS, _MLP, _COMPILE, _ARRAYS),
        "tiny_steps_data": (_ROWS, _pipeline(batch, ".prefetch(2)"), _MLP, _COMPILE, _DATA),
        "unrolled": (_ROWS, _LSTM.replace("{units})", "{units}, unroll=True)"), _COMPILE, _ARRAYS),
        "validation": (
            *(_ROWS, _MLP, _COMPILE),
            _ARRAYS.replace("verbose", "validation_data=(x_train, y_train), verbose"),
        ),
        "slow_callback": (_ROWS, _MLP, _COMPILE, _CALLBACK),
        "generator": (_IMAGES, _GENERATOR, _CNN, _COMPILE, _DATA),
        "augmentation": (_IMAGES, _pipeline(batch), _AUGMENTED, _COMPILE, _DATA),
    }
    small = {"epochs": 8, "batch": 128, "count": 20_000}
    images = {"epochs": 11, "count": 2400}
    sizes = {
        "cheap_maps": {"epochs": 5, "batch": 256, "count": 40_000},
        "cheap_maps_lines": {"epochs": 5, "batch": 128, "count": 30_000},
        "cheap_maps_shuffled": {"epochs": 5, "batch": 64, "count": 30_000},
        "take_after_cache": {"epochs": 10, "batch": 16},
        "take_after_cache_lines": {"epochs": 10, "batch": 16},
        "eager_arrays": {"epochs": 3, "count": 9600},
        "eager_data": {"epochs": 3, "count": 6400},
        "tiny_steps": {"epochs": 4, "batch": 8},
        "tiny_steps_data": {"epochs": 4, "batch": 8},
        "unrolled": {"epochs": 8, "count": 9600},
        "validation": {"epochs": 12, "count": 9600},
        "slow_callback": small,
        "waiting_reads": {"epochs": 3, "count": 3200},
        "waiting_reads_two": {"epochs": 4, "count": 4800},
    }
    more = {"eager_arrays": "run_eagerly=True", "eager_data": "run_eagerly=True"}
    return {
        name: _script(n, *parts, more=more.get(name, ""), **sizes.get(name, images))
        for n, (name, parts) in enumerate(made.items(), 1)
    }


_CALLBACK = """
class Logger(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        self.text = "".join(str(number * batch) for number in range(6000))


model.fit(
    x_train, y_train, batch_size={batch}, epochs={epochs}, callbacks=[Logger()], verbose=2
)
"""
_GENERATOR = """
def batches():
    for at in range(0, len(x_train), {batch}):
        images = np.stack([np.roll(one, 3, axis=0) for one in x_train[at : at + {batch}]])
        time.sleep(0.02)
        yield images, y_train[at : at + {batch}]


train_ds = tf.data.Dataset.from_generator(
    batches,
    output_signature=(
        tf.TensorSpec((None, 32, 32, 3), tf.uint8),
        tf.TensorSpec((None,), tf.int64),
    ),
)
"""
_AUGMENTED = """
model = keras.Sequential(
    [
        keras.Input((32, 32, 3)),
        layers.RandomRotation(0.1),
        layers.RandomZoom(0.1),
        layers.Conv2D({units}, 3, strides=2, activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(4),
    ]
)
"""


def healthy_scripts(count: int) -> dict[str, str]:
    """Return scripts that lose nothing: models that take most of a step, over data that is ready
    in time."""
    auto = "tf.data.AUTOTUNE"
    cast = "lambda x, y: (tf.cast(x, tf.float32), y)"
    feeds = (
        _ARRAYS,
        _pipeline(".batch({batch})", ".prefetch(2)") + _DATA,
        _pipeline(".cache()", ".shuffle(512)", ".batch({batch})", f".prefetch({auto})") + _DATA,
        _pipeline(".batch({batch})", f".map({cast}, num_parallel_calls={auto})", ".prefetch(2)")
        + _DATA,
    )
    models = (
        (_ROWS, _MLP, {"units": 768, "deep": 4, "batch": 128, "count": 12_800}),
        (_IMAGES, _CNN, {"units": 64, "batch": 32, "count": 4800}),
        (_ROWS, _LSTM, {"units": 192, "batch": 64, "count": 6400}),
    )
    found = {}
    for n in range(count):
        rows, model, sizes = models[n % len(models)]
        feed = feeds[n // len(models) % len(feeds)]
        sizes = {**sizes, "units": sizes["units"] + 16 * (n // 12)}
        text = _script(100 + n, rows, model, _COMPILE, feed, more="", **sizes)
        found[f"{HEALTHY}{n + 1:02}"] = text
    return found
