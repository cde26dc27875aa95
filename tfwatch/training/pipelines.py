"""The pipelines of one epoch: a gate over its source, and on it a data set for each setting of the knobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import tensorflow as tf

from tfwatch.core.knobs import Knobs
from tfwatch.training.disposal import Gone
from tfwatch.training.stage_names import GATE
from tfwatch.training.tap import Tap

#: Makes a pipeline, with its `hands.options`, under given knobs, over a stream of the source's elements.
Build: TypeAlias = Callable[[tf.data.Dataset, Knobs], tf.data.Dataset]

#: Data sets kept: an experiment switches between two, a search between some. Each holds what its functions captured.
_KEPT = 6


class Pipelines:
    """What can stand over one source.

    is_open: the gate's. state: what a build goes by beside the knobs: once it is another, nothing built before is used.
    built: tells of each data set when it has been freed.
    """

    def __init__(
        self, build: Build, source: tf.data.Iterator, is_open: tf.Variable, state: Callable[[], object]
    ) -> None:
        self.built: list[Gone] = []
        self._build = build
        self._source = source
        self._is_open = is_open
        self._state = state
        self._gate: tf.data.Dataset | None = None
        self._kept: dict[Knobs, tf.data.Dataset] = {}
        self._kept_in: object = None

    def tap(self, knobs: Knobs) -> Tap:
        """A new iterator; tracing is left out where these knobs had one before."""
        return Tap(iter(self._data_set(knobs)))

    def _data_set(self, knobs: Knobs) -> tf.data.Dataset:
        state = self._state()
        if state != self._kept_in:
            self._kept.clear()
            self._kept_in = state
        batches = self._kept.pop(knobs, None)
        if batches is None:
            if self._gate is None:
                self._gate = _gated(self._source, self._is_open)
            batches = self._build(self._gate, knobs)
            self.built.append(Gone(batches))
        self._kept[knobs] = batches
        if len(self._kept) > _KEPT:
            del self._kept[next(iter(self._kept))]
        return batches


@tf.autograph.experimental.do_not_convert
def _gated(source: tf.data.Iterator, is_open: tf.Variable) -> tf.data.Dataset:
    """The source's elements until the gate closes, asked before each so that none is taken and dropped.

    Costs about 0.1 ms an element: gate batches.
    """

    @tf.autograph.experimental.do_not_convert
    def is_open_now(_: tf.Tensor) -> tf.Tensor:
        return is_open.read_value()

    @tf.autograph.experimental.do_not_convert
    def take(_: tf.Tensor) -> tf.experimental.Optional:
        return source.get_next_as_optional()

    @tf.autograph.experimental.do_not_convert
    def has_value(element: tf.experimental.Optional) -> tf.Tensor:
        return element.has_value()

    @tf.autograph.experimental.do_not_convert
    def value(element: tf.experimental.Optional) -> Any:
        return element.get_value()

    gate = tf.data.Dataset.counter().take_while(is_open_now).map(take).take_while(has_value).map(value)
    setattr(gate, GATE, True)
    return gate
