"""Layers whose `trainable` changed since the step was traced.

Keras reads it in the trace of its `train_step` alone: until `compile` a frozen layer still trains,
and one that is no longer frozen does not ("Recommended workflow when changing trainable variables",
`Trainer.compile` of Keras 3.15).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras

from tfwatch.core.events import MOST_NAMES, TrainableIgnored
from tfwatch.watch.fit.stepping.kept_traces import find_kept, keep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tfwatch.runs.writer import RunWriter


class TrainedVariables:
    """The variables that a trace trains, and all of its model."""

    def __init__(self, model: Any) -> None:
        self._trained = {id(one) for one in model.trainable_variables}
        self._all = {id(one) for one in model.variables}

    def changed_since(self, model: Any) -> tuple[list[str], list[str]]:
        """Return the layers that the trace trains and that are not trainable now, and those that
        are trainable now and that the trace does not train."""
        now = {id(one): one for one in model.trainable_variables}
        if now.keys() == self._trained:
            return [], []
        frozen, unfrozen = self._trained - now.keys(), self._all - self._trained
        return (
            _layers(one for one in model.variables if id(one) in frozen),
            _layers(one for key, one in now.items() if key in unfrozen),
        )


def _layers(variables: Iterable[Any]) -> list[str]:
    paths = (str(one.path).rpartition("/")[0] for one in variables)
    return list(dict.fromkeys(paths))[:MOST_NAMES]


def note_trained(
    model: Any, function: Callable[[Any], Any], spec: object, writer: RunWriter, *, is_traced: bool
) -> None:
    """Keep with a train function what its trace trains, and report what changed since.

    is_traced: an earlier `fit` traced the step for this structure of batches. A `train_step` of the
    script's own may freeze layers by itself.
    """
    if type(model).train_step is not keras.Model.train_step:
        return
    known = find_kept(function, TrainedVariables, spec) if is_traced else None
    if known is None:
        keep(function, TrainedVariables(model), spec)
        return
    frozen, unfrozen = known.changed_since(model)
    if frozen or unfrozen:
        writer.event(TrainableIgnored(writer.now_ns(), frozen, unfrozen))
