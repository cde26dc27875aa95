"""One convolution on CIFAR-10."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING

from tfwatch.workloads import arrays, models, picked

if TYPE_CHECKING:
    from collections.abc import Callable

    import keras

    from tfwatch.workloads.workload import Prepared, Settings

_SHAPE = (32, 32, 3)


def check(settings: Settings) -> None:
    """Nothing here can be asked wrongly."""


def prepare(settings: Settings, say: Callable[[str], None]) -> Prepared:
    """Load CIFAR-10, or generate its like."""
    data = arrays.cifar10(say)
    examples = picked.from_arrays(data, _SHAPE)
    return replace(picked.prepared(settings, examples, functools.partial(_model, settings), "accuracy"), note=data.note)


def _model(settings: Settings) -> keras.Model:
    models.seed(settings)
    return models.classifier(models.small_convolution(_SHAPE, "cifar10"), settings)
