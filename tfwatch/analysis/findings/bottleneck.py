"""The input pipeline from inside: what each stage costs a batch, and which one the others wait for."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from tfwatch.core import units

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tfwatch.core.events import StagesFound
    from tfwatch.core.rows import Rows

#: A stage whose workers use less than this share of a core each waits for something else than the CPU; one that reads
#: no files has to show it more clearly. The machine is crowded where other programs use this share of its cores.
_WAITS, _WAITS_FILES, _WAITS_CROWDED = 0.25, 0.5, 0.1
_CROWDED = 0.5
#: A stage that takes less than this share of the wait for a batch is not what is waited for: where batches take next
#: to nothing, handing them over takes longer.
_EXPLAINS = 0.2
#: Of shorter waits only those that last uncommonly long are looked into, for 3 ms each: they tell of themselves alone.
_TOO_SHORT_MS = 6.0
#: Taking a batch from a buffer that has one: up to so much on two cores with Python's lock contended.
FETCH_MS = 0.6
#: A buffer that holds this share of its elements, in the mean of the readings, is not what is waited for.
_FULL = 0.5
#: Stages whose own time is that of handing over: what tf.data's model charges them with is waiting, 1.8 ms a batch for
#: the prefetch of `generator` against 0.8 ms of work.
_HANDING_OVER = ("Prefetch",)
_PARALLEL = ("Parallel", "MapAndBatch")

Reason: TypeAlias = Literal["storage", "cpu", "serial", "python"]


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage over the last seconds. name: as its author would name it. kind: tf.data's own name, with `python`
    behind it where the stage goes back to Python, `files` where it reads files, and `PyDataset`, `generator` or
    `arrays` where Keras made it of what `fit` was given, `iterator` for one of Python's; `Source` is all of a source
    that has no model.

    busy_ms: what a batch of the training costs in this stage alone, summed over its workers. It is work: with
    `parallelism` workers a batch takes it `busy_ms / parallelism`. buffered: of `buffer_size` elements, at the last
    reading. filled: their ratio in the mean of the readings. NaN: it has none, as a stage that only hands over has no
    work, or nothing passed.
    """

    name: str
    kind: str
    busy_ms: float
    parallelism: float = math.nan
    buffered: float = math.nan
    buffer_size: float = math.nan
    buffered_bytes: float = math.nan
    filled: float = math.nan

    @property
    def is_parallel(self) -> bool:
        """Whether it has workers of its own, and so works while the stages around it do."""
        return self.kind.startswith(_PARALLEL)

    @property
    def calls_python(self) -> bool:
        """Whether it goes back to Python."""
        return "python" in self.kind.split()

    @property
    def reads_files(self) -> bool:
        """Whether it reads files."""
        return "files" in self.kind.split()

    @property
    def is_buffer(self) -> bool:
        """Whether it only keeps elements for the next."""
        return self.kind.startswith(_HANDING_OVER)

    @property
    def batch_ms(self) -> float:
        """The least that a batch takes in it, with its workers; NaN where nothing passed."""
        return self.busy_ms / (max(1.0, self.parallelism) if self.is_parallel else 1.0)


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The stage (its index) that bounds the pipeline's rate, and why: it waits for `storage`, burns `cpu` on all of
    its workers, runs one at a time (`serial`), or copies from `python` and holds its lock."""

    stage: int
    reason: Reason
    sentence: str


@dataclass(frozen=True, slots=True)
class StageTable:
    """The stages in the order of the code, the source first. at_ns: of the last reading.

    bottleneck: once it is `judged`. wait_cores: cores that the process used while the training waited for a batch; NaN
    where it hardly did.
    """

    at_ns: int
    stages: tuple[Stage, ...]
    bottleneck: Bottleneck | None = None
    wait_cores: float = math.nan

    @property
    def all_ms(self) -> float:
        """What a batch costs in all stages, one after another; NaN where nothing passed."""
        known = [stage.busy_ms for stage in self.stages if not math.isnan(stage.busy_ms)]
        return sum(known) if known else math.nan

    @property
    def rate_ms(self) -> float:
        """What a batch takes where all stages work at once: the slowest stretch; NaN where nothing passed."""
        taken = [sum(self.stages[n].batch_ms for n in part) for part in _stretches(self.stages)]
        return max(taken, default=math.nan)

    @property
    def is_prefetched(self) -> bool:
        """Whether the last stage is a prefetch, whoever put it there."""
        return bool(self.stages) and self.stages[-1].is_buffer

    def is_ahead(self, work_ms: float) -> bool:
        """Whether batches are ready in a full buffer, and made in less than the `work_ms` of a step's own work."""
        return self.is_prefetched and self.stages[-1].filled >= _FULL and self.rate_ms < work_ms

    def judged(self, cores: int, others: float, wait_ms: float = math.nan, work_ms: float = math.nan) -> StageTable:
        """The same with its bottleneck: none where it is ahead, or the stages do not explain the wait.

        cores: of the machine; others: in use by other programs; wait_ms: what a step waits for its batch; work_ms: its
        own work. NaN is unknown.
        """
        if self.is_ahead(work_ms):
            return self
        wait_cores = math.nan if wait_ms < _TOO_SHORT_MS else self.wait_cores
        found = bottleneck(self.stages, wait_cores, cores, others)
        if found and self.stages[found.stage].batch_ms < _EXPLAINS * wait_ms:
            found = None
        return replace(self, bottleneck=found)


def make_stage_table(rows: Rows, found: Mapping[int, StagesFound]) -> StageTable | None:
    """The table of the newest pipeline among readings of `core.rows.STAGE`, not judged; None where there is none.

    Costs are means over the readings, weighted with the elements that passed in each.
    """
    if not len(rows):
        return None
    number = _whole(rows["pipeline"], found)
    names = found.get(number)
    if names is None:
        return None
    of_it = rows[rows["pipeline"] == number]
    last = of_it[-1]
    count = min(len(names.names), len(names.kinds))
    stages = tuple(_stage(of_it[of_it["stage"] == n], names.names[n], names.kinds[n]) for n in range(count))
    waits = of_it["wait_cores"][~np.isnan(of_it["wait_cores"])]
    wait_cores = float(waits.mean()) if len(waits) else math.nan
    return StageTable(int(last["at_ns"]), stages, wait_cores=wait_cores)


def _whole(numbers: Rows, found: Mapping[int, StagesFound]) -> int:
    """The newest pipeline; where only its end was read, as happens while an epoch begins, the one that it is of."""
    newest = int(numbers[-1])
    names = found[newest].names if newest in found else []
    others = (int(number) for number in np.unique(numbers)[::-1] if number in found)
    longer = (number for number in others if len(found[number].names) > len(names) > 0)
    return next((number for number in longer if found[number].names[-len(names) :] == names), newest)


def bottleneck(
    stages: tuple[Stage, ...], wait_cores: float = math.nan, cores: int | None = None, others: float = 0.0
) -> Bottleneck | None:
    """The stage that bounds the rate of batches; None where nothing passed.

    Stages without workers of their own take a batch one after another, in one thread, up to the next prefetch or
    parallel stage: the slowest such stretch bounds the pipeline, and its costliest stage is named.

    wait_cores: cores that the process used while the training waited. cores: of the machine; others: in use by other
    programs.
    """
    slowest = max(_stretches(stages), key=lambda part: sum(stages[n].batch_ms for n in part), default=[])
    if not slowest:
        return None
    at = max(slowest, key=lambda n: stages[n].batch_ms)
    stage = stages[at]
    in_all = sum(stages[n].batch_ms for n in slowest)
    crowded = cores is not None and others > _CROWDED * cores
    reason = _reason(stage, in_all, wait_cores, cores, crowded)
    return Bottleneck(at, reason, _SENTENCES[reason](stage, in_all, wait_cores, cores))


def _stretches(stages: tuple[Stage, ...]) -> list[list[int]]:
    """The stages (their indices) that take a batch one after another; those without a figure are left out."""
    stretches: list[list[int]] = [[]]
    for n, stage in enumerate(stages):
        if stage.is_parallel or stage.is_buffer:
            stretches += [[n], []] if stage.is_parallel and stage.busy_ms > 0 else [[]]
        elif stage.busy_ms > 0:
            stretches[-1].append(n)
    return [stretch for stretch in stretches if stretch]


def _reason(stage: Stage, in_all: float, wait_cores: float, cores: int | None, crowded: bool) -> Reason:
    if stage.calls_python:
        return "python"
    workers = max(1.0, stage.parallelism) if stage.is_parallel else 1.0
    reads = stage.reads_files
    share = stage.batch_ms / in_all
    at_work = min(workers, cores or workers) * share
    least = _WAITS_FILES if reads else _WAITS
    if crowded:  # a worker waits for its turn too: only what reads files is believed to wait for them
        least = _WAITS_CROWDED if reads else -math.inf
    if wait_cores < 1 - share + least * at_work or (math.isnan(wait_cores) and reads):
        return "storage"
    return "cpu" if workers > 1 or cores == 1 else "serial"


def _takes(stage: Stage, in_all: float) -> str:
    """`21.0 of 23.1 ms a batch`, of the stages that take turns with it."""
    whole, part = units.milliseconds(in_all), units.milliseconds(stage.batch_ms)
    return f"{whole} a batch" if part == whole else f"{part.removesuffix(' ms')} of {whole} a batch"


def _storage(stage: Stage, in_all: float, wait_cores: float, cores: int | None) -> str:
    what = "storage" if stage.reads_files else "something else than the CPU"
    cpu = "" if math.isnan(wait_cores) else f", with {wait_cores:.1f} cores in use meanwhile"
    return f"{stage.name} waits for {what}: {_takes(stage, in_all)}{_at_once(stage)}{cpu}"


def _cpu(stage: Stage, in_all: float, wait_cores: float, cores: int | None) -> str:
    if not stage.is_parallel:
        return f"{stage.name} burns CPU: {_takes(stage, in_all)}"
    work = f"{units.milliseconds(stage.busy_ms)} of work a batch"
    of_cores = f" on {cores} cores" if cores else ""
    return f"{stage.name} burns CPU with {stage.parallelism:.0f} workers{of_cores}: {work}, {_takes(stage, in_all)}"


def _serial(stage: Stage, in_all: float, wait_cores: float, cores: int | None) -> str:
    of_cores = f" on one of {cores} cores" if cores else ""
    return f"{stage.name} runs one at a time{of_cores}: {_takes(stage, in_all)}"


def _python(stage: Stage, in_all: float, wait_cores: float, cores: int | None) -> str:
    return f"{stage.name} runs Python under its lock, one at a time: {_takes(stage, in_all)}"


def _at_once(stage: Stage) -> str:
    return f", {stage.parallelism:.0f} at a time" if stage.is_parallel else ", one at a time"


_SENTENCES: dict[Reason, Callable[[Stage, float, float, int | None], str]] = {
    "storage": _storage,
    "cpu": _cpu,
    "serial": _serial,
    "python": _python,
}


def _stage(rows: Rows, name: str, kind: str) -> Stage:
    if not len(rows):
        return Stage(name, kind, math.nan)
    last = rows[-1]
    names = ("parallelism", "buffered", "buffer_size", "buffered_bytes")
    sized = rows[rows["buffer_size"] > 0]
    filled = float((sized["buffered"] / sized["buffer_size"]).mean()) if len(sized) else math.nan
    held = {name: float(last[name]) for name in names}
    stage = Stage(name, kind, math.nan, **held, filled=filled)
    if stage.is_buffer:
        return stage
    busy, elements = rows["busy_ms"].astype(float), rows["elements"].astype(float)
    known = ~np.isnan(busy) & (elements > 0)
    return replace(stage, busy_ms=float(np.average(busy[known], weights=elements[known]))) if known.any() else stage
