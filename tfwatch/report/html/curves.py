"""Learning curves: each metric of the epochs, with its validation."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core.events import EpochEnded
from tfwatch.report.html.plot import Scale, line, round_up, ticks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tfwatch.core.events import Event
    from tfwatch.report.html.plot import Floats, Tick

#: The most charts, and the most points of a curve.
_MOST_METRICS, _MOST_POINTS = 12, 1000
_VALIDATION = "val_"
#: Metrics of Keras by the direction in which they are better; of others no best value is marked.
_LESS = re.compile(
    r"loss|error|(?:^|_)(?:mae|mse|rmse|mape|msle|crossentropy|kl_divergence|perplexity)(?:$|_)"
)
_MORE = re.compile(r"acc|auc|precision|recall|f1|iou|score|similarity|r2")


@dataclass(frozen=True, slots=True)
class Best:
    """The best value of a curve. x, y: percent of the chart, y from the top."""

    x: float
    y: float
    text: str


@dataclass(frozen=True, slots=True)
class Curve:
    """One metric over the epochs. train, validation: paths, empty without values; last: their last
    values.

    is_line: there are several epochs to draw.
    """

    name: str
    train: str
    validation: str
    last: str
    best: Best | None
    epochs: list[Tick]
    heights: list[Tick]
    is_line: bool


def make_curves(events: Iterable[Event]) -> list[Curve]:
    """Return the curve of each metric, loss first; none for a run without a finished epoch with
    metrics."""
    ended = [event for event in events if isinstance(event, EpochEnded) and event.metrics]
    names = dict.fromkeys(
        name.removeprefix(_VALIDATION) for event in ended for name in event.metrics
    )
    ordered = sorted(names, key=lambda name: name != "loss")[:_MOST_METRICS]
    return [curve for name in ordered if (curve := _curve(name, ended)) is not None]


def _curve(name: str, ended: Sequence[EpochEnded]) -> Curve | None:
    epochs = np.array([event.epoch + 1 for event in ended], dtype=float)
    train, validation = (_values(ended, key) for key in (name, f"{_VALIDATION}{name}"))
    known = np.concatenate([train, validation])
    known = known[np.isfinite(known)]
    if not len(known):
        return None
    up, across = _heights(known), Scale(min(1.0, epochs.min()), max(epochs.max(), 2.0))
    some = _some(len(epochs))
    xs = across.shares(epochs)[some]
    has_validation = bool(np.isfinite(validation).any())
    return Curve(
        name=name,
        train=_path(xs, up.shares(train)[some]),
        validation=_path(xs, up.shares(validation)[some]),
        last=_last(train, validation),
        best=_best(name, epochs, validation if has_validation else train, across, up),
        epochs=ticks(across, lambda at: f"{at:.0f}", 5)
        if len(epochs) > 4
        else _each(across, epochs),
        heights=ticks(up, lambda value: f"{value:g}" if abs(value) < 1e4 else f"{value:.1e}"),
        is_line=len(epochs) > 1,
    )


def _values(ended: Sequence[EpochEnded], name: str) -> Floats:
    return np.array([event.metrics.get(name, math.nan) for event in ended], dtype=float)


def _heights(known: Floats) -> Scale:
    """Return a scale around the values: from 0 where they begin near it."""
    low, high = float(known.min()), float(known.max())
    if 0 <= low <= 0.5 * high:
        low = 0.0
    step = round_up((high - low) / 4 or abs(high) / 4)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return Scale(first * step, max(last, first + 1) * step)


def _some(count: int) -> Floats:
    """Return the indices of the points that are drawn, the last one among them."""
    return np.unique(np.linspace(0, count - 1, min(count, _MOST_POINTS)).round().astype(int))


def _path(xs: Floats, ys: Floats) -> str:
    """Return a line; where one epoch has a value, it is a short dash."""
    known = np.flatnonzero(np.isfinite(ys))
    if len(known) == 1:
        return line(np.array([xs[known[0]], xs[known[0]] + 0.02]), np.repeat(ys[known], 2))
    return line(xs, ys)


def _each(across: Scale, epochs: Floats) -> list[Tick]:
    from tfwatch.report.html.plot import Tick

    return [Tick(across.percent(epoch), f"{epoch:.0f}") for epoch in dict.fromkeys(epochs.tolist())]


def _last(train: Floats, validation: Floats) -> str:
    texts = [
        f"{word} {number(values[-1])}"
        for word, values in (("train", train), ("validation", validation))
    ]
    return ", ".join(
        text
        for text, values in zip(texts, (train, validation), strict=True)
        if np.isfinite(values[-1])
    )


def number(value: float) -> str:
    """Return a metric with four digits."""
    return f"{value:.4g}"


def _best(name: str, epochs: Floats, values: Floats, across: Scale, up: Scale) -> Best | None:
    less, more = _LESS.search(name.lower()), _MORE.search(name.lower())
    if not (less or more) or not np.isfinite(values).any():
        return None
    at = int(np.nanargmin(values) if less else np.nanargmax(values))
    text = f"best {number(values[at])}, epoch {epochs[at]:.0f}"
    return Best(across.percent(epochs[at]), 100 - up.percent(values[at]), text)
