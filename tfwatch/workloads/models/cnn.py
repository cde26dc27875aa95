"""A small convolutional network that learns ten classes of JPEG files."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core import units
from tfwatch.core.errors import BadInputError
from tfwatch.core.knobs import Knobs
from tfwatch.workloads import model_parts
from tfwatch.workloads.data import numbered_examples
from tfwatch.workloads.data.image_folder import (
    ImageFolder,
    check_images,
    list_images,
    make_images,
    readable,
)
from tfwatch.workloads.workload import Prepared, Settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import keras
    import tensorflow as tf
    from numpy.typing import NDArray

#: The network halves an image four times.
SMALLEST_IMAGE = 16
#: A tenth is held out, but no more than this: validation takes less than two seconds.
_HELD_OUT = 1000
_FILTERS = (8, 16, 32, 64)
#: With Keras' 0.99 the averages lag behind the 225 steps of an epoch, and the first validation is random.
_MOMENTUM = 0.9


def check(settings: Settings) -> None:
    """Check the settings without TensorFlow.

    Raises:
        BadInputError: the image size is too small for the network, or the folder holds no classes of JPEG files.
    """
    if settings.image_size < SMALLEST_IMAGE:
        raise BadInputError(
            f"an image size of {settings.image_size} is too small: the network needs 16 or more"
        )
    if settings.data is not None:
        check_images(settings.data)


def prepare(settings: Settings, report: Callable[[str], None]) -> Prepared:
    """Make the synthetic image set or list the user's, and decode every file once.

    Raises:
        BadInputError: no image can be read.
    """
    return prepare_images(settings, report, functools.partial(_model, settings))


def prepare_images(
    settings: Settings, report: Callable[[str], None], model: Callable[[int], keras.Model]
) -> Prepared:
    """Prepare images of `settings.image_size`; `model` makes the model for a number of classes.

    Raises:
        BadInputError: no image can be read.
    """
    import keras

    folder = settings.data if settings.data is not None else make_images(report)
    images = list_images(folder)
    good = readable(images, report)
    seed = numbered_examples.seed_of(settings)
    if settings.seed is not None:
        keras.utils.set_random_seed(settings.seed)
    split = _split(images, good, seed)
    make = functools.partial(model, len(images.classes))
    return _prepared(settings, images, split, np.flatnonzero(~good), seed, make)


@dataclass(frozen=True, eq=False)
class _Split:
    training: NDArray[np.intp]
    validation: NDArray[np.intp]


def _split(images: ImageFolder, good: NDArray[np.bool_], seed: int) -> _Split:
    """Shuffle the readable files and hold out a tenth."""
    if not good.any():
        count = units.count(len(good))
        raise BadInputError(f"none of the {count} JPEG files in {images.folder} can be decoded")
    mixed = np.random.default_rng(seed).permutation(np.flatnonzero(good))
    held_out = min(len(mixed) // 10, _HELD_OUT)
    return _Split(training=mixed[held_out:], validation=mixed[:held_out])


def _prepared(
    settings: Settings,
    images: ImageFolder,
    split: _Split,
    broken: NDArray[np.intp],
    seed: int,
    model: Callable[[], keras.Model],
) -> Prepared:
    import tensorflow as tf

    from tfwatch.tfdata.cache import ExampleStore
    from tfwatch.tfdata.shuffle import Shuffle
    from tfwatch.workloads.data import jpeg

    size, count = settings.image_size, len(split.training)
    shuffle, store = (
        Shuffle(count, seed),
        ExampleStore(count, [tf.TensorSpec((size, size, 3), tf.float32)]),
    )
    return Prepared(
        source=jpeg.source(*_pick(images, split.training), settings.batch_size, seed, shuffle),
        pipeline=functools.partial(
            jpeg.cached_pipeline, batch_size=settings.batch_size, image_size=size, store=store
        ),
        validation=_validation(images, split.validation, settings),
        model=model,
        steps_per_epoch=numbered_examples.steps_per_epoch(count, settings.batch_size),
        images=count,
        metric="accuracy",
        shuffle=shuffle,
        store=store,
        skipped=len(broken),
        examples=[_shown(images.paths[n], images.folder) for n in broken[:5]],
    )


def _pick(images: ImageFolder, numbers: NDArray[np.intp]) -> tuple[list[bytes], NDArray[np.int32]]:
    return [images.paths[n] for n in numbers], images.labels[numbers]


def _shown(path: bytes, folder: Path) -> str:
    """Return a file's path below its folder as valid text."""
    return os.path.relpath(path, os.fsencode(folder)).decode(errors="replace")


def _validation(
    images: ImageFolder, numbers: NDArray[np.intp], settings: Settings
) -> tf.data.Dataset | None:
    """Return the held-out images through the fastest pipeline: the knobs are for training only."""
    import tensorflow as tf

    from tfwatch.tfdata import work_ahead
    from tfwatch.workloads.data import jpeg

    if not len(numbers):
        return None
    batches = jpeg.in_order(*_pick(images, numbers), settings.batch_size)
    knobs = Knobs(prefetch=2, workers=os.cpu_count() or 2)
    ready = jpeg.pipeline(
        batches,
        knobs,
        batch_size=settings.batch_size,
        image_size=settings.image_size,
        augmented=False,
    )
    count = numbered_examples.steps_per_epoch(len(numbers), settings.batch_size)
    return ready.with_options(work_ahead.without_autotune()).apply(
        tf.data.experimental.assert_cardinality(count)
    )


def _model(settings: Settings, classes: int) -> keras.Model:
    """Return a compiled model: four blocks of convolution, batch norm, relu and max pool, then a global mean."""
    import keras

    model_parts.seed(settings)
    image = x = keras.Input((settings.image_size, settings.image_size, 3))
    for filters in _FILTERS:
        x = keras.layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
        x = keras.layers.BatchNormalization(momentum=_MOMENTUM)(x)
        x = keras.layers.Activation("relu")(x)
        x = keras.layers.MaxPooling2D()(x)
    x = keras.layers.GlobalAveragePooling2D()(x)
    return model_parts.classifier(
        keras.Model(image, model_parts.probabilities(classes)(x), name="cnn"), settings
    )
