"""Describe the knobs of a script's pipeline in run.json: which are live, and the reasons for the others."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tfwatch.core.errors import fails_open
from tfwatch.core.knobs import MOST_STAGES, VECTORISED
from tfwatch.core.refusals import FETCH_TO_DEVICE, PER_REPLICA
from tfwatch.tfdata.distributed import buffer_size_per_replica, dataset_of, fetches_to_device
from tfwatch.tfdata.rebuilding.pipeline_tree import label_of
from tfwatch.watch.fit.switching.script_pipeline import ScriptPipeline, why_not_switchable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tfwatch.runs.writer import RunWriter

_WORKERS, _CACHE, _FAST = "workers", "cache", "fast_pipeline"
_NOT_LIVE = "not live below a strategy"


class KnobDescriber:
    """Writes into run.json which knobs a script's pipeline has, and the reasons for those that it has not.

    The thread that reads the stages calls it: a `fit` of less than a second is not described.
    """

    def __init__(self, writer: RunWriter) -> None:
        self._writer = writer
        self._described: Callable[[], Any] = lambda: None

    def describe(self, iterator: Any, used: ScriptPipeline) -> None:
        """Describe the pipeline of an iterator, once. used: as the training reads it, if a switch was requested."""
        is_spread = isinstance(iterator, tf.distribute.DistributedIterator)
        dataset = dataset_of(iterator)
        if dataset is None or dataset is self._described():
            return
        self._described = weakref.ref(dataset)
        with fails_open(lambda why: self._writer.note(f"the settings of this pipeline are unknown: {why}")):
            if is_spread:
                self._write_spread(iterator)
            else:
                self._write(iterator, used)

    def _write_spread(self, iterator: Any) -> None:
        """Describe the data set below a strategy: its settings are those of the script's lines, and none is live."""
        script = ScriptPipeline()
        script.read(iterator)
        fixed = {
            "prefetch": f"{PER_REPLICA} {buffer_size_per_replica(iterator)}",
            _WORKERS: script.why_not or _NOT_LIVE,
            _CACHE: script.why_no_cache or _NOT_LIVE,
            _FAST: script.why_no_fast or _NOT_LIVE,
            "device_prefetch": f"{FETCH_TO_DEVICE} {'on' if fetches_to_device(iterator) else 'off'}",
        }
        self._writer.describe(switchable=[], fixed=fixed, code=script.edits)

    def _write(self, iterator: Any, used: ScriptPipeline) -> None:
        script, manifest = ScriptPipeline(), self._writer.manifest()
        script.read(iterator)
        script.is_rebuilt = used.is_rebuilt
        refused = why_not_switchable(iterator)
        why_no_fast = script.why_no_fast or used.why_not_proved(iterator)
        reasons = {_WORKERS: script.why_not, _CACHE: script.why_no_cache, _FAST: why_no_fast}
        fixed = {knob: refused.words if refused else why for knob, why in reasons.items() if refused or why}
        others = [knob for knob in manifest.switchable if knob not in reasons]
        switchable = [*others[:1], *(knob for knob in reasons if knob not in fixed), *others[1:]]
        named = {_FAST: VECTORISED} if _FAST in switchable else {}
        self._writer.describe(
            settings={**manifest.settings, **named},
            switchable=switchable,
            fixed=fixed,
            code=script.edits,
            parallel_stages=_names_of(script.parallel_stages) if _WORKERS in switchable else [],
            cache_bytes=script.store.bytes_needed if script.store else None,
            cache_after=script.cache_after,
            from_epoch=[knob for knob in script.from_epoch if knob in switchable],
        )


def _names_of(stages: Sequence[Any]) -> list[str]:
    """Return the names of stages that can be set one by one; none where there is one, or too many."""
    return [label_of(node) for node in stages] if 2 <= len(stages) <= MOST_STAGES else []
