"""A pipeline that can be exchanged in mid-epoch without losing or repeating a batch.

One iterator, the source, lives for the epoch. Each pipeline reads from it through a gate. When the
gate closes, the pipeline delivers what it holds and ends, and the next pipeline continues from the
source.

Making an iterator takes TensorFlow 15 ms of CPU and, on busy cores, 15 to 80 ms of the training;
tracing its functions takes more. So an ended pipeline is kept and restarted (0.3 ms) when its
setting is requested again. See `_restartable`.

A step takes its batch from the current `BatchIterator`, at the least cost; the pipeline is asked
only at its end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import tensorflow as tf

from tfwatch.core.knobs import AUTO, Knobs
from tfwatch.tfdata.disposal import FreedSignal, dispose, free_with_functions
from tfwatch.tfdata.stage_names import GATE, OWN
from tfwatch.tfdata.work_ahead import CopyStamps, in_pinned_memory, make_stamps, on_device


class SwitchablePipeline:
    """The batches of one epoch after another.

    batches: the current pipeline's, None between two epochs. Fetch from them, and `take_over` at
    their end.
    knobs: of the current pipeline.
    state: what a build depends on beside the knobs (see `PipelinesOfEpoch`).
    """

    def __init__(self, build: Build, state: Callable[[], object] = lambda: None) -> None:
        self._build = build
        self._state = state
        self._open: Any = None
        self._source: Any = None
        self.batches: Any = None
        self._next: Any = None
        self.knobs = Knobs()
        self._is_restarted = False
        self._pipelines: PipelinesOfEpoch | None = None

    def start(self, source: tf.data.Iterator, knobs: Knobs) -> None:
        """Begin an epoch over a new source, or resume over the current one after batches were taken
        from it directly.

        Resume only while the current pipeline holds no batch: it continues when its setting is
        requested again.
        """
        if self._pipelines is None or source is not self._source:
            self.close()
            self._source = source
            self._pipelines = PipelinesOfEpoch(self._build, source, self._gate(), self._state)
        self._open.assign(True)
        self._use(*self._pipelines.get(knobs), knobs)

    def _gate(self) -> tf.Variable:
        """Return the gate's variable. Most fits need none, and making it takes 0.7 ms."""
        if self._open is None:
            with tf.device("/CPU:0"):
                self._open = tf.Variable(True, trainable=False, name="tfwatch_gate")
        return self._open

    def close(self) -> None:
        """Dispose of the epoch's pipelines and source."""
        built = self._pipelines.built if self._pipelines else []
        pipelines, sources = [self._next, self.batches, self._pipelines], [self._source]
        self._next = self.batches = self._pipelines = self._source = None
        dispose(pipelines, sources, built)

    def switch(self, knobs: Knobs) -> None:
        """Switch to another pipeline as soon as the current one has delivered what it holds.

        Building the new one takes 20 to 450 ms, or no time if this epoch used these knobs before.
        If that raises, nothing changes.
        """
        assert self._pipelines
        following = *self._pipelines.get(knobs), knobs
        self._open.assign(False)
        self._next = following

    @property
    def is_switching(self) -> bool:
        """True while the current pipeline delivers its last batches before a switch."""
        return self._next is not None

    @property
    def iterator(self) -> tf.data.Iterator | None:
        """The current pipeline's iterator, for a caller that fetches itself; None between two
        epochs."""
        batches = self.batches
        return batches.iterator if batches else None

    @property
    def source(self) -> tf.data.Iterator | None:
        """The epoch's source; None between two epochs."""
        return self._source

    @property
    def has_successor(self) -> bool:
        """True if another pipeline continues after the current one, which has delivered all it
        held."""
        return self._next is not None or self._is_restarted

    def take_over(self) -> None:
        """Continue with the next pipeline: the current one has delivered all it held.

        A restarted pipeline that ends is replaced by a new one, whose end is the data's end:
        TensorFlow may leave a restarted pipeline ended, which would cut the data off silently.
        """
        following, self._next = self._next, None
        if following is None:
            self.resume()
        else:
            self._open.assign(True)
            self._use(*following)

    def resume(self) -> None:
        """Continue with a new pipeline of the current setting: the current one has delivered all it
        held."""
        assert self._pipelines
        self._next, batches = None, self._pipelines.make(self.knobs)
        self._open.assign(True)
        self._use(batches, False, self.knobs)

    def _use(self, batches: BatchIterator, is_restarted: bool, knobs: Knobs) -> None:
        old = [self.batches]
        self.batches, self._is_restarted, self.knobs = batches, is_restarted, knobs
        if self._pipelines and not self._pipelines.holds(old[0]):
            dispose(old, [], [])


#: Builds a pipeline under given knobs, with its `work_ahead.options`, over a stream of the source's
#: elements.
Build: TypeAlias = Callable[[tf.data.Dataset, Knobs], tf.data.Dataset]

#: An A/B test switches between two pipelines, the autopilot between several. Each holds what its
#: functions captured.
_MAX_PIPELINES = 6


@dataclass
class _BuiltPipeline:
    """A pipeline, and its last iterator if iterators of it can restart. stamps: of a prefetch to
    the device."""

    dataset: tf.data.Dataset
    can_restart: bool
    stamps: CopyStamps | None
    batches: BatchIterator | None = None


class PipelinesOfEpoch:
    """The pipelines over one source: a gate, and a pipeline on it for each setting of the knobs.

    is_open: the gate's variable. state: what a build depends on beside the knobs; when it changes,
    all pipelines are rebuilt. built: signals for each data set that it has been freed.
    """

    def __init__(
        self,
        build: Build,
        source: tf.data.Iterator,
        is_open: tf.Variable,
        state: Callable[[], object],
    ) -> None:
        self.built: list[FreedSignal] = []
        self._build = build
        self._source = source
        self._is_open = is_open
        self._state = state
        self._gate: tf.data.Dataset | None = None
        self._pipelines: dict[Knobs, _BuiltPipeline] = {}
        self._built_in: object = None

    def get(self, knobs: Knobs) -> tuple[BatchIterator, bool]:
        """Return the batches of a pipeline, and whether it restarts; it must then have ended, or
        hold no batch."""
        pipeline = self._find_or_build(knobs)
        return (_iterate(pipeline), False) if pipeline.batches is None else (pipeline.batches, True)

    def make(self, knobs: Knobs) -> BatchIterator:
        """Return the batches of a new iterator."""
        return _iterate(self._find_or_build(knobs))

    def holds(self, batches: BatchIterator) -> bool:
        """True if `get` can return this iterator again."""
        return any(pipeline.batches is batches for pipeline in self._pipelines.values())

    def _find_or_build(self, knobs: Knobs) -> _BuiltPipeline:
        state = self._state()
        if state != self._built_in:
            self._forget(list(self._pipelines))
            self._built_in = state
        pipeline = self._pipelines.pop(knobs, None) or self._build_pipeline(knobs)
        self._pipelines[knobs] = pipeline  # the newest is last
        self._forget(list(self._pipelines)[:-_MAX_PIPELINES])
        return pipeline

    def _build_pipeline(self, knobs: Knobs) -> _BuiltPipeline:
        if self._gate is None:
            self._gate = _gated(self._source, self._is_open)
            free_with_functions(self._gate)
        stamps = make_stamps(knobs)
        batches = in_pinned_memory(self._build(self._gate, knobs), knobs)
        dataset = on_device(stamps.over(batches) if stamps else batches, knobs)
        self.built = [
            *(signal for signal in self.built if not signal.is_freed),
            FreedSignal(dataset),
        ]
        can_restart = _can_restart(dataset, knobs)
        return _BuiltPipeline(
            _restartable(dataset) if can_restart else dataset, can_restart, stamps
        )

    def _forget(self, settings: list[Knobs]) -> None:
        old = [self._pipelines.pop(knobs).batches for knobs in settings]
        dispose(old, [], [])


def _iterate(pipeline: _BuiltPipeline) -> BatchIterator:
    batches, old = BatchIterator(iter(pipeline.dataset), pipeline.stamps), [pipeline.batches]
    pipeline.batches = batches if pipeline.can_restart else None
    dispose(old, [], [])
    return batches


def _can_restart(dataset: tf.data.Dataset, knobs: Knobs) -> bool:
    """True if a restarted pipeline behaves as a new one.

    A prefetch that TensorFlow adds at the end (`work_ahead`) stays ended. Autotuning of workers
    examines a new pipeline at once and then ever more rarely, down to once a minute. Nothing may
    follow a prefetch to the device.
    """
    if knobs.device_prefetch != "off":
        return False
    chosen = dataset.options().experimental_optimization
    return (
        chosen.inject_prefetch is False
        and chosen.map_parallelization is False
        and knobs.workers != AUTO
    )


def _restartable(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Return a pipeline that ends when the gate is closed, and restarts when it is asked again and
    the gate is open.

    `repeat` restarts an ended input, and ends when the restarted input is empty; asked again, it
    tries once more. A restarted input keeps neither elements nor threads.
    """
    chosen = tf.data.Options()
    chosen.experimental_optimization.shuffle_and_repeat_fusion = False
    repeated = dataset.repeat()
    setattr(repeated, OWN, True)
    return repeated.with_options(chosen)


@tf.autograph.experimental.do_not_convert
def _gated(source: tf.data.Iterator, is_open: tf.Variable) -> tf.data.Dataset:
    """Return the source's elements until the gate closes; it is checked before each, so that none
    is dropped.

    The gate costs about 0.1 ms per element: gate batches.
    """

    @tf.autograph.experimental.do_not_convert
    def is_open_now(_: tf.Tensor) -> tf.Tensor:
        return is_open.read_value()

    @tf.autograph.experimental.do_not_convert
    def take(_: tf.Tensor) -> tf.experimental.Optional:
        return source.get_next_as_optional()

    # Not `counter`: TensorFlow keeps its function until the process ends.
    gate = _until_empty(tf.data.Dataset.range(tf.int64.max).take_while(is_open_now).map(take))
    setattr(gate, GATE, True)
    return gate


def _until_empty(optionals: tf.data.Dataset) -> tf.data.Dataset:
    """Return the elements of optionals, up to the first that has none."""

    @tf.autograph.experimental.do_not_convert
    def has_value(element: tf.experimental.Optional) -> tf.Tensor:
        return element.has_value()

    @tf.autograph.experimental.do_not_convert
    def value(element: tf.experimental.Optional) -> Any:
        return element.get_value()

    return optionals.take_while(has_value).map(value)


class BatchIterator:
    """The batches of one iterator.

    A batch of plain tensors is returned as a flat list: 20 us of Python, against 120 us of the
    iterator's own `next`, which packs them. `BatchSpec.pack` packs it inside the traced step.

    Attributes:
        next: returns the next batch; raises StopIteration at the end.
        shape: the structure of the batches.
        iterator: the iterator; it lives as long as its resource is used.
        stamps: of batches that are prefetched to the device; None where they are not, or not by
        tfwatch.
    """

    def __init__(self, iterator: Any, stamps: CopyStamps | None = None) -> None:
        self.iterator = iterator
        self.stamps = stamps
        self.shape = BatchSpec(iterator.element_spec, plain=isinstance(iterator, tf.data.Iterator))
        self.next: Callable[[], Any] = iterator.__next__
        resource = getattr(iterator, "_iterator_resource", None)
        # Asynchronous eager execution would return a batch before it is there.
        if (
            self.shape.flat
            and resource is not None
            and tf.config.experimental.get_synchronous_execution()
        ):
            self.next = _flat_next(resource, self.shape.flat)
        else:
            self.shape = BatchSpec(iterator.element_spec, plain=False)


class BatchSpec:
    """The structure of a batch.

    Attributes:
        spec: its nested structure. flat: its tensors in order if it holds only plain ones, else
        None.
    """

    def __init__(self, spec: Any, *, plain: bool) -> None:
        self.spec = spec
        leaves = tf.nest.flatten(spec)
        self.flat = (
            leaves
            if plain and leaves and all(type(leaf) is tf.TensorSpec for leaf in leaves)
            else None
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BatchSpec) and (self.spec, self.flat) == (other.spec, other.flat)

    __hash__ = None  # type: ignore[assignment]

    def pack(self, batch: Any) -> Any:
        """Return a batch in its structure, from what a `BatchIterator` returned."""
        return batch if self.flat is None else tf.nest.pack_sequence_as(self.spec, batch)

    def ensure_shapes(self, batch: Any) -> Any:
        """Return a batch in a graph, with the static shapes of its plain tensors set.

        Grappler knows the shapes of an iterator's elements, as in Keras' own function, but not
        those of an argument. Without them it rewrites the graph differently, and the last bits of
        the weights differ.
        """
        return tf.nest.map_structure(_ensured, self.spec, batch)


def _ensured(spec: Any, part: Any) -> Any:
    if type(spec) is not tf.TensorSpec or spec.shape.rank is None:
        return part
    with part.graph.colocate_with(part):  # on the batch's device: no copy to a GPU and back
        return tf.ensure_shape(part, spec.shape)


def _flat_next(resource: tf.Tensor, flat: list[tf.TensorSpec]) -> Callable[[], list[tf.Tensor]]:
    types, shapes = [leaf.dtype for leaf in flat], [leaf.shape for leaf in flat]
    get_next: Callable[[], list[tf.Tensor]] = partial(
        tf.raw_ops.IteratorGetNext, iterator=resource, output_types=types, output_shapes=shapes
    )

    def take() -> list[tf.Tensor]:
        try:
            return get_next()
        except tf.errors.OutOfRangeError:
            raise StopIteration from None

    return take
