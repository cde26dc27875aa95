"""A script's own pipeline in a `fit`: which knobs it has, and its rebuilt form behind a gate."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tfwatch.core.errors import fails_open, reason
from tfwatch.core.refusals import FETCH_TO_DEVICE, PER_REPLICA, Refusal
from tfwatch.tfdata.distributed import buffer_size_per_replica, dataset_of, fetches_to_device
from tfwatch.tfdata.pipeline_rebuild import RebuiltPipeline, Seeds
from tfwatch.tfdata.pipeline_tree import CannotRebuildError, read_tree
from tfwatch.tfdata.script_code.source_edits import find_edits
from tfwatch.tfdata.shuffle_order import read_seeds
from tfwatch.tfdata.stages.stage_names import find_code_stages

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.core.code_edits import CodeEdit
    from tfwatch.core.knobs import Knobs
    from tfwatch.runs.writer import RunWriter

_WORKERS = "workers"
_NO_DATASET = "its data set is not known"
_ONE_PASS = "its data set repeats without end, so that no epoch begins it again"


class ScriptPipeline:
    """Reads the pipeline of an iterator once, and builds it with other settings.

    is_rebuilt: the batches come from the rebuilt pipeline. why_not: the reason why it has no knob `workers`, else
    empty. why_not_now: the reason why that knob takes effect with an epoch; empty if it does with the next batch.
    """

    def __init__(self) -> None:
        self.is_rebuilt = False
        self.why_not = _NO_DATASET
        self.why_not_now = ""
        self._dataset: Any = None
        self._pipeline: RebuiltPipeline | None = None

    def read(self, iterator: Any) -> None:
        """Read the pipeline of an iterator, unless it is known."""
        dataset = dataset_of(iterator)
        if dataset is None or dataset is self._dataset:
            return
        self._dataset, self._pipeline = dataset, None
        try:
            self._refuse_keras_own(dataset)
            self._pipeline = RebuiltPipeline.of(read_tree(dataset))
            self.why_not, self.why_not_now = "", self._pipeline.tree.why_not_now
            if self.why_not_now and dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
                raise CannotRebuildError(_ONE_PASS)
        except CannotRebuildError as error:
            self.why_not = str(error)
        except Exception as error:  # noqa: BLE001  private names of another TensorFlow may raise anything
            self.why_not = f"it cannot be read with this TensorFlow ({reason(error)})"

    @staticmethod
    def _refuse_keras_own(dataset: Any) -> None:
        given = next((stage.given for stage in find_code_stages(dataset) if stage.given), "")
        if given:
            raise CannotRebuildError(f"Keras makes its batches from {given}")

    @property
    def edits(self) -> tuple[CodeEdit, ...]:
        """The changes of the script's lines that set its own `num_parallel_calls` and `prefetch`."""
        stages = self._pipeline.parallel_stages if self._pipeline else []
        return () if self._dataset is None else find_edits(self._dataset, stages)

    def needs_rebuild(self, knobs: Knobs) -> bool:
        """Return whether these knobs ask for more than a stage that is added at the end."""
        if self.why_not:
            return False
        return knobs.workers != "default" or (not self.why_not_now and knobs.prefetch != "default")

    @property
    def waits_for_epoch(self) -> bool:
        """True if a switch of `workers` takes effect with an epoch: each time where it sets an interleave's calls.

        An interleave holds elements of its cycle, which no gate can drain without a change of their order.
        """
        interleaves = self._pipeline.tree.interleaves if self._pipeline else ()
        return bool(self.why_not_now) and (bool(interleaves) or not self.is_rebuilt)

    def source(self, iterator: Any, batches: int, knobs: Knobs) -> tf.data.Iterator:
        """Return an iterator of the elements of the batches that follow the first `batches` of an iterator.

        Raises:
            CannotRebuildError: its order is unknown.
        """
        assert self._pipeline
        shuffles = self._pipeline.tree.shuffles
        known = read_seeds(iterator, len(shuffles), has_begun=batches > 0)
        seeds: Seeds = dict(zip(map(id, shuffles), known, strict=False))
        return iter(self._pipeline.source(seeds, batches, knobs.workers))

    def build(self, data: tf.data.Dataset, knobs: Knobs) -> tf.data.Dataset:
        """Return the pipeline under these knobs over a gate on a `source`."""
        assert self._pipeline
        return self._pipeline.build(data, knobs)


def why_not_switchable(iterator: Any) -> Refusal | None:
    """Return the reason why no pipeline can read from a script's iterator; None if one can."""
    if not isinstance(iterator, tf.data.Iterator):
        return Refusal.SPREAD
    device = getattr(getattr(iterator, "_iterator_resource", None), "device", None) or "CPU"
    # tf.data works in host memory: with a gate over batches in GPU memory, training hung or crashed.
    return None if "CPU" in device.upper() else Refusal.ON_DEVICE


class KnobDescriber:
    """Writes into run.json which knobs a script's pipeline has, and the reasons for those that it has not.

    The thread that reads the stages calls it: a `fit` of less than a second is not described.
    """

    def __init__(self, writer: RunWriter) -> None:
        self._writer = writer
        self._described: Callable[[], Any] = lambda: None

    def describe(self, iterator: Any, *, has_begun: bool) -> None:
        """Describe the pipeline of an iterator, once. has_begun: it is rebuilt, and its maps switch at once."""
        is_spread = isinstance(iterator, tf.distribute.DistributedIterator)
        dataset = dataset_of(iterator)
        if dataset is None or dataset is self._described():
            return
        self._described = weakref.ref(dataset)
        with fails_open(lambda _: None):
            if is_spread:
                self._write_spread(iterator)
            else:
                self._write(iterator, has_begun)

    def _write_spread(self, iterator: Any) -> None:
        """Describe the data set below a strategy: its settings are those of the script's lines, and none is live."""
        script = ScriptPipeline()
        script.read(iterator)
        fixed = {
            "prefetch": f"{PER_REPLICA} {buffer_size_per_replica(iterator)}",
            _WORKERS: script.why_not or "not live below a strategy",
            "device_prefetch": f"{FETCH_TO_DEVICE} {'on' if fetches_to_device(iterator) else 'off'}",
        }
        self._writer.describe(switchable=[], fixed=fixed, code=script.edits)

    def _write(self, iterator: Any, has_begun: bool) -> None:
        script, manifest = ScriptPipeline(), self._writer.manifest()
        script.read(iterator)
        script.is_rebuilt = has_begun
        refused = why_not_switchable(iterator)
        why = refused.words if refused else script.why_not
        others = [knob for knob in manifest.switchable if knob != _WORKERS]
        self._writer.describe(
            switchable=others if why else [*others[:1], _WORKERS, *others[1:]],
            fixed={_WORKERS: why} if why else {},
            code=script.edits,
            from_epoch=[_WORKERS] if script.waits_for_epoch and not why else [],
        )
