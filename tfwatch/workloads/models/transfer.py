"""MobileNetV2 with a frozen base, which learns ten classes of JPEG files at 224x224."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING

from tfwatch.workloads import model_parts
from tfwatch.workloads.data.arrays import NotLoadedError, downloading
from tfwatch.workloads.models import cnn
from tfwatch.workloads.workload import Prepared, Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    import keras

    from tfwatch.workloads.workload import Prepared, Settings

SIZE = 224


def check(settings: Settings) -> None:
    """Check the settings without TensorFlow.

    Raises:
        BadInputError: the folder holds no classes of JPEG files.
    """
    cnn.check(settings)


def prepare(settings: Settings, report: Callable[[str], None]) -> Prepared:
    """Prepare the images of the cnn workload in a larger size; the base starts with ImageNet's weights.

    Raises:
        BadInputError: no image can be read.
    """
    base, note = make_base(settings, report)
    prepared = cnn.prepare_images(
        replace(settings, image_size=SIZE), report, functools.partial(_model, settings, base)
    )
    return replace(prepared, note=note)


def make_base(settings: Settings, report: Callable[[str], None]) -> tuple[keras.Model, str]:
    """Return the frozen base, and the reason where it starts with random weights instead of ImageNet's."""
    import keras

    make = functools.partial(
        keras.applications.MobileNetV2, input_shape=(SIZE, SIZE, 3), include_top=False
    )
    note = ""
    model_parts.seed(settings)
    if settings.weights == "imagenet":
        report("loading MobileNetV2's ImageNet weights (Keras downloads them once)")
        try:
            with downloading():
                base = make(weights="imagenet")
        except NotLoadedError as error:
            note = (
                f"MobileNetV2's ImageNet weights cannot be loaded ({error}): "
                "the base starts with random weights and will hardly learn"
            )
            model_parts.seed(settings)
            base = make(weights=None)
    else:
        base = make(weights=None)
    base.trainable = False
    return base, note


def _model(settings: Settings, base: keras.Model, classes: int) -> keras.Model:
    import keras

    model_parts.seed(settings)
    image = keras.Input((SIZE, SIZE, 3))
    x = base(
        keras.layers.Rescaling(2.0, offset=-1.0)(image), training=False
    )  # MobileNetV2 takes -1 to 1
    x = keras.layers.GlobalAveragePooling2D()(x)
    return model_parts.classifier(
        keras.Model(image, model_parts.probabilities(classes)(x), name="transfer"), settings
    )
