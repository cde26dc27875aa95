"""What is injected into a training, and what came of it: plain values, without TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfwatch.core.knobs import Setting
    from tfwatch.runs.opened import Run

PARTS = ("wait", "compute", "host")
#: Kinds whose batches are made when they are asked for: a delay is waited for in full.
ON_DEMAND = (
    "tf.data",
    "tf.data, unknown length",
    "from_generator",
    "steps_per_epoch",
    "validation",
    "run_eagerly",
    "own train_step",
    "steps_per_execution, exact",
    "tfwatch.track",
)
#: Kinds whose batches are made ahead: what is waited for is what of a delay is left when a batch is asked for.
AHEAD = ("Python generator", "PyDataset", "prefetch", "MirroredStrategy", "steps_per_execution")
#: Of these nobody sees a batch handed over: it is between the end of its delay and the begin of the next one's.
ASKED_ANEW = ("Python generator", "PyDataset")
#: Steps in one call of Keras' train function.
FUSED = {"steps_per_execution": 4, "steps_per_execution, exact": 4}
#: The kind that calls no callbacks: all that follows the fetch is compute.
LOOP = "tfwatch.track"
#: The callbacks that hold a step up, by class: one that is told as such, and one that is told as a checkpoint.
LOGGER, CHECKPOINT = "SlowLogger", "SlowCheckpoint"


@dataclass(frozen=True, slots=True)
class HeldUp:
    """A step, counted from 1, that takes `ms` more in a part.

    how: `sleep` in that part, `callback` or `checkpoint` (a callback of that sort sleeps), or `garbage collection`,
    which takes the time that it takes.
    """

    step: int
    part: str
    how: str
    ms: float


@dataclass(frozen=True, slots=True)
class Schedule:
    """One training of `steps` steps. `*_ms`: the sleeps in that part, of which each step draws one.

    kind: how the batches come, of `injected_kinds`. held_up: steps that stand out.
    switches: (step, value): prefetch is switched after so many steps.
    """

    wait_ms: tuple[float, ...] = (0.0,)
    compute_ms: tuple[float, ...] = (0.0,)
    host_ms: tuple[float, ...] = (0.0,)
    kind: str = "tf.data"
    steps: int = 64
    held_up: tuple[HeldUp, ...] = ()
    switches: tuple[tuple[int, Setting], ...] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """What sleeps of `slept_ms` injected into a part of the steps and what Watch said of it: medians, ms.

    NaN where there are too few such steps.
    """

    part: str
    slept_ms: float
    injected_ms: float
    measured_ms: float


@dataclass(frozen=True, eq=False)
class Trained:
    """One training's figures.

    found: one for each sleep that is not 0, where the part also has steps without. wall_error: how far the parts are
    from filling the time between two callbacks, as a share of it. held_up: with what each one really took.
    slept_ms: what the delays of each part really took, the median. step_ms: from the end of one step's callbacks to
    that of the next, the median.
    """

    found: list[Found]
    wall_error: float
    run: Run
    held_up: list[HeldUp]
    slept_ms: dict[str, float] = field(default_factory=dict)
    step_ms: float = 0.0
