"""A model of the batch supply: serial work, parallel calls, prefetch, and their overlap with
compute.

Milliseconds throughout. D is the time to prepare a batch, C + H (`work`) the compute and host time
of a step.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tfwatch.core.knobs import PREFETCH, WORKERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from tfwatch.judge.stages import StageTable

#: A buffer size that TensorFlow chooses counts as this many batches; a map's parallelism counts as
#: all cores.
AUTO_DEPTH = 8
_MAPS = ("Map", "ParallelMap")
#: The examples of a batch of unknown size.
BATCH = 32
#: The share of maps in the work of a pipeline without stage figures. Decoding is most of a JPEG
#: pipeline (0.95 in `cnn`); a Python generator has no maps. In the order of `Range`: the shortest
#: step first.
_IN_MAPS = (1.0, 0.9, 0.4)
#: In the same order: the share of maps in work that no stage shows, and the share of all work that
#: stage figures may assign to the wrong stage. On an H200's host a batch stage seemed to take most
#: of the time of the maps.
_HIDDEN_IN_MAPS = (1.0, 0.5, 0.0)
_MISASSIGNED = (0.3, 0.0, -0.05)
#: Parallel maps take more work in total: 1.0 where they sleep, 1.3 for JPEGs decoded on both of two
#: cores.
_LOSSES = (1.0, 1.05, 1.3)
#: The work of a batch over its busy time in tf.data's model. Busy time is wall clock: of parallel
#: maps it includes the waits for each other, four times the work on two cores in use.
ALONE = (0.9, 1.0, 1.1)
BESIDE_EACH_OTHER = (0.3, 0.7, 1.1)
#: The share of the work that remains with a cache that has not run yet: random augmentation runs
#: each epoch.
_CACHED = (0.02, 0.3, 0.9)


class Range(NamedTuple):
    """An uncertain figure: the values for the shortest, the expected and the longest step."""

    short: float
    middle: float
    long: float


@dataclass(frozen=True, slots=True)
class Supply:
    """One assumption about the work of a pipeline."""

    #: A batch's work in serial stages.
    serial_ms: float
    #: In maps, which `workers` share.
    parallel_ms: float
    #: Of a map's output per batch, 1 where it makes whole batches; a map works ahead by elements.
    elements: float
    #: The factor by which the maps' work grows where threads share it.
    loss: float = 1.0

    @property
    def work_ms(self) -> float:
        """The time of a batch without parallel calls."""
        return self.serial_ms + self.parallel_ms

    def data_ms(self, workers: str, cores: int) -> float:
        """Return D, the time between two batches where none waits for the step."""
        at_once = parallelism(workers, cores)
        return (
            by_workers(self.parallel_ms * self.loss, self.serial_ms, at_once, cores)
            if at_once
            else self.work_ms
        )

    def step_ms(self, prefetch: str, workers: str, work_ms: float, cores: int) -> float:
        """Return the step time with `work_ms` of compute and host."""
        data_ms = self.data_ms(workers, cores)
        if depth(prefetch):
            return overlapped(data_ms, work_ms)
        at_once = parallelism(workers, cores)
        if not at_once:
            return in_turn(data_ms, work_ms)
        return partly_ahead(data_ms, work_ms, min(at_once / self.elements, 1.0))

    def scaled(self, times: float) -> Supply:
        """Return the same pipeline with all work multiplied."""
        return replace(self, serial_ms=self.serial_ms * times, parallel_ms=self.parallel_ms * times)


def depth(value: str) -> int:
    """Return the number of batches that a prefetch or a parallel map may hold; 0 where it is
    off."""
    if value == "off":
        return 0
    return int(value) if value.isdigit() else AUTO_DEPTH


def parallelism(workers: str, cores: int) -> int:
    """Return the number of parallel calls of a map; 0 where it is serial. tf.data uses one thread
    per core."""
    if workers == "off":
        return 0
    return int(workers) if workers.isdigit() else max(cores, 1)


def needed_bytes(knobs: Mapping[str, str], batch_bytes: float) -> float:
    """Return the most bytes in the buffers of a setting: those of the prefetch and of the parallel
    calls."""
    return batch_bytes * (depth(knobs.get(PREFETCH, "off")) + depth(knobs.get(WORKERS, "off")))


def supplies(
    work_ms: Range, table: StageTable | None, batch_size: int | None
) -> tuple[Supply, Supply, Supply]:
    """Return three assumptions about a pipeline, in the order of `Range`; alike where its stages
    are known."""
    each = _elements(table, batch_size)
    elements = (1.0, each, each) if table is None else (each, each, each)
    estimates = []
    for n, (ms, many, loss) in enumerate(zip(work_ms, elements, _LOSSES, strict=True)):
        parallel_ms = _in_maps(table, ms, n)
        if parallel_ms is None:
            parallel_ms = _IN_MAPS[n] * ms
        estimates.append(Supply(ms - parallel_ms, parallel_ms, many, loss))
    return estimates[0], estimates[1], estimates[2]


def cached(
    estimates: tuple[Supply, ...], table: StageTable | None, after: str = ""
) -> tuple[Supply, ...]:
    """Return the supplies with a full cache: the stages up to the one with the name `after` do no
    work.

    Without that name, the stages before the first random one; of several maps, the last one counts
    as random.
    """
    left = _left_after(table, after)
    left = _left(table) if left is None else left
    shares = _CACHED if left is None else (left / 2, left, min(1.5 * left, 1.0))
    return tuple(one.scaled(share) for one, share in zip(estimates, shares, strict=True))


def _left_after(table: StageTable | None, after: str) -> float | None:
    """Return the share of the work above the stage of this name; None where the table has not
    exactly one."""
    if table is None or not table.all_ms > 0:
        return None
    places = [n for n, stage in enumerate(table.stages) if stage.name == after]
    above = (
        [stage.busy_ms for stage in table.stages[places[0] + 1 :] if stage.busy_ms > 0]
        if places
        else []
    )
    return sum(above) / table.all_ms if len(places) == 1 else None


def _left(table: StageTable | None) -> float | None:
    """Return the share of the work that remains with a cache; None without stage figures."""
    if table is None or not table.all_ms > 0:
        return None
    maps = [
        stage.busy_ms
        for stage in table.stages
        if stage.kind.startswith(_MAPS) and stage.busy_ms > 0
    ]
    return 1 - sum(maps[:-1]) / table.all_ms if len(maps) > 1 else None


def _in_maps(table: StageTable | None, work_ms: float, guess: int) -> float | None:
    """Return the part of a batch's work in maps, by one of the three assumptions; None without
    stage figures.

    Work that no stage shows may be in maps or outside them.
    """
    if table is None or not table.all_ms > 0:
        return None
    maps_ms = sum(
        stage.busy_ms
        for stage in table.stages
        if stage.kind.startswith(_MAPS) and stage.busy_ms > 0
    )
    hidden_ms = max(work_ms - table.all_ms, 0.0)
    shown_ms = min(maps_ms, work_ms * maps_ms / table.all_ms)
    more_ms = _HIDDEN_IN_MAPS[guess] * hidden_ms + _MISASSIGNED[guess] * work_ms
    return min(max(shown_ms + more_ms, 0.0), work_ms)


def _elements(table: StageTable | None, batch_size: int | None) -> float:
    """Return the elements of the costliest map per batch: examples where a batch stage follows
    it."""
    each = float(batch_size or BATCH)
    if table is None:
        return each
    maps = {
        n: stage.busy_ms for n, stage in enumerate(table.stages) if stage.kind.startswith(_MAPS)
    }
    costliest = max(maps, key=lambda n: -1.0 if math.isnan(maps[n]) else maps[n], default=0)
    return each if any("Batch" in stage.kind for stage in table.stages[costliest:]) else 1.0


#: The cost of a batch from a prefetch buffer: 0.2 ms on an H200, 0.1 to 0.4 ms on two cores.
HAND_OVER_MS = 0.2


def in_turn(data_ms: float, work_ms: float) -> float:
    """Return D + C + H: no batch is prepared ahead, so that each step waits for all of D."""
    return data_ms + work_ms


def overlapped(data_ms: float, work_ms: float) -> float:
    """Return max(D, C + H) plus the hand-over: a batch is prepared while the previous step runs.

    The bound of a two-stage pipeline. It held within 5 % on an H200 with loaders of 5 to 40 ms and
    steps of 13.4 ms (docs/results.md).
    """
    return max(data_ms, work_ms + HAND_OVER_MS)


def queued(data_ms: Sequence[float], work_ms: Sequence[float], depth: int) -> NDArray[np.float64]:
    """Return the step times over these batches behind a buffer of `depth` batches, shape
    [len(data_ms)].

    Work on batch i begins when batch i - 1 is ready and batch i - depth is taken, as in tf.data's
    prefetch; a step takes its batch when it is ready and the previous step is over: Lindley's
    recursion with a finite buffer. The series runs twice and the second pass is returned, since the
    first begins with an empty buffer.
    """
    taken = deque([0.0] * depth, maxlen=depth)
    made = ready = 0.0
    overs = []
    # The costliest loop of a forecast: with calls of `max` it took 1.6 times as long.
    for data, work in (*zip(data_ms, work_ms, strict=True),) * 2:
        oldest = taken[0]
        made = (oldest if oldest > made else made) + data
        take = made if made > ready else ready
        taken.append(take)
        ready = take + work
        overs.append(ready)
    return np.diff(overs, prepend=0.0)[len(data_ms) :]


def partly_ahead(data_ms: float, work_ms: float, share: float) -> float:
    """Return the step of a pipeline that prepares `share` (0 to 1) of the next batch ahead, the
    rest on request."""
    return data_ms + work_ms - min(share * data_ms, work_ms)


def shared_cores(core_ms: float, cores: float) -> float:
    """Return the shortest step for `core_ms` core milliseconds of work on these cores: work is
    conserved.

    NaN where one of the two is unknown.
    """
    return core_ms / cores if cores > 0 else math.nan


def by_workers(parallel_ms: float, serial_ms: float, workers: float, cores: float) -> float:
    """Return the time of a batch whose maps run on `workers` threads: work / min(workers, free
    cores).

    The maps of one batch overlap with the serial stages of another, so that the slower of the two
    bounds the rate (in tf.data each parallel map is a stage).
    """
    return max(parallel_ms / max(min(workers, cores), 1.0), serial_ms)
