"""Facts of the Keras model that a run trains, as run.json has them."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from tfwatch.core.bounds import Count, Whole

#: Layer and metric classes that are kept, and characters of a name.
MOST_CLASSES, LONGEST_NAME = 40, 80

_Name = Annotated[str, Meta(max_length=LONGEST_NAME)]


class Embedding(msgspec.Struct, frozen=True):
    """The table of an embedding layer."""

    name: _Name
    rows: Whole
    columns: Whole


class ModelFacts(msgspec.Struct, frozen=True):
    """A model as it was when the first `fit` of a run began."""

    #: The class of the optimizer; empty without one.
    optimizer: _Name = ""
    #: XLA compiles the step.
    jit_compile: bool = False
    run_eagerly: bool = False
    steps_per_execution: Count = 1
    #: The name of the dtype policy, e.g. `mixed_float16`.
    dtype_policy: _Name = ""
    #: The parameters of all its variables; None where the model is not built.
    parameters: Whole | None = None
    #: The embedding layer with the most parameters; None without one.
    largest_embedding: Embedding | None = None
    #: The number of layers of each class, sublayers included, the most frequent first.
    layers: Annotated[dict[_Name, Count], Meta(max_length=MOST_CLASSES)] = {}
    #: The classes of the metrics of `compile`, or their names where it was given these.
    metrics: Annotated[list[_Name], Meta(max_length=MOST_CLASSES)] = []
