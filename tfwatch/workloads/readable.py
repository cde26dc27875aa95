"""Which files of a folder cannot be decoded: each is tried once, and the answer is remembered."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core import units
from tfwatch.runs.format import write_atomically
from tfwatch.workloads.images import cache_dir

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import tensorflow as tf
    from numpy.typing import NDArray

    from tfwatch.workloads.images import ImageFolder

_BATCH = 64


def readable(images: ImageFolder, say: Callable[[str], None]) -> NDArray[np.bool_]:
    """One truth value a file: whether TensorFlow decodes it. `say` tells how far a first look is."""
    memory = cache_dir() / "checked" / f"{_key(images)}.json"
    count = len(images.paths)
    good = np.ones(count, dtype=np.bool_)
    broken = _recall(memory, count)
    if broken is None:
        broken = _try_all(images, say)
        _remember(memory, broken)
    good[broken] = False
    return good


def decode(data: tf.Tensor) -> tf.Tensor:
    """The pixels of a file's bytes, three channels; whatever this cannot read is broken."""
    import tensorflow as tf

    return tf.io.decode_jpeg(data, channels=3)


def _key(images: ImageFolder) -> str:
    """The same for the same files, sizes and times of change."""
    digest = hashlib.sha256()
    for path, size, changed in zip(images.paths, images.sizes_bytes, images.changed_ns, strict=True):
        digest.update(b"%s\0%d %d\0" % (os.path.abspath(path), size, changed))
    return digest.hexdigest()[:32]


def _recall(memory: Path, count: int) -> list[int] | None:
    try:
        broken = json.loads(memory.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    known = isinstance(broken, list) and all(isinstance(n, int) and 0 <= n < count for n in broken)
    return broken if known else None


def _remember(memory: Path, broken: list[int]) -> None:
    try:
        memory.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(memory, json.dumps(broken))
    except OSError:
        # The next start looks at the files again; nothing else is lost.
        return


def _try_all(images: ImageFolder, say: Callable[[str], None]) -> list[int]:
    """The numbers of the files that do not decode, found on all cores."""
    import tensorflow as tf

    count, paths = len(images.paths), tf.constant(images.paths)

    def pixels_of(number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        # The size goes out with the number: what nobody takes TensorFlow does not compute.
        return number, tf.size(decode(tf.io.read_file(paths[number])))

    tried = tf.data.Dataset.range(count).map(pixels_of, num_parallel_calls=tf.data.AUTOTUNE)
    good = np.zeros(count, dtype=np.bool_)
    say(f"looking at {units.count(count)} images (once)")
    for numbers, _ in tried.ignore_errors().batch(_BATCH):
        good[numbers.numpy()] = True
        say(f"looking at the images, {units.count(int(numbers[-1]) + 1)} of {units.count(count)} (once)")
    return [int(number) for number in np.flatnonzero(~good)]
