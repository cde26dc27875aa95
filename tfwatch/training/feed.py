"""Batches through a pipeline that can be exchanged in mid-epoch, nothing lost and nothing twice.

One iterator, the source, lives for the epoch. A pipeline stands on a gate over it: closed, the pipeline hands
out what it holds and ends by itself; then the next one takes over where it stopped. One that has ended can take over
again (see `pipelines`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tfwatch.core.knobs import Knobs
from tfwatch.training.disposal import let_go
from tfwatch.training.hands import buffer_size, options
from tfwatch.training.pipelines import Build, Pipelines

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.training.tap import Shape, Tap


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
