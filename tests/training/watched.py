"""A script that is watched: its data, and its Watch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .conftest import BATCH

if TYPE_CHECKING:
    from pathlib import Path

EPOCHS = 2


def known(arrays: Any) -> Any:
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices(arrays).shuffle(50, seed=1).batch(BATCH)


def watch_in(folder: Path) -> Any:
    from tfwatch import Watch

    return Watch(folder)
