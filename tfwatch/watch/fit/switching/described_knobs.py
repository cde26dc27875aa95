"""Describe the knobs of a script's pipeline in run.json: which are live, and the reasons for the others."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tfwatch.core.errors import fails_open
from tfwatch.core.knobs import MOST_STAGES
from tfwatch.tfdata.distributed import dataset_of, described_options
from tfwatch.tfdata.rebuilding.pipeline_tree import label_of
from tfwatch.watch.fit.switching.script_pipeline import ScriptPipeline, why_not_switchable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tfwatch.runs.writer import RunWriter
    from tfwatch.watch.fit.switching.relayed_epochs import RelayedEpochs

_WORKERS, _CACHE = "workers", "cache"


class KnobDescriber:
    """Writes into run.json which knobs a script's pipeline has, and the reasons for those that it has not.

    The thread that reads the stages calls it: a `fit` of less than a second is not described.
    """

    def __init__(self, writer: RunWriter, relayed: RelayedEpochs | None = None) -> None:
        self._writer, self._relayed = writer, relayed
        self._described: tuple[Callable[[], Any], bool] = (lambda: None, False)

    def describe(self, iterator: Any, used: ScriptPipeline) -> None:
        """Describe the pipeline of an iterator, once, and again once a relay makes its knobs live.

        used: as the training reads it, if a switch was requested.
        """
        dataset, is_spread = (
            dataset_of(iterator),
            isinstance(iterator, tf.distribute.DistributedIterator),
        )
        if dataset is None or (dataset, is_spread) == (self._described[0](), self._described[1]):
            return
        self._described = weakref.ref(dataset), is_spread
        with fails_open(
            lambda why: self._writer.note(f"the settings of this pipeline are unknown: {why}")
        ):
            self._write(iterator, used, is_spread=is_spread)

    def _write(self, iterator: Any, used: ScriptPipeline, *, is_spread: bool) -> None:
        script, manifest = ScriptPipeline(), self._writer.manifest()
        script.read(iterator)
        script.is_rebuilt = used.is_rebuilt
        refused = why_not_switchable(iterator)
        why_none = (
            self._relayed.why_not_later if self._relayed else refused.words if refused else ""
        )
        reasons = {_WORKERS: script.why_not, _CACHE: script.why_no_cache}
        fixed = {knob: why_none or why for knob, why in reasons.items() if why_none or why}
        fixed |= script.why_order_stays
        others = [knob for knob in manifest.switchable if knob not in reasons]
        if self._relayed:
            fixed |= {"prefetch": why_none} if why_none else {}
            fixed["device_prefetch"] = described_options(self._relayed.stock)
            others = [] if why_none else ["prefetch"]
        switchable = [*others[:1], *(knob for knob in reasons if knob not in fixed), *others[1:]]
        from_epoch = switchable if is_spread else script.from_epoch
        self._writer.describe(
            switchable=switchable,
            fixed=fixed,
            code=script.edits,
            parallel_stages=_names_of(script.parallel_stages) if _WORKERS in switchable else [],
            cache_bytes=script.store.bytes_needed if script.store else None,
            cache_after=script.cache_after,
            from_epoch=[knob for knob in from_epoch if knob in switchable],
        )


def _names_of(stages: Sequence[Any]) -> list[str]:
    """Return the names of stages that can be set one by one; none where there is one, or too many."""
    return [label_of(node) for node in stages] if 2 <= len(stages) <= MOST_STAGES else []
