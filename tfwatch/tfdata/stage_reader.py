"""Read tf.data's model of the input pipeline once a second, on a thread of its own; sooner at
the begin and after an epoch's first reading: a short `fit`, or one of short epochs, is judged too.

Two iterators matter, the source below tfwatch's gate and the pipeline above it; together they make
one table. The reader references them only while it reads, about a millisecond: see `disposal`.
"""

from __future__ import annotations

import math
import threading
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from tfwatch.core.errors import fails_open
from tfwatch.core.events import SensorMissing, StagesFound, StallLocated
from tfwatch.core.rows import STAGE, Phase
from tfwatch.tfdata.stage_model import (
    AUTOTUNE_FIX,
    NOT_TFDATA,
    ON_DEVICE,
    Node,
    NoModelError,
    find_stuck_stage,
    read_model,
    read_nodes,
    without_gate,
    work_since,
)
from tfwatch.tfdata.stage_names import CodeStage, align, dataset_of, find_code_stages, label_of_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tfwatch.runs.writer import RunWriter

#: Returns the source below the gate, None without a gate, and the iterator whose batches are
#: trained on.
Iterators: TypeAlias = "Callable[[], tuple[Any, Any]]"

SENSOR = "pipeline"
#: The stage that copies to a device, and the kinds of a prefetch to it.
_COPY = "CopyToDevice"
_AHEAD = frozenset({_COPY, "Prefetch"})
PERIOD_S = 1.0
#: The period at which the CPU of a wait is sampled, until the first stages are known, and after an
#: epoch's first reading: that shows no work, and an epoch of a second may have no other.
_SAMPLE_PERIOD_S = 0.2
#: A table is read every second for so long; then stages.bin grows by at most so many bytes/s, twice
#: that where epochs are short: 9 or 18 MB in 10 h.
_EVERY_SECOND_NS, _BYTES_PER_S = 600 * 10**9, 250
#: Readings take at most this share of a core.
_SHARE = 0.002
#: A wait of this length is a stall, whose stage and line are located.
STALL_NS = 3 * 10**9
_JOIN_S = 1.0
#: The duration of a sample of the CPU during data wait, and the waits that are needed for a figure.
_SAMPLE_S, _MIN_WAIT_NS = 0.003, 6_000_000
#: For `PyDataset(workers=...)` Keras turns autotuning off, and with it tf.data's model.
_WORKERS = "a PyDataset with workers makes its batches outside tf.data, which keeps no model of it"
#: Reported after so many readings in a row of an iterator that had just begun.
_SHORT_READINGS, _SHORT_EPOCHS = (
    3,
    "epochs too short for a reading",
)
_USE_LONGER_EPOCHS = "use longer epochs"
#: At the end of the data the stages vanish one by one, the source first: so many such readings are
#: skipped.
_MAX_SKIPPED = 5


class StageReader:
    """The reader thread, from `start` to `stop`. Its errors never stop the training."""

    def __init__(self, writer: RunWriter, iterators: Iterators | None = None) -> None:
        """iterators: see `use`."""
        self._writer = writer
        self._iterators: Callable[[], Iterators | None] = _nothing_yet
        self.use(iterators)
        self._source, self._top = FollowedIterator(), FollowedIterator()
        self._numbers: dict[tuple[tuple[str, ...], tuple[str, ...]], int] = {}
        self._number = -1
        self._reported = ""
        self._moved_ns: dict[int, int] = {}
        self._located_ns = 0
        self._read_ns = 0
        self._cut_off = 0
        self._epoch: Callable[[], Any] = lambda: None
        self._epochs_met = 0
        self._stopping = threading.Event()
        self._waits = WaitCpu(writer, self._stopping.wait)
        self._thread = threading.Thread(target=self._run, name="tfwatch-stages", daemon=True)

    def use(self, iterators: Iterators | None) -> None:
        """Read the iterators that a method returns, and keep only a weak reference to its object;
        None: read none."""
        self._iterators = weakref.WeakMethod(iterators) if iterators else _nothing_yet

    def start(self) -> None:
        """Start the thread, or record that the system has no thread left."""
        try:
            self._thread.start()
        except RuntimeError as error:
            self._report(f"the thread that reads it did not start: {error}", "")

    def stop(self) -> None:
        """End the thread. A second call does nothing."""
        self._stopping.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout=_JOIN_S)

    def _run(self) -> None:
        wait_s, cost_s, owed_s = _SAMPLE_PERIOD_S, 0.0, 0.0
        spent_ns = self._writer.clock.thread_ns()
        with fails_open(lambda why: self._report(f"the thread that reads it stopped: {why}", "")):
            while not self._sleep(wait_s) and self._iterators() is not None:
                rows = self.read()
                now_ns = self._writer.clock.thread_ns()
                before_s, cost_s = cost_s, (now_ns - spent_ns) / 1e9
                # A single expensive reading, as a pipeline's first, does not delay the next ones.
                owed_s += min(before_s, cost_s) / _SHARE
                wait_s = self._period_s(rows)
                if not self._is_begin:
                    wait_s, owed_s = max(wait_s, owed_s), 0.0
                spent_ns = now_ns

    @property
    def _is_begin(self) -> bool:
        """True after an epoch's first reading, unless the one before it was of another epoch's."""
        return self._epochs_met % 2 == 1

    def _period_s(self, rows: int) -> float:
        if self._is_begin or not (self._reported or self._numbers):
            return _SAMPLE_PERIOD_S
        is_long = self._writer.now_ns() > _EVERY_SECOND_NS
        return max(PERIOD_S, is_long * rows * STAGE.itemsize / _BYTES_PER_S)

    def _sleep(self, wait_s: float) -> bool:
        """Wait, sample the training's waits meanwhile, and return whether to stop."""
        looks = max(1, round(wait_s / _SAMPLE_PERIOD_S))
        for _ in range(looks):
            if self._stopping.wait(wait_s / looks):
                return True
            self._waits.sample()
        return False

    def read(self) -> int:
        """Read once, write the rows, and return their number."""
        lines: list[StageChange] = []
        batches = 0
        # The iterator may be the user's, or a private one of TensorFlow's; the next reading may
        # succeed.
        with fails_open(lambda why: self._report(why, "")):
            lines, batches = self._found()
        if batches and lines:  # tf.data makes some stages only with the first batch
            self._write(lines)
        self._locate_stall(lines)
        self._read_ns = self._writer.now_ns()
        return len(lines)

    # -- a reading --------------------------------------------------------------------------------

    def _found(self) -> tuple[list[StageChange], int]:
        """Return the stages that can be read now, and the number of batches so far."""
        iterators = self._iterators()
        source, top = iterators() if iterators else (None, None)
        if top is None:
            return [], 0
        try:
            lines, batches = self._lines(source, top)
        except NoModelError as error:
            self._report_unreadable(error, code_stages_of(source) or code_stages_of(top))
            return [], 0
        self._report_short_epochs(top if source is None else source, lines)
        return lines, batches

    def _lines(self, source: Any, top: Any) -> tuple[list[StageChange], int]:
        """Return the stages, and the number of batches so far.

        Raises:
            NoModelError: there is none.
        """
        seen = follow(self._top, top)
        if source is not None and any(stage.kind == _COPY for stage in seen.stages):
            self._top = seen
            # The stages above the source run in an iterator of the copy, which has no model.
            if any(stage.kind not in _AHEAD for stage in seen.stages):
                raise NoModelError(ON_DEVICE)
            return self._changes_of(source)
        nodes, batches = read_nodes(read_model(top))
        if any(node.cut_off for node in nodes) and self._cut_off < _MAX_SKIPPED:
            self._cut_off += 1
            return [], batches
        self._cut_off, self._top = 0, seen
        if source is None:
            return changes_since(seen, nodes, batches), batches
        above = changes_since(seen, without_gate(nodes), batches)
        return [*self._changes_of(source)[0], *above], batches

    def _changes_of(self, source: Any) -> tuple[list[StageChange], int]:
        """Return the stages of the source below the gate, and the number of its batches so far."""
        self._source = follow(self._source, source)
        nodes, batches = read_nodes(read_model(source))
        return changes_since(self._source, nodes, batches), batches

    def _write(self, lines: list[StageChange]) -> None:
        now_ns = self._writer.now_ns()
        number = self._number_of(lines)
        wait_cores = self._waits.cores()
        for n, line in enumerate(lines):
            node, busy_ms = line.node, math.nan
            if line.elements:
                self._moved_ns[n] = now_ns
                busy_ms = line.time_ns / line.elements * node.per_batch / 1e6
            buffer = (node.buffered, line.buffer_size, node.buffered_bytes)
            figures = (busy_ms, node.parallelism, *buffer, wait_cores)
            self._writer.stage(now_ns, number, n, line.elements, *figures)

    def _number_of(self, lines: list[StageChange]) -> int:
        names, kinds = tuple(line.name for line in lines), tuple(line.kind for line in lines)
        if (names, kinds) not in self._numbers:
            self._name(names, kinds)
        number = self._numbers[names, kinds]
        if number != self._number:
            self._number, self._moved_ns = number, {}
        return number

    def _name(self, names: Sequence[str], kinds: Sequence[str]) -> None:
        number = self._numbers[tuple(names), tuple(kinds)] = len(self._numbers)
        self._writer.event(StagesFound(self._writer.now_ns(), number, list(names), list(kinds)))

    def _report_short_epochs(self, iterator: Any, lines: list[StageChange]) -> None:
        """iterator: lives for one epoch."""
        begun, self._epoch = self._epoch() is not iterator, weakref.ref(iterator)
        self._epochs_met = (
            self._epochs_met + 1 if begun and not any(line.elements for line in lines) else 0
        )
        if self._epochs_met == _SHORT_READINGS:
            self._report(_SHORT_EPOCHS, _USE_LONGER_EPOCHS)

    def _report_unreadable(self, error: NoModelError, stages: list[CodeStage]) -> None:
        """Record a pipeline without a model by the stages of its code, and the reason."""
        if stages and not self._numbers:
            self._name(
                [stage.label for stage in stages],
                [kind_with_marks(stage.kind, [stage]) for stage in stages],
            )
        if str(error) == NOT_TFDATA and not self._numbers:
            self._name(["iterator"], ["Python iterator"])
        with_workers = error.fix == AUTOTUNE_FIX and any(
            stage.given == "PyDataset" for stage in stages
        )
        self._report(*(_WORKERS, "") if with_workers else (str(error), error.fix))

    def _report(self, reason: str, fix: str) -> None:
        if reason != self._reported:
            self._reported = reason
            self._writer.event(SensorMissing(self._writer.now_ns(), SENSOR, reason, fix))

    # -- a stall ----------------------------------------------------------------------------------

    def _locate_stall(self, lines: list[StageChange]) -> None:
        phase, since_ns, step, *_ = self._writer.status
        now_ns = self._writer.now_ns()
        # A stage that moved since a reading from before the wait may have moved before the wait.
        known = now_ns - since_ns >= STALL_NS and self._read_ns >= since_ns
        if phase is not Phase.WAIT or not known or since_ns == self._located_ns:
            return
        self._located_ns = since_ns
        at = find_stuck_stage([line.node for line in lines])
        if at is not None and lines[at].elements:  # the next stage that outputs nothing
            at = next((n for n in range(at + 1, len(lines)) if not lines[n].elements), None)
        if at is not None:
            moved_ns = min(self._moved_ns.get(at, since_ns), now_ns)
            self._writer.event(StallLocated(now_ns, step, lines[at].name, moved_ns))


class WaitCpu:
    """The CPU that the process uses while its training waits for a batch: then only the pipeline
    works.

    wait: sleeps for seconds. One thread calls `sample` and `cores`.
    """

    def __init__(self, writer: RunWriter, wait: Callable[[float], Any]) -> None:
        self._writer = writer
        self._wait = wait
        self._cpu_ns = 0
        self._wall_ns = 0

    def sample(self) -> None:
        """Measure the CPU that the process uses in a few milliseconds, if the training waits."""
        clock, status = self._writer.clock, self._writer.status
        if status[0] is not Phase.WAIT:
            return
        wall_ns, cpu_ns = clock.now_ns(), clock.process_ns()
        self._wait(_SAMPLE_S)
        if self._writer.status[:2] == status[:2]:
            self._wall_ns += clock.now_ns() - wall_ns
            self._cpu_ns += clock.process_ns() - cpu_ns

    def cores(self) -> float:
        """Return the cores in use since the last call; NaN if the training hardly waited."""
        cpu_ns, wall_ns = self._cpu_ns, self._wall_ns
        self._cpu_ns = self._wall_ns = 0
        return cpu_ns / wall_ns if wall_ns >= _MIN_WAIT_NS else math.nan


def _nothing_yet() -> Iterators:
    return lambda: (None, None)


#: The first reading of an iterator includes its start-up, unless it has given so many batches.
_STARTUP_BATCHES = 20


@dataclass
class FollowedIterator:
    """An iterator, and its earlier readings."""

    iterator: Callable[[], Any] = lambda: None
    stages: list[CodeStage] = field(default_factory=list)
    before: dict[int, Node] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StageChange:
    """A stage, its name, and its work since the last reading: one row."""

    name: str
    kind: str
    node: Node
    time_ns: float
    elements: int
    buffer_size: float


def follow(followed: FollowedIterator, iterator: Any) -> FollowedIterator:
    """Return the iterator, with its earlier readings if there are any."""
    if followed.iterator() is iterator:
        return followed
    return FollowedIterator(weakref.ref(iterator), code_stages_of(iterator))


def code_stages_of(iterator: Any) -> list[CodeStage]:
    """Return the stages in the code of an iterator; none if it is not one of tf.data."""
    dataset = dataset_of(iterator)
    return [] if dataset is None else find_code_stages(dataset)


def changes_since(followed: FollowedIterator, nodes: list[Node], batches: int) -> list[StageChange]:
    """Return the work of each stage since the last reading; 0 at an iterator's first, which
    includes its start-up."""
    names = align([node.kind for node in nodes], followed.stages)
    first = not followed.before and batches < _STARTUP_BATCHES
    lines = []
    for n, (node, stages) in enumerate(zip(nodes, names, strict=True)):
        before = followed.before.get(n)
        time_ns, elements = (0.0, 0) if first else work_since(before, node)
        if elements or before is None or before.number != node.number:
            followed.before[n] = (
                node  # work counts with the elements that it made, however late they are output
            )
        shown = tuple(stage for stage in stages if not stage.hidden)
        if shown or not stages:
            lines.append(_line(node, shown, time_ns, elements))
    return lines


def _line(node: Node, stages: tuple[CodeStage, ...], time_ns: float, elements: int) -> StageChange:
    label = ", ".join(stage.label for stage in stages) or label_of_kind(node.kind)
    size = next(
        (stage.buffer_size for stage in stages if not math.isnan(stage.buffer_size)), math.nan
    )
    size = node.buffer_size if math.isnan(size) or node.buffer_size > 0 else size
    return StageChange(
        label, kind_with_marks(node.kind, stages, node.reads_files), node, time_ns, elements, size
    )


def kind_with_marks(kind: str, stages: Sequence[CodeStage], files: bool = False) -> str:
    """Return a kind followed by marks of its stages in the code: see
    `judge.stages.Stage`."""
    python = any(stage.python for stage in stages)
    files = files or any(stage.files for stage in stages)
    random = any(stage.random for stage in stages)
    given = next((stage.given for stage in stages if stage.given), "")
    marks = (("python", python), ("files", files), ("random", random), (given, bool(given)))
    return " ".join([kind, *(mark for mark, is_so in marks if is_so)])
