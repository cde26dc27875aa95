"""Dense layers on MNIST: the step is so short that the way in which a batch is put together decides."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING

from tfwatch.workloads import arrays, models, picked

if TYPE_CHECKING:
    from collections.abc import Callable

    import keras

    from tfwatch.workloads.workload import Prepared, Settings


def check(settings: Settings) -> None:
    """Nothing here can be asked wrongly."""


def prepare(settings: Settings, say: Callable[[str], None]) -> Prepared:
    """Load MNIST, or generate its like."""
    data = arrays.mnist(say)
    examples = picked.from_arrays(data, (784,))
    return replace(picked.prepared(settings, examples, functools.partial(_model, settings), "accuracy"), note=data.note)


def _model(settings: Settings) -> keras.Model:
    models.seed(settings)
    return models.classifier(models.small_dense(784, 128, "dense"), settings)
