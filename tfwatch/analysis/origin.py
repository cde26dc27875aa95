"""Where a training's batches come from, as the names of its pipeline's stages show."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tfwatch.core.events import StagesFound


class Given(Enum):
    """What `fit` was given, or a loop goes over. ITERATOR: one of Python's. UNKNOWN: the stages were never read."""

    PY_DATASET = "PyDataset"
    GENERATOR = "generator"
    ARRAYS = "arrays"
    ITERATOR = "iterator"
    TF_DATA = "tf.data"
    UNKNOWN = ""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where batches come from. workers: a `PyDataset` has some, and is not prefetched by Keras then."""

    given: Given = Given.UNKNOWN
    workers: bool = False

    @property
    def has_no_pipeline(self) -> bool:
        """Whether its author wrote no pipeline, to which a stage could be added."""
        return self.given in _MARKED


def origin_of(found: Iterable[StagesFound]) -> Origin:
    """By the names of all pipelines of a run.

    The first that is marked tells of all, for what is read while an epoch begins or ends may lack its source.
    """
    whole = False
    for pipeline in found:
        for kind in pipeline.kinds:
            given = next((one for one in _MARKED if one.value in kind.split()[1:]), None)
            if given is not None:
                return Origin(given, given is Given.PY_DATASET and "Prefetch" not in pipeline.kinds[-1])
        whole = whole or len(pipeline.kinds) > 1
    return Origin(Given.TF_DATA) if whole else Origin()


_MARKED = (Given.PY_DATASET, Given.GENERATOR, Given.ARRAYS, Given.ITERATOR)
