"""The stages of the input pipeline: the time of a batch in each stage, and the stage that limits
the others."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from tfwatch.core import units

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfwatch.core.events import StagesFound
    from tfwatch.core.rows import Rows

#: A stage whose workers use less than this share of a core each waits for something other than the
#: CPU; the share is higher for a stage that reads files, and lower on a crowded machine: other
#: programs use `_CROWDED` of its cores. On two cores, of which others used 0.9, two workers that
#: decoded JPEGs from memory had 0.9 to 1.0: the machine is crowded well before `_WAITS_FILES`.
_WAITS, _WAITS_FILES, _WAITS_CROWDED = 0.25, 0.5, 0.1
_CROWDED = 0.3
#: A stage that takes less than this share of the data wait does not explain it: the handover of a
#: batch takes longer.
_EXPLAINS = 0.2
#: The time of a batch covers this share of the data wait that it explains, and is at most so many
#: times a step: readings are of other seconds than the steps. Stages whose slowest stretch takes
#: this share of all run one after another.
_COVERS, _ABOVE, _ALONE = 0.8, 1.25, 0.9
#: Of shorter waits the sensor samples only uncommonly long ones, for 3 ms each: they say nothing
#: about the others.
_TOO_SHORT_MS = 6.0
#: The longest fetch of a ready batch from a buffer, on two cores with the GIL contended.
FETCH_MS = 0.6
#: A buffer that holds this share of its elements, in the mean of the readings, does not limit the
#: pipeline.
_FULL = 0.5
#: Stages that only buffer: tf.data's model charges them with waiting, 1.8 ms per batch for the
#: prefetch of `generator` against 0.8 ms of work.
_BUFFERS = ("Prefetch",)
_PARALLEL = ("Parallel", "MapAndBatch")
#: Python that uses this share of a core computes, and holds the GIL meanwhile; below it, its calls
#: wait.
_COMPUTES = 0.5

_UNKNOWN = (math.nan, math.nan)

Reason: TypeAlias = Literal["storage", "cpu", "busy", "serial", "python"]


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage over the last seconds."""

    #: As its author would write it.
    name: str
    #: tf.data's own name, followed by `python` for a stage that calls Python, `files` for one that
    #: reads files, `random` for one that draws random numbers, `PyDataset`, `generator` or `arrays`
    #: for one that Keras made of the data passed to `fit`, `iterator` for a Python iterator;
    #: `Source` is a whole source without a model.
    kind: str
    #: The work of a training batch in this stage alone, summed over its workers; with
    #: `parallelism` workers a batch takes `busy_ms / parallelism`.
    busy_ms: float
    parallelism: float = math.nan
    #: Of `buffer_size` elements, at the last reading.
    buffered: float = math.nan
    buffer_size: float = math.nan
    buffered_bytes: float = math.nan
    #: Their ratio in the mean of the readings. NaN: the stage has none (a buffer has no work), or
    #: no element passed.
    filled: float = math.nan

    @property
    def is_parallel(self) -> bool:
        """True for a stage with its own workers, which runs in parallel with the stages around
        it."""
        return self.kind.startswith(_PARALLEL)

    @property
    def workers(self) -> float:
        """Its parallel calls; 1 for a stage without workers of its own, or where they are
        unknown."""
        return max(1.0, self.parallelism) if self.is_parallel else 1.0

    @property
    def is_map_and_batch(self) -> bool:
        """True for a map and a batch in one kernel, which allocates its batches in pinned
        memory."""
        return "MapAndBatch" in self.kind.split()

    @property
    def calls_python(self) -> bool:
        return "python" in self.kind.split()

    @property
    def reads_files(self) -> bool:
        return "files" in self.kind.split()

    @property
    def draws_random(self) -> bool:
        return "random" in self.kind.split()

    @property
    def is_service(self) -> bool:
        """True for a stage that takes elements from workers of the tf.data service."""
        return self.kind.startswith("DataService")

    @property
    def is_buffer(self) -> bool:
        """True for a stage that only buffers elements for the next."""
        return self.kind.startswith(_BUFFERS)

    @property
    def batch_ms(self) -> float:
        """The least time of a batch in this stage, with its workers; NaN where no element
        passed."""
        return self.busy_ms / self.workers

    def within(self, step_ms: float) -> Stage:
        """Return the stage with at most the work that its workers can do in a step, which takes one
        batch.

        tf.data sums more: of a fused map and batch it also times the threads that hand a call over
        while they wait for a core. On two busy cores it was 1.1 to 2.4 times the time in the map.
        """
        most_ms = step_ms * self.workers
        return replace(self, busy_ms=most_ms) if self.busy_ms > most_ms else self


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The stage (its index) that limits the pipeline's rate, and the reason."""

    stage: int
    #: It waits for `storage`, is `cpu`-bound on all of its workers, or one of the two: they are
    #: `busy`; it runs `serial`, or runs `python`.
    reason: Reason
    sentence: str
    #: The Python that it runs waits most of the time, and releases the GIL; None where that is
    #: unknown.
    waits: bool | None = None


@dataclass(frozen=True, slots=True)
class StageTable:
    """The stages in the order of the code, the source first."""

    #: Of the last reading.
    at_ns: int
    stages: tuple[Stage, ...]
    #: Set by `with_bottleneck`.
    bottleneck: Bottleneck | None = None
    #: The cores that the process used during data wait; NaN where there was hardly any.
    wait_cores: float = math.nan

    @property
    def limiting_stage(self) -> Stage | None:
        """The stage of the bottleneck; None without one."""
        return self.stages[self.bottleneck.stage] if self.bottleneck else None

    @property
    def all_ms(self) -> float:
        """The time of a batch in all stages, one after another; NaN where no element passed."""
        known = [stage.busy_ms for stage in self.stages if not math.isnan(stage.busy_ms)]
        return sum(known) if known else math.nan

    @property
    def rate_ms(self) -> float:
        """The time of a batch where all stages run in parallel: the slowest stretch; NaN where no
        element passed."""
        return _slowest_ms(self.stages)

    @property
    def is_computing(self) -> bool:
        """True if preparing batches in Python uses the CPU, False also where that is unknown."""
        return _python_cores(self.stages, self.wait_cores) >= _COMPUTES

    @property
    def is_prefetched(self) -> bool:
        """True where the last stage is a prefetch, tfwatch's or another."""
        return bool(self.stages) and self.stages[-1].is_buffer

    def total(self, step_ms: float, wait_ms: float) -> float | None:
        """Return the milliseconds of a batch in all stages: of the clock where they run in
        parallel, else one after another, as where they share the cores.

        None where neither explains the steps: it is far below their data wait, or above the step,
        as in readings of a stall. wait_ms: 0 where the steps do not starve; NaN is unknown.
        """
        if self.rate_ms > _ABOVE * step_ms:
            return None
        is_parallel = self.rate_ms < _ALONE * self.all_ms
        known = (self.rate_ms, self.all_ms) if is_parallel else (self.all_ms,)
        return next((ms for ms in known if not ms < _COVERS * wait_ms), None)

    def is_ahead(self, work_ms: float) -> bool:
        """Return True if batches wait in a full buffer and take less than `work_ms`, a step's
        compute and host."""
        return self.is_prefetched and self.stages[-1].filled >= _FULL and self.rate_ms < work_ms

    def with_bottleneck(
        self,
        cores: int,
        others: float,
        wait_ms: float = math.nan,
        work_ms: float = math.nan,
        used: float = math.nan,
    ) -> StageTable:
        """Return the table with at most a step of work, and with its bottleneck: none where batches
        are ready, or no stage explains the data wait.

        cores: of the machine; others: in use by other programs; wait_ms: data wait of a step;
        work_ms: its compute and host; used: the cores that the training uses in the mean. NaN is
        unknown.
        """
        stages = tuple(stage.within(wait_ms + work_ms) for stage in self.stages)
        table = replace(self, stages=stages)
        if table.is_ahead(work_ms):
            return table
        wait_cores = math.nan if wait_ms < _TOO_SHORT_MS else self.wait_cores
        bounds = _bounds(used, cores, wait_ms / (wait_ms + work_ms)) if wait_ms > 0 else _UNKNOWN
        bottleneck = find_bottleneck(stages, wait_cores, cores, others, bounds)
        if bottleneck and stages[bottleneck.stage].batch_ms < _EXPLAINS * wait_ms:
            bottleneck = None
        return replace(table, bottleneck=bottleneck)


def make_stage_table(rows: Rows, pipelines: Mapping[int, StagesFound]) -> StageTable | None:
    """Make the table of the newest pipeline from readings of `core.rows.STAGE`, without a
    bottleneck; None if empty.

    Costs are means over the readings, weighted with the elements that passed in each.
    """
    if not len(rows):
        return None
    number = _whole(rows["pipeline"], pipelines)
    names = pipelines.get(number)
    if names is None:
        return None
    of_it = rows[rows["pipeline"] == number]
    last = of_it[-1]
    count = min(len(names.names), len(names.kinds))
    stages = tuple(
        _stage(of_it[of_it["stage"] == n], names.names[n], names.kinds[n]) for n in range(count)
    )
    waits = of_it["wait_cores"][~np.isnan(of_it["wait_cores"])]
    wait_cores = float(waits.mean()) if len(waits) else math.nan
    return StageTable(int(last["at_ns"]), stages, wait_cores=wait_cores)


def _whole(numbers: Rows, pipelines: Mapping[int, StagesFound]) -> int:
    """Return the newest pipeline; where only its last stages were read, at an epoch's start, the
    whole one."""
    newest = int(numbers[-1])
    names = pipelines[newest].names if newest in pipelines else []
    others = (int(number) for number in np.unique(numbers)[::-1] if number in pipelines)
    longer = (number for number in others if len(pipelines[number].names) > len(names) > 0)
    return next(
        (number for number in longer if pipelines[number].names[-len(names) :] == names), newest
    )


def find_bottleneck(
    stages: tuple[Stage, ...],
    wait_cores: float = math.nan,
    cores: int | None = None,
    others: float = 0.0,
    bounds: tuple[float, float] = _UNKNOWN,
) -> Bottleneck | None:
    """Find the stage that limits the rate of batches; None where no element passed.

    Stages without their own workers process a batch one after another, in one thread, up to the
    next prefetch or parallel stage. The slowest such stretch limits the pipeline; its slowest stage
    is the bottleneck.

    wait_cores: the cores that the process used during data wait. cores: of the machine; others: in
    use by other programs. bounds: of `wait_cores`, where that is unknown.
    """
    slowest = max(
        _stretches(stages), key=lambda part: sum(stages[n].batch_ms for n in part), default=[]
    )
    if not slowest:
        return None
    at = max(slowest, key=lambda n: stages[n].batch_ms)
    stage = stages[at]
    in_all = sum(stages[n].batch_ms for n in slowest)
    crowded = cores is not None and others > _CROWDED * cores
    if not math.isnan(wait_cores) or crowded:  # beside others the cores in use say nothing
        bounds = (wait_cores, wait_cores)
    reason = _reason(stage, in_all, bounds, cores, crowded)
    used, waits = wait_cores, None
    if reason == "python":
        used = math.nan if crowded else _python_cores(stages, wait_cores)
        waits = None if math.isnan(used) else used < _COMPUTES
    return Bottleneck(at, reason, _sentence(stage, reason, in_all, used, cores, waits), waits)


def _bounds(used: float, cores: int, share: float) -> tuple[float, float]:
    """Return the least and the most cores that a process which uses so many in the mean can use
    during data wait. share: of the data wait in a step."""
    return cores - (cores - used) / share, used / share


def _python_cores(stages: tuple[Stage, ...], wait_cores: float) -> float:
    """Return the cores that Python used during data wait: those in use less the work of the other
    stages."""
    others = (
        one.busy_ms
        for one in stages
        if one.busy_ms > 0 and not (one.calls_python or one.reads_files)
    )
    return wait_cores - sum(others) / _slowest_ms(stages)


def _slowest_ms(stages: tuple[Stage, ...]) -> float:
    """Return the time of a batch in the slowest stretch; NaN where no element passed."""
    return max(
        (sum(stages[n].batch_ms for n in part) for part in _stretches(stages)), default=math.nan
    )


def _stretches(stages: tuple[Stage, ...]) -> list[list[int]]:
    """Return the stages (their indices) that run one after another; stages without a figure are
    left out."""
    stretches: list[list[int]] = [[]]
    for n, stage in enumerate(stages):
        if stage.is_parallel or stage.is_buffer:
            stretches += [[n], []] if stage.is_parallel and stage.busy_ms > 0 else [[]]
        elif stage.busy_ms > 0:
            stretches[-1].append(n)
    return [stretch for stretch in stretches if stretch]


def _reason(
    stage: Stage, in_all: float, used: tuple[float, float], cores: int | None, crowded: bool
) -> Reason:
    if stage.calls_python:
        return "python"
    if stage.is_service:
        return "storage"
    workers, reads = stage.workers, stage.reads_files
    share = stage.batch_ms / in_all
    least = _WAITS_FILES if reads else _WAITS
    if crowded:  # workers also wait for a core: only a stage that reads files waits for storage
        least = _WAITS_CROWDED if reads else -math.inf
    of_work = 1 - share + least * min(workers, cores or workers) * share
    at_least, at_most = used
    if at_most < of_work:
        return "storage"
    if workers == 1 and cores != 1:
        return "serial"
    return "cpu" if crowded or not reads or at_least >= of_work else "busy"


def _sentence(
    stage: Stage, reason: Reason, in_all: float, used: float, cores: int | None, waits: bool | None
) -> str:
    """Return `map(decode) runs serially on one of 8 cores: 21.0 of 23.1 ms/batch`.

    in_all: the time of a batch in the stages that share its thread. used: the cores in use, of
    Python those that it used.
    """
    name, whole, part = stage.name, *map(units.milliseconds, (in_all, stage.batch_ms))
    takes = f"{whole}/batch" if part == whole else f"{part.removesuffix(' ms')} of {whole}/batch"
    calls = f", {stage.parallelism:.0f} parallel" if stage.is_parallel else ", serial"
    in_use = "" if math.isnan(used) else f", with {max(0.0, used):.1f} cores in use"
    if stage.is_service:
        return f"{name} waits for workers of the tf.data service: {takes}"
    if reason == "storage":
        what = "storage" if stage.reads_files else "something other than the CPU"
        return f"{name} waits for {what}: {takes}{calls}{in_use}"
    if reason == "serial":
        return f"{name} runs serially{f' on one of {cores} cores' if cores else ''}: {takes}"
    if reason == "python" and waits:
        return f"{name} waits in Python: {takes}{calls}{in_use}"
    if reason == "python":
        holds = "" if waits is None else " and holds the GIL"
        return f"{name} runs Python{holds}: {takes}{calls}"
    workers = f"{stage.parallelism:.0f} workers{f' on {cores} cores' if cores else ''}"
    if reason == "busy":
        take = f"{workers} take " if stage.is_parallel else ""
        return f"{name} reads files or computes: {take}{takes}"
    if not stage.is_parallel:
        return f"{name} is CPU-bound: {takes}"
    work = units.milliseconds(stage.busy_ms)
    return f"{name} is CPU-bound: {workers} take {takes}, {work} of work"


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
    return (
        replace(stage, busy_ms=float(np.average(busy[known], weights=elements[known])))
        if known.any()
        else stage
    )
