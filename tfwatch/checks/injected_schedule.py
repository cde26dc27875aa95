"""Schedules of injected delays, and the results of the trainings: plain values, without
TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfwatch.runs.snapshot import Snapshot

PARTS = ("wait", "compute", "host")
#: The kind without callbacks: everything after the fetch is compute.
LOOP = "tfwatch.track"
#: The kind with several steps in one execution, whose host time is that of an execution.
FUSED = "steps_per_execution, exact"
STEPS_PER_EXECUTION = 4
#: Kinds whose batches are made on request, so that each delay becomes data wait in full.
ON_DEMAND = (
    "tf.data",
    "tf.data, unknown length",
    "from_generator",
    "steps_per_epoch",
    "validation",
    FUSED,
    LOOP,
)
#: Kinds whose hand-over of a batch is not observed: it is between the end of its delay and the
#: begin of the next.
WITHOUT_HANDOVER = ("Python generator", "PyDataset")
#: Kinds whose batches are prepared ahead, so that only the rest of a delay at the request becomes
#: data wait.
AHEAD = (*WITHOUT_HANDOVER, "prefetch")


@dataclass(frozen=True, slots=True)
class Schedule:
    """One training of `steps` steps. `*_ms`: the sleeps in that part, of which each step draws one.

    kind: the way in which `fit` gets its batches. switches: (step, value): prefetch is switched to
    the value after that step.
    """

    wait_ms: tuple[float, ...] = (0.0,)
    compute_ms: tuple[float, ...] = (0.0,)
    host_ms: tuple[float, ...] = (0.0,)
    kind: str = "tf.data"
    steps: int = 64
    switches: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class PartComparison:
    """Injected and measured time of sleeps of `slept_ms` in one part of the steps: medians, NaN
    with too few steps."""

    part: str
    slept_ms: float
    injected_ms: float
    measured_ms: float


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """The figures of one training.

    comparisons: one for each sleep above 0 in a part that also has steps without. wall_error: the
    error of the parts' sum as a share of the time between two callbacks.
    """

    comparisons: list[PartComparison]
    wall_error: float
    run: Snapshot
