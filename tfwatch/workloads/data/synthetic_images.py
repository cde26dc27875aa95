"""The synthetic image set: ten classes of shapes and textures, which a network does not learn in a few steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable

#: Pixels along a side.
SIDE = 96
#: Pixels over which an edge fades.
_EDGE = 0.06

Floats = NDArray[np.floating[Any]]


def draw(name: str, count: int, seed: int) -> NDArray[np.uint8]:
    """Draw `count` images of a class, shape (count, SIDE, SIDE, 3), the same for the same seed."""
    rng = np.random.default_rng(seed)
    x, y = _plane(rng, count, textured=name in _TEXTURES)
    cover = CLASSES[name](x, y)[..., None]
    ink, paper = _colours(rng, count)
    image = paper + (ink - paper) * cover
    image *= 1 + _light(rng, count)[..., None]
    # Grain: without it the network is certain after a hundred steps; with more grain a file is twice as large.
    image += rng.standard_normal((count, SIDE, SIDE, 1), dtype=np.float32) * 0.06
    pixels: NDArray[np.uint8] = (np.clip(image, 0, 1) * 255).astype(np.uint8)
    return pixels


def _plane(rng: np.random.Generator, count: int, *, textured: bool) -> tuple[Floats, Floats]:
    """Return each pixel's coordinates in its image's rotated, moved and scaled plane."""
    line = np.linspace(-1, 1, SIDE, dtype=np.float32)
    turn = _uniform(rng, count, -np.pi, np.pi)
    radius = _uniform(rng, count, 0.16, 0.3) if textured else _uniform(rng, count, 0.3, 0.65)
    dx = line[None, None, :] - _uniform(rng, count, -0.35, 0.35)
    dy = line[None, :, None] - _uniform(rng, count, -0.35, 0.35)
    cos, sin = np.cos(turn), np.sin(turn)
    return (dx * cos + dy * sin) / radius, (dy * cos - dx * sin) / radius


def _uniform(rng: np.random.Generator, count: int, low: float, high: float) -> Floats:
    return rng.uniform(low, high, (count, 1, 1)).astype(np.float32)


def _colours(rng: np.random.Generator, count: int) -> tuple[Floats, Floats]:
    """Return ink and paper: two random colours that differ by at least a fifth in brightness."""
    paper = rng.uniform(0.2, 0.8, (count, 1, 1, 3)).astype(np.float32)
    step = rng.uniform(0.2, 0.45, (count, 1, 1, 1)) * np.where(
        paper.mean(axis=3, keepdims=True) > 0.5, -1, 1
    )
    tint = rng.uniform(-0.15, 0.15, (count, 1, 1, 3))
    return np.clip(paper + step + tint, 0, 1).astype(np.float32), paper


def _light(rng: np.random.Generator, count: int) -> Floats:
    """Return a gradient of brightness across the image."""
    line = np.linspace(-0.35, 0.35, SIDE, dtype=np.float32)
    across, down = _uniform(rng, count, -1, 1), _uniform(rng, count, -1, 1)
    return across * line[None, None, :] + down * line[None, :, None]


def _inside(distance: Floats) -> Floats:
    """Return 1 where a signed distance is negative, with a soft edge."""
    cover: Floats = np.clip(0.5 - distance / _EDGE, 0, 1)
    return cover


def _wave(phase: Floats) -> Floats:
    cover: Floats = np.clip(0.5 + np.sin(phase * np.float32(np.pi)) * 3, 0, 1)
    return cover


def _disk(x: Floats, y: Floats) -> Floats:
    return _inside(np.hypot(x, y) - 1)


def _ring(x: Floats, y: Floats) -> Floats:
    return _inside(np.abs(np.hypot(x, y) - 0.8) - 0.22)


def _square(x: Floats, y: Floats) -> Floats:
    return _inside(np.maximum(np.abs(x), np.abs(y)) - 0.9)


def _triangle(x: Floats, y: Floats) -> Floats:
    return _inside(np.maximum(np.abs(x) * 0.87 + y * 0.5, -y) - 0.6)


def _cross(x: Floats, y: Floats) -> Floats:
    long, short = np.maximum(np.abs(x), np.abs(y)), np.minimum(np.abs(x), np.abs(y))
    return _inside(np.maximum(long - 1, short - 0.32))


def _star(x: Floats, y: Floats) -> Floats:
    return _inside(np.hypot(x, y) - 0.75 - 0.3 * np.cos(5 * np.arctan2(y, x)))


def _stripes(x: Floats, y: Floats) -> Floats:
    return _wave(y * 1.5)


def _checks(x: Floats, y: Floats) -> Floats:
    return np.where((_wave(x) > 0.5) == (_wave(y) > 0.5), np.float32(1), np.float32(0))


def _dots(x: Floats, y: Floats) -> Floats:
    return _inside(np.hypot(x % 2 - 1, y % 2 - 1) - 0.6)


def _ripples(x: Floats, y: Floats) -> Floats:
    return _wave(np.hypot(x, y) * 1.5)


_TEXTURES = {"stripes": _stripes, "checks": _checks, "dots": _dots, "ripples": _ripples}

CLASSES: dict[str, Callable[[Floats, Floats], Floats]] = {
    "disk": _disk,
    "ring": _ring,
    "square": _square,
    "triangle": _triangle,
    "cross": _cross,
    "star": _star,
    **_TEXTURES,
}
