"""One convolution on CIFAR-10."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING

from tfwatch.workloads import model_parts
from tfwatch.workloads.data import arrays, numbered_examples

if TYPE_CHECKING:
    from collections.abc import Callable

    import keras

    from tfwatch.workloads.workload import Prepared, Settings

_SHAPE = (32, 32, 3)


def check(settings: Settings) -> None:
    """Accept all settings."""


def prepare(settings: Settings, report: Callable[[str], None]) -> Prepared:
    """Load CIFAR-10, or generate arrays of its shapes."""
    data = arrays.cifar10(report)
    examples = numbered_examples.from_arrays(data, _SHAPE)
    return replace(
        numbered_examples.prepared(
            settings, examples, functools.partial(_model, settings), "accuracy"
        ),
        note=data.note,
    )


def _model(settings: Settings) -> keras.Model:
    model_parts.seed(settings)
    return model_parts.classifier(model_parts.small_convolution(_SHAPE, "cifar10"), settings)
