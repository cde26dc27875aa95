"""Locate an error of a training: in the fetch of a batch, or in a step."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from tfwatch.tfdata import live_switch
from tfwatch.watch.fit import fetch, step_runners
from tfwatch.workloads.workload import RaisedError

if TYPE_CHECKING:
    from types import FrameType

_FETCHING = (fetch.__name__, live_switch.__name__)


def raised(error: BaseException) -> RaisedError:
    """Return an error with its place, read from tfwatch's frames in its traceback."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    step = next(
        (frame for frame in frames if _module(frame) == step_runners.__name__ and "batch" in frame.f_locals), None
    )
    return RaisedError(
        error,
        in_fetch=any(_module(frame) in _FETCHING for frame in frames),
        shape=_shape(step.f_locals["batch"]) if step else None,
    )


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__"))


def _shape(batch: object) -> tuple[int, ...] | None:
    """Return the shape of a batch, or of its first tensor; None if it has several parts or no fixed shape."""
    first = batch[0] if isinstance(batch, (tuple, list)) and batch else batch
    shape = getattr(first, "shape", None)
    return tuple(shape) if shape is not None and None not in tuple(shape) else None
