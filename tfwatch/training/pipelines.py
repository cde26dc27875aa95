"""The pipelines of one epoch: a gate over its source, and on it one for each setting of the knobs.

Making an iterator takes TensorFlow 15 ms of CPU and, on busy cores, 15 to 80 of the training, tracing its functions
more. So a pipeline that has ended is kept, and begins anew (0.3 ms) when its setting is asked for again: an experiment
builds one for each of its settings, however often it switches. See `_lasting` for how.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import tensorflow as tf

from tfwatch.core.knobs import Knobs
from tfwatch.training.disposal import Gone, let_go
from tfwatch.training.stage_names import GATE, LASTING
from tfwatch.training.tap import Tap

#: Makes a pipeline, with its `hands.options`, under given knobs, over a stream of the source's elements.
Build: TypeAlias = Callable[[tf.data.Dataset, Knobs], tf.data.Dataset]

#: Pipelines kept: an experiment switches between two, a search between some. Each holds what its functions captured.
_KEPT = 6


@dataclass
class _Kept:
    """A data set, whether its iterators begin anew, and then the one that was made last."""

    data_set: tf.data.Dataset
    lasts: bool
    tap: Tap | None = None


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
        self._kept: dict[Knobs, _Kept] = {}
        self._kept_in: object = None

    def tap(self, knobs: Knobs) -> tuple[Tap, bool]:
        """The batches of a pipeline, and whether it gave batches before: then it is to have ended, or to hold none."""
        kept = self._entry(knobs)
        return (self._made(kept), False) if kept.tap is None else (kept.tap, True)

    def anew(self, knobs: Knobs) -> Tap:
        """The batches of a pipeline that gave none before."""
        return self._made(self._entry(knobs))

    def keeps(self, tap: Tap) -> bool:
        """Whether this is to be given again where its setting is asked for."""
        return any(kept.tap is tap for kept in self._kept.values())

    def _made(self, kept: _Kept) -> Tap:
        tap, old = Tap(iter(kept.data_set)), [kept.tap]
        kept.tap = tap if kept.lasts else None
        let_go(old, [], [])
        return tap

    def _entry(self, knobs: Knobs) -> _Kept:
        state = self._state()
        if state != self._kept_in:
            self._forget(list(self._kept))
            self._kept_in = state
        kept = self._kept.pop(knobs, None)
        if kept is None:
            if self._gate is None:
                self._gate = _gated(self._source, self._is_open)
            batches = self._build(self._gate, knobs)
            self.built.append(Gone(batches))
            lasts = _can_last(batches, knobs)
            kept = _Kept(_lasting(batches) if lasts else batches, lasts)
        self._kept[knobs] = kept
        self._forget(list(self._kept)[:-_KEPT])
        return kept

    def _forget(self, settings: list[Knobs]) -> None:
        old = [self._kept.pop(knobs).tap for knobs in settings]
        let_go(old, [], [])


def _can_last(batches: tf.data.Dataset, knobs: Knobs) -> bool:
    """Whether a pipeline can begin anew as if it were new.

    Not where TensorFlow puts a prefetch behind it (`hands`): that one stays ended. Nor where its autotuning chooses the
    workers: it looks at once at what is new, and after that ever more rarely, at last once a minute.
    """
    hands = batches.options().experimental_optimization
    return hands.inject_prefetch is False and hands.map_parallelization is False and knobs.workers != "auto"


def _lasting(batches: tf.data.Dataset) -> tf.data.Dataset:
    """A pipeline that ends with a closed gate, and begins anew when it is asked again and the gate is open.

    `repeat` begins its input anew where that has ended, and ends itself where a new one has nothing to give; asked
    again, it tries once more. What it begins anew has nothing left of what was: neither elements nor threads.
    """
    chosen = tf.data.Options()
    chosen.experimental_optimization.shuffle_and_repeat_fusion = False
    lasting = batches.repeat()
    setattr(lasting, LASTING, True)
    return lasting.with_options(chosen)


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
