"""Batches through a pipeline that is exchanged in mid-epoch: nothing lost and nothing twice.

Batches through a pipeline that can be exchanged in mid-epoch, nothing lost and nothing twice.

One iterator, the source, lives for the epoch. A pipeline stands on a gate over it: closed, the pipeline hands
out what it holds and ends by itself; then the next one takes over where it stopped. One that has ended can take over
again (see `pipelines`).

The pipelines of one epoch: a gate over its source, and on it one for each setting of the knobs.

Making an iterator takes TensorFlow 15 ms of CPU and, on busy cores, 15 to 80 of the training, tracing its functions
more. So a pipeline that has ended is kept, and begins anew (0.3 ms) when its setting is asked for again: an experiment
builds one for each of its settings, however often it switches. See `_lasting` for how.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import tensorflow as tf

from tfwatch.core.knobs import Knobs
from tfwatch.tfdata.batches import Tap
from tfwatch.tfdata.disposal import Gone, let_go
from tfwatch.tfdata.stage_names import GATE, LASTING
from tfwatch.tfdata.work_ahead import buffer_size, options

if TYPE_CHECKING:
    from tfwatch.tfdata.batches import Shape


class Feed:
    """The batches of one epoch after another.

    state: what a build goes by beside the knobs (see `Pipelines`).
    """

    def __init__(self, build: Build, state: Callable[[], object] = lambda: None) -> None:
        self._build = build
        self._state = state
        with tf.device("/CPU:0"):
            self._open = tf.Variable(True, trainable=False, name="tfwatch_gate")
        self._source: Any = None
        self._batches: Any = None
        self._next: Any = None
        self._knobs = Knobs()
        self._begins_anew = False
        self._pipelines: Pipelines | None = None

    def start(self, source: tf.data.Iterator, knobs: Knobs) -> None:
        """Begin an epoch over a new source, or once more over the present one, from which batches came without it.

        The latter only where the present pipeline holds no batch: it goes on where its setting is asked for again.
        """
        if self._pipelines is None or source is not self._source:
            self.close()
            self._source = source
            self._pipelines = Pipelines(self._build, source, self._open, self._state)
        self._open.assign(True)
        self._goes_on(*self._pipelines.tap(knobs), knobs)

    def close(self) -> None:
        """Let go of the epoch's pipelines and source."""
        built = self._pipelines.built if self._pipelines else []
        pipelines, sources = [self._next, self._batches, self._pipelines], [self._source]
        self._next = self._batches = self._pipelines = self._source = None
        let_go(pipelines, sources, built)

    def switch(self, knobs: Knobs) -> None:
        """Have the batches come from another pipeline as soon as the present one has given what it holds.

        The new one is built first, which takes 20 to 450 ms, or none where these knobs had one before in this epoch;
        where that raises, nothing has changed.
        """
        assert self._pipelines
        self._next = *self._pipelines.tap(knobs), knobs
        self._open.assign(False)

    @property
    def switching(self) -> bool:
        """Whether a switch is on its way."""
        return self._next is not None

    @property
    def shape(self) -> Shape:
        """What the pipeline's batches look like."""
        return self._batches.shape  # type: ignore[no-any-return]

    @property
    def iterator(self) -> tf.data.Iterator | None:
        """The present pipeline's, for who fetches by himself; None between two epochs."""
        batches = self._batches
        return batches.iterator if batches else None

    @property
    def source(self) -> tf.data.Iterator | None:
        """The epoch's; None between two."""
        return self._source

    def get(self) -> Any:
        """The next batch.

        Raises:
            StopIteration: the epoch's source is exhausted.
        """
        while True:
            try:
                return self._batches.next()
            except StopIteration:
                if not self.goes_on:
                    raise
            # Only here: the exception holds the ended iterator, and would be what deletes it, in this thread.
            self.take_over()

    @property
    def goes_on(self) -> bool:
        """Whether another pipeline is to take over from the present one, which has given all it held."""
        return self._next is not None or self._begins_anew

    def take_over(self) -> None:
        """The present pipeline has given all it held: the next one goes on.

        The end of one that began anew is believed only of one that did not: where TensorFlow kept it ended, the data
        would be cut off without a word.
        """
        assert self._pipelines
        following, self._next = self._next, None
        self._goes_on(*(following or (self._pipelines.anew(self._knobs), False, self._knobs)))
        self._open.assign(True)

    def _goes_on(self, batches: Tap, begins_anew: bool, knobs: Knobs) -> None:
        old = [self._batches]
        self._batches, self._begins_anew, self._knobs = batches, begins_anew, knobs
        if self._pipelines and not self._pipelines.keeps(old[0]):
            let_go(old, [], [])


def prefetch_only(batches: tf.data.Dataset, knobs: Knobs) -> tf.data.Dataset:
    """The pipeline over data that tfwatch did not see built: as it comes, or prefetched.

    Nothing else in it works ahead, whatever the knobs say of the pipeline below: without prefetch it can be left
    between two batches, and none is lost.
    """
    size = buffer_size(knobs.prefetch)
    return (batches if size is None else batches.prefetch(size)).with_options(options(Knobs()))


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
