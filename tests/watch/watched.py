"""The data and the Watch of a script under test."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from tests.keras_fixtures import BATCH

if TYPE_CHECKING:
    from pathlib import Path

#: Makes a model, the same each time.
Make: TypeAlias = Callable[[], Any]
EPOCHS = 2


def known(arrays: Any) -> Any:
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices(arrays).shuffle(50, seed=1).batch(BATCH)


def watch_in(folder: Path) -> Any:
    from tfwatch import Watch

    return Watch(folder)


def homeless(*_: object, **__: object) -> str:
    """Raise, as platformdirs does for a user without a home."""
    raise RuntimeError("no home")


def is_restored(model: Any) -> bool:
    """Return whether the model has its own train function again."""
    from tfwatch.watch.fit.stepping.step_runners import TrainFunction

    return not isinstance(model.train_function, TrainFunction)
