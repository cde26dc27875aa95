"""What one run has, handed to Watch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tfwatch.runs.control import Control
from tfwatch.training.feed import prefetch_only

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import tensorflow as tf

    from tfwatch.runs.control import Scheduled
    from tfwatch.runs.writer import RunWriter
    from tfwatch.training.pipelines import Build
    from tfwatch.training.shuffle import Shuffle
    from tfwatch.training.store import Store


@dataclass(frozen=True)
class Session:
    """Where a run is written, what is asked of it, and where its batches come from.

    source, build: a workload's own data set and pipeline; without a source the iterator that Keras made is used,
        and prefetch can be added to it.
    shuffle, store: the source's shuffle and the pipeline's cache, where it has them.
    metric: the metric to show beside the loss. stop_after: the number of steps after which to stop.
    on_error: told what a step raised, before Keras is. on_abandoned: told that `fit` went without a word, as it does
        when another callback raises; known only when the model trains again.
    """

    writer: RunWriter
    control: Control = field(default_factory=Control)
    build: Build = prefetch_only
    source: tf.data.Dataset | None = None
    shuffle: Shuffle | None = None
    store: Store | None = None
    metric: str = ""
    stop_after: int | None = None
    switches: Sequence[Scheduled] = ()
    on_error: Callable[[BaseException], None] | None = None
    on_abandoned: Callable[[], None] | None = None

    def is_over(self, steps: int) -> bool:
        """Whether nothing is to be trained after so many steps."""
        return self.control.stop.is_set() or (self.stop_after is not None and steps >= self.stop_after)
