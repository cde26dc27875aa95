"""Keras' own data sets as arrays, or synthetic ones of their shapes where they cannot be loaded."""

from __future__ import annotations

import contextlib
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Without a network, a connection hangs on some machines instead of failing.
_PATIENCE_S = 10.0
_NOISE = 0.35
_CLASSES = 10
#: Images generated together: all of CIFAR-10 takes 1.8 GB as float32, more than training on it.
_CHUNK = 100

Images = NDArray[np.uint8]
Labels = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Arrays:
    """Training and held-out examples: images of shape [count, ...], 0 to 255, and classes of shape [count].

    note: the reason why they are synthetic; empty where they are real.
    """

    images: Images
    labels: Labels
    held_images: Images
    held_labels: Labels
    note: str = ""


def mnist(report: Callable[[str], None]) -> Arrays:
    """Load 60 000 digits of 28x28, and 10 000 held-out ones."""
    import keras

    return _load("MNIST", keras.datasets.mnist.load_data, (28, 28), (60_000, 10_000), report)


def cifar10(report: Callable[[str], None]) -> Arrays:
    """Load 50 000 photographs of 32x32x3 in ten classes, and 10 000 held-out ones."""
    import keras

    return _load(
        "CIFAR-10", keras.datasets.cifar10.load_data, (32, 32, 3), (50_000, 10_000), report
    )


def _load(
    name: str,
    load: Callable[[], Any],
    shape: tuple[int, ...],
    counts: tuple[int, int],
    report: Callable[[str], None],
) -> Arrays:
    report(f"loading {name} (Keras downloads it once)")
    try:
        with downloading():
            (images, labels), (held_images, held_labels) = load()
    except NotLoadedError as error:
        report(f"{name} cannot be loaded: generating synthetic images of its shapes")
        return generated(shape, counts, f"{name} cannot be loaded ({error})")
    return Arrays(images, _flat(labels), held_images, _flat(held_labels))


def generated(shape: tuple[int, ...], counts: tuple[int, int], reason: str) -> Arrays:
    """Generate ten classes, each a pattern with noise, which a network learns within an epoch."""
    rng = np.random.default_rng(0)
    patterns = rng.uniform(0, 1, (_CLASSES, *shape)).astype(np.float32)
    (images, labels), (held_images, held_labels) = (
        _noisy(patterns, count, rng) for count in counts
    )
    note = f"{reason}: synthetic images of the same shapes replace it"
    return Arrays(images, labels, held_images, held_labels, note)


def _noisy(
    patterns: NDArray[np.float32], count: int, rng: np.random.Generator
) -> tuple[Images, Labels]:
    labels = rng.integers(0, len(patterns), count).astype(np.int32)
    images = np.empty((count, *patterns.shape[1:]), np.uint8)
    for first in range(0, count, _CHUNK):
        chunk = labels[first : first + _CHUNK]
        noisy = (
            patterns[chunk]
            + rng.standard_normal((len(chunk), *patterns.shape[1:]), dtype=np.float32) * _NOISE
        )
        images[first : first + _CHUNK] = np.clip(noisy, 0, 1) * 255
    return images, labels


class NotLoadedError(Exception):
    """Keras cannot load a file; the message is Keras' own, in one line."""


@contextlib.contextmanager
def downloading() -> Iterator[None]:
    """Let Keras download a file in the `with` block, with a time limit of 10 s for a hanging connection.

    Raises:
        NotLoadedError: the file cannot be downloaded or read.
    """
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_PATIENCE_S)
    try:
        yield
    except Exception as error:  # Keras raises a plain Exception for a failed download
        raise NotLoadedError((str(error) or type(error).__name__).splitlines()[0][:120]) from error
    finally:
        socket.setdefaulttimeout(before)


def _flat(labels: Any) -> Labels:
    return np.asarray(labels).reshape(-1).astype(np.int32)
