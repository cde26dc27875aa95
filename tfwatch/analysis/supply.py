"""How batches are made: what of the work is serial, what workers share, and what is made ahead without prefetch."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from tfwatch.analysis.overlap import by_workers, in_turn, overlapped, partly_ahead

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfwatch.analysis.stages import StageTable

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
#: The fast form of a pipeline never seen to run: its share of the slow form's work. 0.04 in `generator`.
_FAST = (0.01, 0.1, 0.5)
#: A cache that never held anything: what is left of the work. Random augmentation is made anew.
_CACHED = (0.02, 0.3, 0.9)


class Range(NamedTuple):
    """A figure that is not known exactly: what makes the step short, what is likely, and what makes it long."""

    short: float
    likely: float
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

    def later(self, latency_ms: float) -> Supply:
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
