"""Dense layers on MNIST: the step is so short that the way of making a batch decides."""

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


def check(settings: Settings) -> None:
    """Accept all settings."""


def prepare(settings: Settings, report: Callable[[str], None]) -> Prepared:
    """Load MNIST, or generate arrays of its shapes."""
    data = arrays.mnist(report)
    examples = numbered_examples.from_arrays(data, (784,))
    return replace(
        numbered_examples.prepared(
            settings, examples, functools.partial(_model, settings), "accuracy"
        ),
        note=data.note,
    )


def _model(settings: Settings) -> keras.Model:
    model_parts.seed(settings)
    return model_parts.classifier(model_parts.small_dense(784, 128, "dense"), settings)
