"""Scripts in the style of keras.io: each slow in a way of its own, or not at all."""

from typing import NamedTuple

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
_SIZES = {"units": 32, "deep": 2, "batch": 32, "count": 4096, "work": 16, "epochs": 3}
_AUTO, _BATCH = "tf.data.AUTOTUNE", ".batch({batch})"


class Draft(NamedTuple):
    """A script with places for its sizes."""

    text: str
    sizes: dict[str, int]

    def script(self, seed: int) -> str:
        """Return the script with its sizes and a seed."""
        text = self.text
        for name, value in {**_SIZES, **self.sizes, "seed": seed}.items():
            text = text.replace(f"{{{name}}}", str(value))
        return text


def _draft(*parts: str, more: str = "", **sizes: int) -> Draft:
    """more: an argument of `compile`."""
    compiled = _COMPILE.replace("{more}", f"\n    {more}," if more else "")
    return Draft("".join((_HEAD, *parts[:-1], compiled, parts[-1])), sizes)


def _rows(data: str, *, model: str = _MLP, fit: str = _DATA, more: str = "", **sizes: int) -> Draft:
    """Draft a training over rows of numbers. data: the pipeline, empty for arrays."""
    return _draft(_ROWS, data, model, fit, more=more, **sizes)


def _images(*data: str, model: str = _CNN, more: str = "", **sizes: int) -> Draft:
    """Draft a training over images. data: a function, and the pipeline."""
    return _draft(_IMAGES, *data, model, _DATA, more=more, **{"epochs": 11, "count": 2400, **sizes})


def _pipeline(*calls: str) -> str:
    lines = "\n".join(f"    {call}" for call in calls)
    return f"\ntrain_ds = (\n    {_SLICES}\n{lines}\n)\n"


def _lines(*calls: str) -> str:
    return f"\ntrain_ds = {_SLICES}\n" + "".join(f"train_ds = train_ds{one}\n" for one in calls)


def slow_scripts() -> dict[str, str]:
    """Return scripts that lose time, by what they lose it to."""
    ready = _pipeline(_BATCH, ".prefetch(2)")
    parallel = f".map(prepare, num_parallel_calls={_AUTO})"
    two_reads = _pipeline(".map(read, num_parallel_calls=2)", _BATCH, ".prefetch(2)")
    taken = (".map(prepare)", ".cache()", ".take(1024)", _BATCH)
    unrolled = _LSTM.replace("{units})", "{units}, unroll=True)")
    validated = _ARRAYS.replace("verbose", "validation_data=(x_train, y_train), verbose")
    shuffled = _pipeline(".shuffle(1024, seed=1)", *_CHEAP, _BATCH)
    made = {
        "cheap_maps": _rows(_pipeline(*_CHEAP, _BATCH), epochs=5, batch=256, count=40_000),
        "cheap_maps_lines": _rows(_lines(*_CHEAP, _BATCH), epochs=5, batch=128, count=30_000),
        "cheap_maps_shuffled": _rows(shuffled, epochs=5, batch=64, count=30_000),
        "serial_map": _images(_BLUR, _pipeline(".map(prepare)", _BATCH)),
        "serial_map_lines": _images(_BLUR, _lines(".map(prepare)", _BATCH)),
        "serial_map_prefetched": _images(_BLUR, _pipeline(".map(prepare)", _BATCH, ".prefetch(1)")),
        "no_prefetch": _images(_BLUR, _pipeline(parallel, _BATCH)),
        "waiting_reads": _images(_WAIT, _pipeline(".map(read)", _BATCH), epochs=3, count=3200),
        "waiting_reads_two": _images(_WAIT, two_reads, epochs=4, count=4800),
        "take_after_cache": _images(_BLUR, _pipeline(*taken), epochs=10, batch=16, count=4096),
        "take_after_cache_lines": _images(_BLUR, _lines(*taken), epochs=10, batch=16, count=4096),
        "eager_arrays": _rows("", fit=_ARRAYS, more="run_eagerly=True", count=9600),
        "eager_data": _images(ready, more="run_eagerly=True", epochs=3, count=6400),
        "tiny_steps": _rows("", fit=_ARRAYS, epochs=4, batch=8),
        "tiny_steps_data": _rows(ready, epochs=4, batch=8),
        "unrolled": _rows("", model=unrolled, fit=_ARRAYS, epochs=8, count=9600),
        "validation": _rows("", fit=validated, epochs=12, count=9600),
        "slow_callback": _rows("", fit=_CALLBACK, epochs=8, batch=128, count=20_000),
        "generator": _images(_GENERATOR),
        "augmentation": _images(_pipeline(_BATCH), model=_AUGMENTED),
    }
    return {name: draft.script(seed) for seed, (name, draft) in enumerate(made.items(), 1)}


def healthy_scripts(count: int) -> dict[str, str]:
    """Return scripts that lose nothing: models that take most of a step, over data that is ready
    in time."""
    cast = f".map(lambda x, y: (tf.cast(x, tf.float32), y), num_parallel_calls={_AUTO})"
    feeds = (
        ("", _ARRAYS),
        (_pipeline(_BATCH, ".prefetch(2)"), _DATA),
        (_pipeline(".cache()", ".shuffle(512)", _BATCH, f".prefetch({_AUTO})"), _DATA),
        (_pipeline(_BATCH, cast, ".prefetch(2)"), _DATA),
    )
    models = (
        (_ROWS, _MLP, {"units": 768, "deep": 4, "batch": 128, "count": 12_800}),
        (_IMAGES, _CNN, {"units": 64, "batch": 32, "count": 4800}),
        (_ROWS, _LSTM, {"units": 192, "batch": 64, "count": 6400}),
    )
    found = {}
    for n in range(count):
        examples, model, sizes = models[n % len(models)]
        data, fit = feeds[n // len(models) % len(feeds)]
        sizes = {**sizes, "units": sizes["units"] + 16 * (n // 12)}
        draft = Draft(_draft(examples, data, model, fit).text, sizes)
        found[f"healthy_{n + 1:02}"] = draft.script(100 + n)
    return found
