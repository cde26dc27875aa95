"""Describe the knobs of a script's pipeline in run.json: which are live, and the reasons for the others."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from tfwatch.core.errors import fails_open
from tfwatch.core.knobs import MOST_STAGES
from tfwatch.core.refusals import Refusal
from tfwatch.tfdata.distributed import dataset_of
from tfwatch.tfdata.rebuilding.pipeline_tree import label_of
from tfwatch.watch.fit.switching.script_pipeline import ScriptPipeline, why_not_switchable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tfwatch.core.code_edits import CodeEdit
    from tfwatch.runs.writer import RunWriter

_WORKERS, _CACHE = "workers", "cache"


class KnobDescriber:
    """Writes into run.json which knobs a script's pipeline has, and the reasons for those that it has not.

    The thread that reads the stages calls it: a `fit` of less than a second is not described.
    """

    def __init__(self, writer: RunWriter) -> None:
        self._writer = writer
        self._described: Callable[[], Any] = lambda: None

    def describe(self, iterator: Any, used: ScriptPipeline) -> None:
        """Describe the pipeline of an iterator, once. used: as the training reads it, if a switch was requested."""
        dataset = dataset_of(iterator)
        if dataset is None or dataset is self._described():
            return
        self._described = weakref.ref(dataset)
        with fails_open(
            lambda why: self._writer.note(f"the settings of this pipeline are unknown: {why}")
        ):
            self._write(iterator, used)

    def _write(self, iterator: Any, used: ScriptPipeline) -> None:
        script, manifest = ScriptPipeline(), self._writer.manifest()
        script.read(iterator)
        script.is_rebuilt = used.is_rebuilt
        refused = why_not_switchable(iterator)
        if refused is Refusal.SPREAD:
            fixed = {**script.why_order_stays, **fixed_below_strategy(script.edits)}
            self._writer.describe(switchable=[], fixed=fixed, code=script.edits)
            return
        reasons = {_WORKERS: script.why_not, _CACHE: script.why_no_cache}
        why_none = refused.words if refused else ""
        fixed = {knob: why_none or why for knob, why in reasons.items() if why_none or why}
        fixed |= script.why_order_stays
        others = [knob for knob in manifest.switchable if knob not in reasons]
        switchable = [*others[:1], *(knob for knob in reasons if knob not in fixed), *others[1:]]
        self._writer.describe(
            switchable=switchable,
            fixed=fixed,
            code=script.edits,
            parallel_stages=_names_of(script.parallel_stages) if _WORKERS in switchable else [],
            cache_bytes=script.store.bytes_needed if script.store else None,
            cache_after=script.cache_after,
            from_epoch=[knob for knob in script.from_epoch if knob in switchable],
        )


def fixed_below_strategy(edits: Sequence[CodeEdit]) -> dict[str, str]:
    """Return the reason why each knob is not live, with the line of the script that takes its place."""
    lines = {edit.knob: edit.place for edit in reversed(edits)}
    knobs, why = ("prefetch", _WORKERS, _CACHE, "device_prefetch"), Refusal.SPREAD.words
    return {knob: f"{why}: change {lines[knob]}" if knob in lines else why for knob in knobs}


def _names_of(stages: Sequence[Any]) -> list[str]:
    """Return the names of stages that can be set one by one; none where there is one, or too many."""
    return [label_of(node) for node in stages] if 2 <= len(stages) <= MOST_STAGES else []
