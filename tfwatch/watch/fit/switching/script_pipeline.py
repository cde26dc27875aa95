"""A script's own pipeline in a `fit`: its knobs, also as run.json has them, and its rebuilt form
behind a gate."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tfwatch.core.errors import fails_open, raise_interrupt, reason
from tfwatch.core.knobs import AS_WRITTEN, CACHE, DEFAULT, KNOBS, OFF, ON, WORKERS, Refusal
from tfwatch.tfdata.code_edits import find_edits
from tfwatch.tfdata.pipeline_cache import find_place, last_lasting_map, stage_to_cache
from tfwatch.tfdata.pipeline_rebuild import OTHER_SHAPE, RebuiltPipeline, Seeds, has_ragged_rows
from tfwatch.tfdata.pipeline_tree import (
    CannotRebuildError,
    RandomDrawsError,
    parallel_maps,
    read_tree,
    split_tree,
    why_other_draws,
    writes_cache_file,
)
from tfwatch.tfdata.replay import (
    Replay,
    elements_ahead,
    is_far,
    note_seeds,
    noted_seeds,
    read_seeds,
)
from tfwatch.tfdata.stage_names import dataset_of, find_code_stages, kind_of, label_of, nodes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tfwatch.core.knobs import Knobs
    from tfwatch.core.script_code import CodeEdit
    from tfwatch.runs.writer import RunWriter
    from tfwatch.tfdata.cache import ExampleStore
    from tfwatch.tfdata.pipeline_cache import CachePlace
    from tfwatch.watch.fit.py_dataset import PyDatasetSettings

#: A shuffle of so many elements has its order noted before it begins: 0.3 ms an epoch.
_LARGE_SHUFFLE = 5_000
_NO_DATASET = "its data set is not known"
_ONE_PASS = "its data set repeats without end, so that no epoch begins it again"


class ScriptPipeline:
    """Reads the pipeline of an iterator once, and builds it with other settings.

    is_rebuilt: the batches come from the rebuilt pipeline. why_not: the reason why it has no knob
    `workers`, else empty. why_not_now: the reason why that knob takes effect with an epoch; empty
    if it does with the next batch.
    random_draws: its maps may draw other random numbers. random_maps: the reason why they would in
    parallel; empty if they would not, or may. asks: it has the knob `workers` once they may.
    why_no_cache: the reason why it has no knob `cache`, else empty. store: of the cache, None where
    there is none.
    """

    def __init__(self) -> None:
        self.is_rebuilt = False
        #: The knobs that its author's code amounts to.
        self.written = AS_WRITTEN
        self.random_draws = False
        self.random_maps = ""
        self.asks = False
        self.why_not = _NO_DATASET
        self.why_not_now = ""
        self.why_no_cache = _NO_DATASET
        self.store: ExampleStore | None = None
        self._dataset: Any = None
        self._pipeline: RebuiltPipeline | None = None
        self._running: RebuiltPipeline | None = None
        self._maps: list[Any] = []
        self._has_cache = False
        self._place: CachePlace | None = None

    def read(self, iterator: Any) -> None:
        """Read the pipeline of an iterator, unless it is known."""
        dataset = dataset_of(iterator)
        if dataset is None or dataset is self._dataset:
            return
        self.close_cache()
        self._dataset, self._pipeline, self._place, self.store = dataset, None, None, None
        self._maps, self.random_maps, self.asks = [], "", False
        self.why_not = _why_unreadable(self._read_maps)
        self.why_no_cache = _why_unreadable(self._read_cache)

    def allow_random_draws(self, iterator: Any) -> None:
        """Read the pipeline of an iterator as one whose maps may draw other random numbers."""
        self.random_draws, self._dataset = True, None
        self.read(iterator)

    def _read_maps(self) -> None:
        self._refuse_keras_own(self._dataset)
        try:
            self._pipeline = self._rebuildable(random_draws=self.random_draws)
            self._maps = self._pipeline.maps
        except CannotRebuildError as error:
            self._maps = parallel_maps(self._dataset)
            self.random_maps = why_other_draws(self._maps)
            if isinstance(error, RandomDrawsError):
                self.asks = bool(self._rebuildable(random_draws=True).maps)
            raise

    def _rebuildable(self, *, random_draws: bool) -> RebuiltPipeline:
        pipeline = RebuiltPipeline.of(read_tree(self._dataset, random_draws=random_draws))
        self.why_not_now = pipeline.tree.why_not_now
        if self.why_not_now:
            self._refuse_endless()
        return pipeline

    def _read_cache(self) -> None:
        self._refuse_keras_own(self._dataset)
        self._refuse_endless()
        self._place = find_place(self._dataset)
        self.store = self._place.make_store()

    def _refuse_endless(self) -> None:
        if self._dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
            raise CannotRebuildError(_ONE_PASS)

    @staticmethod
    def _refuse_keras_own(dataset: Any) -> None:
        given = next((stage.given for stage in find_code_stages(dataset) if stage.given), "")
        if given:
            raise CannotRebuildError(f"Keras makes its batches from {given}")

    @staticmethod
    def note_order(iterator: Any) -> None:
        """Note the order of a large shuffle while its buffer is empty: later to read it takes 4 us
        an element."""
        dataset = dataset_of(iterator)
        nodes = nodes_of(dataset) if dataset is not None else ()
        shuffles = [node for node in nodes if kind_of(node) == "Shuffle"]
        if len(shuffles) == 1 and elements_ahead(shuffles[0]) > _LARGE_SHUFFLE:
            with fails_open(lambda _: None):  # then it is read when it is needed
                note_seeds(iterator)

    @property
    def edits(self) -> tuple[CodeEdit, ...]:
        """The changes of the script's lines that do what its knobs do."""
        if self._dataset is None:
            return ()
        # A `.cache()` in the script must not fix an order, and has to last.
        kept = self._kept()
        cached = stage_to_cache(self._dataset, kept) if kept is not None else None
        return find_edits(self._dataset, self._maps, cached)

    def _kept(self) -> Any | None:
        """Return the map whose results a cache keeps: one of tfwatch's, else one in the script's
        own lines."""
        return self._place.kept[-1] if self._place else last_lasting_map(self._dataset)

    @property
    def cache_after(self) -> str:
        """The name of the stage whose results a cache keeps; empty where there is none."""
        kept = self._kept() if self._dataset is not None else None
        return label_of(kept) if kept is not None else ""

    def why_not_again(self, knob: str) -> str:
        """Return the reason why a knob of the epoch before is as in the script again; empty where
        it is not known."""
        if knob != WORKERS:
            return self.why_no_cache
        return self.why_not or "its data set has other stages"

    def needs_rebuild(self, knobs: Knobs) -> bool:
        """Return whether these knobs ask for more than a stage that is added at the end."""
        if knobs.cache == ON and not self.why_no_cache:
            return True
        if self.why_not:
            return False
        is_prefetch_other = not self.why_not_now and knobs.prefetch != self.written.prefetch
        return knobs.workers != DEFAULT or is_prefetch_other

    @property
    def workers_from_epoch(self) -> bool:
        """True if a switch of `workers` takes effect with an epoch: the first one over a source
        that is slow to begin again, and each one while a cache is read."""
        if self.why_not:
            return False
        if self.reads_cache:
            return True
        return bool(self.why_not_now) and not self.is_rebuilt

    @property
    def reads_cache(self) -> bool:
        """True while the batches come from a source that reads the cache, filled or not."""
        return self.is_rebuilt and self._has_cache

    def is_far(self, batches: int) -> bool:
        """Return whether another iterator takes long to give so many batches."""
        return self._pipeline is not None and is_far(self._pipeline.tree.top, batches)

    def replay(self, iterator: Any, batches: int) -> Replay:
        """Return a replay of an iterator that has given so many batches; its elements are those of
        a `source`.

        Raises:
            CannotRebuildError: its order is unknown.
        """
        assert self._pipeline
        seeds = _seeds_of(iterator, self._pipeline.tree.shuffles, has_begun=True)
        replay = Replay(iter(self._pipeline.source(seeds, 0)), batches)
        self._running, self._has_cache = self._pipeline, False
        return replay

    def source(self, iterator: Any, batches: int, knobs: Knobs) -> tf.data.Iterator:
        """Return an iterator of the elements of the batches that follow the first `batches` of an
        iterator.

        Raises:
            CannotRebuildError: its order is unknown.
        """
        place, has_begun = self._place if knobs.cache == ON else None, batches > 0
        if place is not None:
            seeds = _seeds_of(iterator, place.shuffles, has_begun=has_begun)
            pipeline, seeds = self._with_cache(place, seeds, knobs.workers), {}
        else:
            assert self._pipeline
            pipeline = self._pipeline
            seeds = _seeds_of(iterator, pipeline.tree.shuffles, has_begun=has_begun)
        source = iter(pipeline.source(seeds, batches))
        self._running, self._has_cache = pipeline, place is not None
        return source

    def _with_cache(self, place: CachePlace, seeds: Seeds, workers: str) -> RebuiltPipeline:
        """Return the pipeline with the cache.

        Raises:
            CannotRebuildError: there is no room for it.
        """
        assert self.store
        if not self.store.is_open:  # an open one counts in what is free
            self.store.open()
        cached = place.build(self.store.examples(), seeds, workers)
        if cached.element_spec != self._dataset.element_spec:
            raise CannotRebuildError(OTHER_SHAPE)
        try:
            pipeline = RebuiltPipeline.of(split_tree(cached, random_draws=self.random_draws))
        except CannotRebuildError:  # its maps stay as written: the gate cannot be below them
            pipeline = RebuiltPipeline.of(split_tree(cached, with_maps=False))
        return replace(pipeline, options=self._dataset.options())

    def close_cache(self) -> None:
        """Drop the cache, once no pipeline reads it."""
        if self.store is not None and self.store.is_open:
            self.store.close()

    def build(self, data: tf.data.Dataset, knobs: Knobs) -> tf.data.Dataset:
        """Return the pipeline under these knobs over a gate on a `source`."""
        assert self._running
        return self._running.build(data, knobs)


def _why_unreadable(read: Callable[[], None]) -> str:
    """Return the reason why a pipeline cannot be read; empty if it is."""
    try:
        read()
    except CannotRebuildError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001  private names of another TensorFlow may raise anything
        raise_interrupt(error)
        return f"it cannot be read with this TensorFlow ({reason(error)})"
    return ""


def _seeds_of(iterator: Any, shuffles: Sequence[Any], *, has_begun: bool) -> Seeds:
    known = noted_seeds(iterator, len(shuffles)) or read_seeds(
        iterator, len(shuffles), has_begun=has_begun
    )
    return dict(zip(map(id, shuffles), known, strict=False))


def written_prefetch(iterator: Any) -> str:
    """Return `off` where the pipeline of an iterator prepares no batch ahead at its end, else
    `default`."""
    dataset = dataset_of(iterator)
    if dataset is None:
        return DEFAULT
    adds_none = dataset.options().experimental_optimization.inject_prefetch is False
    last = next(kind for kind in map(kind_of, nodes_of(dataset)) if kind != "Options")
    return OFF if adds_none and last != "Prefetch" else DEFAULT


def why_not_switchable(iterator: Any) -> Refusal | None:
    """Return the reason why no pipeline can read from a script's iterator; None if one can."""
    if not isinstance(iterator, tf.data.Iterator):
        return Refusal.SPREAD
    device = getattr(getattr(iterator, "_iterator_resource", None), "device", None) or "CPU"
    # tf.data works in host memory: with a gate over batches in GPU memory, training hung or
    # crashed.
    if "CPU" not in device.upper():
        return Refusal.ON_DEVICE
    dataset = dataset_of(iterator)
    if dataset is not None and writes_cache_file(dataset):
        return Refusal.CACHE_FILE
    return Refusal.RAGGED_ROWS if has_ragged_rows(iterator.element_spec) else None


class KnobDescriber:
    """Writes into run.json which knobs a script's pipeline has, and the reasons for those that it
    has not.

    The thread that reads the stages calls it: a `fit` of less than a second is not described.
    """

    def __init__(self, writer: RunWriter, py_dataset: PyDatasetSettings | None = None) -> None:
        self._writer, self._py_dataset = writer, py_dataset
        self._described: Callable[[], Any] = lambda: None
        self._known: tuple[bool, Refusal | None] = (False, None)

    def describe(self, iterator: Any, used: ScriptPipeline, refusal: Refusal | None) -> None:
        """Describe the pipeline of an iterator, once. used: as the training reads it, if a switch
        was requested. refusal: as `why_not_switchable` returns it."""
        dataset, known = dataset_of(iterator), (used.random_draws, refusal)
        if dataset is None or (dataset is self._described() and known == self._known):
            return
        self._described, self._known = weakref.ref(dataset), known
        with fails_open(
            lambda why: self._writer.note(f"the settings of this pipeline are unknown: {why}")
        ):
            self._write(dataset, iterator, used)

    def _write(self, dataset: Any, iterator: Any, used: ScriptPipeline) -> None:
        _, refused = self._known
        script, manifest = ScriptPipeline(), self._writer.manifest()
        script.random_draws = used.random_draws
        script.read(iterator)
        script.is_rebuilt = used.is_rebuilt
        if refused is Refusal.SPREAD:
            fixed = fixed_below_strategy(script.edits)
            self._writer.describe(switchable=[], fixed=fixed, code=script.edits)
            return
        own = self._py_dataset.reasons() if self._py_dataset else {}
        reasons = {WORKERS: script.why_not, CACHE: script.why_no_cache, **own}
        why_none = refused.words if refused else ""
        fixed = {knob: why_none or why for knob, why in reasons.items() if why_none or why}
        others = [knob for knob in manifest.switchable if knob not in reasons]
        switchable = [*others[:1], *(knob for knob in reasons if knob not in fixed), *others[1:]]
        self._writer.describe(
            switchable=switchable,
            fixed=fixed,
            random_maps=self._py_dataset.draws if self._py_dataset else script.random_maps,
            workers_ask=(self._py_dataset or script).asks and not why_none,
            code=script.edits,
            cache_bytes=script.store.bytes_needed if script.store else None,
            cache_after=script.cache_after,
            pipeline_threads=dataset.options().threading.private_threadpool_size or None,
            workers_from_epoch=WORKERS in switchable and (bool(own) or script.workers_from_epoch),
        )


def fixed_below_strategy(edits: Sequence[CodeEdit]) -> dict[str, str]:
    """Return the reason why each knob is not live, after the line of the script to change in its
    place."""
    lines = {edit.knob: edit.place for edit in reversed(edits)}
    why = Refusal.SPREAD.words
    return {knob: f"change {lines[knob]}: {why}" if knob in lines else why for knob in KNOBS}
