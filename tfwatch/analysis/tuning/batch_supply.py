"""How batches are made: serial work, parallel calls, batches prepared ahead, and how that overlaps with compute.

How batches are made: what of the work is serial, what workers share, and what is made ahead without prefetch.

What a step takes when batches are made one after another, ahead of it, or by several workers: formulas alone.

Milliseconds throughout. D is what making a batch takes, C + H (`work`) what a step does with it on the device and after
it on the host.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from tfwatch.analysis.findings.bottleneck import StageTable

#: A buffer size of TensorFlow's own choice is taken for this many batches, and a map's parallelism for all cores.
AUTO_DEPTH = 8
_MAPS = ("Map", "ParallelMap")
#: A batch whose size nobody knows is taken for one of so many examples.
_BATCH = 32
#: Of the work of a pipeline that cannot be seen inside: the share that lies in maps. Decoding is most of a JPEG
#: pipeline (0.95 of it in `cnn`); a Python generator has none. In the order of `Range`: what makes steps short first.
_IN_MAPS = (1.0, 0.9, 0.4)
#: By the same guesses: of the work that no stage shows, what lies in maps; and of all work, what the stages may tell of
#: the wrong one: on an H200's host a batch stage seemed to be most of a pipeline whose maps were.
_HIDDEN_IN_MAPS = (1.0, 0.5, 0.0)
_MISTOLD = (0.3, 0.0, -0.05)
#: Parallel maps take more work in all: 1.0 where they sleep, 1.3 for JPEGs decoded on all of two cores.
_LOSSES = (1.0, 1.05, 1.3)
#: The fast pipeline of a pipeline never seen to run: its share of the slow form's work. 0.04 in `generator`.
_FAST = (0.01, 0.1, 0.5)
#: A cache that never held anything: what is left of the work. Random augmentation is made anew.
_CACHED = (0.02, 0.3, 0.9)


class Range(NamedTuple):
    """A figure that is not known exactly: what makes the step short, what is likely, and what makes it long."""

    short: float
    middle: float
    long: float


@dataclass(frozen=True, slots=True)
class Supply:
    """One way in which a pipeline may be built.

    serial_ms: a batch's work in stages that stay serial; parallel_ms: in maps, which `workers` share. elements: what
    the maps hand on singly for each batch, 1 where they make whole batches: so much finer is what they make ahead.
    loss: the maps' work becomes so many times as much where threads share it.
    """

    serial_ms: float
    parallel_ms: float
    elements: float
    loss: float = 1.0

    @property
    def work_ms(self) -> float:
        """What a batch takes where nothing is parallel."""
        return self.serial_ms + self.parallel_ms

    def data_ms(self, workers: str, cores: int) -> float:
        """D: what a batch takes after another where nothing waits for the step."""
        at_once = parallelism(workers, cores)
        return by_workers(self.parallel_ms * self.loss, self.serial_ms, at_once, cores) if at_once else self.work_ms

    def step_ms(self, prefetch: str, workers: str, work_ms: float, cores: int) -> float:
        """The step, where it takes `work_ms` of compute and host."""
        data_ms = self.data_ms(workers, cores)
        if depth(prefetch):
            return overlapped(data_ms, work_ms)
        at_once = parallelism(workers, cores)
        if not at_once:
            return in_turn(data_ms, work_ms)
        return partly_ahead(data_ms, work_ms, min(at_once / self.elements, 1.0))

    def scaled(self, times: float) -> Supply:
        """The same pipeline with all of its work so many times as large."""
        return replace(self, serial_ms=self.serial_ms * times, parallel_ms=self.parallel_ms * times)

    def with_latency(self, latency_ms: float) -> Supply:
        """The same with so much more latency at the read, a map of whole batches; less than nothing is nothing."""
        return replace(self, parallel_ms=max(self.parallel_ms + latency_ms, 0.0))


def depth(value: str) -> int:
    """How many batches a prefetch, or a parallel map, may hold; 0 where it is off."""
    if value == "off":
        return 0
    return int(value) if value.isdigit() else AUTO_DEPTH


def parallelism(workers: str, cores: int) -> int:
    """How many calls of a map run at once; 0 where it is not parallel. tf.data runs them on a thread a core."""
    if workers == "off":
        return 0
    return int(workers) if workers.isdigit() else max(cores, 1)


def needed_bytes(knobs: Mapping[str, str], batch_bytes: float) -> float:
    """At most what the buffers of a setting hold: a batch each for the prefetch and for what is made in parallel."""
    return batch_bytes * (depth(knobs.get("prefetch", "off")) + depth(knobs.get("workers", "off")))


def supplies(
    work_ms: Range, table: StageTable | None, batch_size: int | None, latency_ms: float
) -> tuple[Supply, Supply, Supply]:
    """The pipeline by three guesses, in the order of `Range`; alike where its stages are known.

    Simulated latency is part of the work, and in a map for certain.
    """
    each = _elements(table, batch_size)
    elements = (1.0, each, each) if table is None else (each, each, each)
    found = []
    for n, (ms, many, loss) in enumerate(zip(work_ms, elements, _LOSSES, strict=True)):
        parallel_ms = _in_maps(table, ms, n)
        if parallel_ms is None:
            sure_ms = min(latency_ms, ms)
            parallel_ms = sure_ms + _IN_MAPS[n] * (ms - sure_ms)
        found.append(Supply(ms - parallel_ms, parallel_ms, many, loss))
    return found[0], found[1], found[2]


def in_form(found: tuple[Supply, ...], fast: bool) -> tuple[Supply, ...] | None:
    """The supplies with the pipeline's other form in place of the present one; None where that cannot be guessed."""
    return tuple(one.scaled(share) for one, share in zip(found, _FAST, strict=True)) if fast else None


def cached(found: tuple[Supply, ...], table: StageTable | None) -> tuple[Supply, ...]:
    """The supplies once a cache holds every example: what was made of them before anything random is not made again.

    Of several maps the last one is taken for the random one.
    """
    left = _left(table)
    shares = _CACHED if left is None else (left / 2, left, min(1.5 * left, 1.0))
    return tuple(one.scaled(share) for one, share in zip(found, shares, strict=True))


def _left(table: StageTable | None) -> float | None:
    """The share of the work that a cache leaves; None where the stages do not tell."""
    if table is None or not table.all_ms > 0:
        return None
    maps = [stage.busy_ms for stage in table.stages if stage.kind.startswith(_MAPS) and stage.busy_ms > 0]
    return 1 - sum(maps[:-1]) / table.all_ms if len(maps) > 1 else None


def _in_maps(table: StageTable | None, work_ms: float, guess: int) -> float | None:
    """What of a batch's work lies in maps, by one of the three guesses; None where the stages do not tell.

    Work that no stage shows may lie in maps or beside them.
    """
    if table is None or not table.all_ms > 0:
        return None
    maps_ms = sum(stage.busy_ms for stage in table.stages if stage.kind.startswith(_MAPS) and stage.busy_ms > 0)
    hidden_ms = max(work_ms - table.all_ms, 0.0)
    shown_ms = min(maps_ms, work_ms * maps_ms / table.all_ms)
    more_ms = _HIDDEN_IN_MAPS[guess] * hidden_ms + _MISTOLD[guess] * work_ms
    return min(max(shown_ms + more_ms, 0.0), work_ms)


def _elements(table: StageTable | None, batch_size: int | None) -> float:
    """What the costliest map hands on for each batch: examples where a batch stage follows it."""
    each = float(batch_size or _BATCH)
    if table is None:
        return each
    maps = {n: stage.busy_ms for n, stage in enumerate(table.stages) if stage.kind.startswith(_MAPS)}
    costliest = max(maps, key=lambda n: -1.0 if math.isnan(maps[n]) else maps[n], default=0)
    return each if any("Batch" in stage.kind for stage in table.stages[costliest:]) else 1.0


#: What taking a batch from a prefetch buffer costs over nothing: 0.2 ms on an H200, 0.1 to 0.4 on two cores.
HAND_OVER_MS = 0.2


def in_turn(data_ms: float, work_ms: float) -> float:
    """D + C + H: nothing works ahead, so that each batch is waited for in full."""
    return data_ms + work_ms


def overlapped(data_ms: float, work_ms: float) -> float:
    """max(D, C + H) and a little: a batch is made while the step before it runs.

    The bound of a two-stage pipeline. Held within 5 % on an H200 with loaders of 5 to 40 ms against steps of 13.4
    (docs/results.md).
    """
    return max(data_ms, work_ms + HAND_OVER_MS)


def queued(data_ms: Sequence[float], work_ms: Sequence[float], depth: int) -> NDArray[np.float64]:
    """The steps of a training over these batches behind a buffer of `depth` of them, shape [len(data_ms)].

    Batch i is begun when i - 1 is made and i - depth is taken, as tf.data's prefetch does, and is taken when it is made
    and step i - 1 is over: Lindley's recursion with a finite buffer. The series runs twice, and the second pass is
    given: the first begins with an empty buffer.
    """
    taken = deque([0.0] * depth, maxlen=depth)
    made = ready = 0.0
    overs = []
    # Most of what a forecast costs: calls of `max` made it take 1.6 times as long.
    for data, work in (*zip(data_ms, work_ms, strict=True),) * 2:
        oldest = taken[0]
        made = (oldest if oldest > made else made) + data
        take = made if made > ready else ready
        taken.append(take)
        ready = take + work
        overs.append(ready)
    return np.diff(overs, prepend=0.0)[len(data_ms) :]


def partly_ahead(data_ms: float, work_ms: float, share: float) -> float:
    """A pipeline that makes `share` (0 to 1) of the next batch ahead while a step runs, and the rest when asked."""
    return data_ms + work_ms - min(share * data_ms, work_ms)


def shared_cores(core_ms: float, cores: float) -> float:
    """The shortest step for work of `core_ms` core milliseconds on so many cores, whatever overlaps: work is conserved.

    NaN where one of them is not known.
    """
    return core_ms / cores if cores > 0 else math.nan


def by_workers(parallel_ms: float, serial_ms: float, workers: float, cores: float) -> float:
    """A batch whose maps run on `workers` threads: work / min(workers, free cores); the serial rest stays beside it.

    The maps of one batch run while the serial rest of another does, so that the slower of the two bounds the rate
    (tf.data: each parallel map is a stage of its own).
    """
    return max(parallel_ms / max(min(workers, cores), 1.0), serial_ms)
