"""The parallel calls of each map and interleave of a script's pipeline, all alike or stage by
stage."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tfwatch.core.knobs import AUTO, DEFAULT, is_by_stage, stage_value
from tfwatch.tfdata.rebuilding.pipeline_tree import is_stateless, kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class ParallelCalls:
    """The requested parallel calls of a pipeline's stages.

    shared: of all stages alike; `default` where they differ. by_function: of each stage where they
    differ, by the `id` of its traced function, which a rebuilt stage shares with the script's own.
    makes_parallel: TensorFlow makes the script's maps parallel by itself.
    """

    shared: str = DEFAULT
    by_function: Mapping[int, str] = field(default_factory=dict)
    makes_parallel: bool = True

    @staticmethod
    def of(workers: str, stages: Sequence[Any], options: Any) -> ParallelCalls:
        """Return those of a knob's value.

        stages: the maps and interleaves, in the order of the pipeline. options: the script's, of
        its data set.
        """
        if not is_by_stage(workers):
            return ParallelCalls(workers)
        by_function = {
            id(node._map_func): stage_value(workers, at) for at, node in enumerate(stages)
        }
        return ParallelCalls(
            DEFAULT, by_function, _makes_parallel(options.experimental_optimization)
        )

    def of_stage(self, node: Any) -> str:
        """Return the setting of a map or interleave.

        Where the stages differ, TensorFlow makes no map parallel by itself: a plain one as the
        script has it is autotuned here, as it would be (`map_parallelization`).
        """
        setting = self.by_function.get(id(node._map_func), self.shared)
        is_plain = bool(self.by_function) and setting == DEFAULT and kind_of(node) == "Map"
        return AUTO if self.makes_parallel and is_plain and is_stateless(node) else setting


def _makes_parallel(chosen: Any) -> bool:
    """Return whether TensorFlow makes maps parallel by itself under these options."""
    wanted = chosen.map_parallelization
    return chosen.apply_default_optimizations is not False if wanted is None else bool(wanted)
