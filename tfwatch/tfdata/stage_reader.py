"""Reads tf.data's own model of the input pipeline once a second, on a thread of its own.

Reads tf.data's own model of the input pipeline once a second, on a thread of its own.

Two iterators matter: the source below tfwatch's gate, and the pipeline above it; they make one table. Neither is held
but while it is read, which takes about a millisecond: see `disposal`.

What the stages of an iterator did between two readings of tf.data's model: a line a stage.
"""

from __future__ import annotations

import math
import threading
import weakref
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from tfwatch.core.errors import fails_open
from tfwatch.core.events import SensorMissing, StagesFound, StallLocated
from tfwatch.core.rows import STAGE, Phase
from tfwatch.tfdata.stage_model import (
    NOT_TFDATA,
    TUNE,
    Node,
    NoModelError,
    model_of,
    nodes_of,
    spent,
    stuck,
    without_gate,
)
from tfwatch.tfdata.stage_names import Written, aligned, plain_label, whole_label, written
from tfwatch.tfdata.stall_location import Waits, standing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tfwatch.runs.writer import RunWriter

#: Gives the source below the gate, None where there is no gate, and the iterator whose batches are trained on.
Iterators: TypeAlias = "Callable[[], tuple[Any, Any]]"

SENSOR = "pipeline"
#: The kind of a row that stands for a source without a model.
SOURCE = "Source"
PERIOD_S = 1.0
#: How often a wait of the training is looked into.
_LOOK_S = 0.2
#: A table is read each second for so long; then stages.bin grows by at most so many bytes a second: 9 MB in 10 h.
_CLOSELY_S = 600.0
_BYTES_S = 250
#: Readings take at most this share of a core.
_SHARE = 0.002
#: A wait this long is looked at closely.
STALL_NS = 3 * 10**9
_JOIN_S = 1.0
#: Where `PyDataset(workers=...)` makes batches, Keras turns the autotuning off on which tf.data's model stands.
_WORKERS = "a PyDataset with workers makes its batches outside tf.data, which keeps no model of it"
#: Told once so many readings in a row met each an iterator that had just begun.
_SHORT, _TOO_SHORT = 3, "epochs are shorter than the second between two readings of the stages"
_LONGER = "longer epochs can be read"
#: At the end of the data stages go one after another, the source first: so many readings of what is left are let go.
_PATIENCE = 5


class StageReader:
    """The thread, from `start` to `stop`. Whatever it meets, training goes on."""

    def __init__(self, writer: RunWriter, iterators: Iterators) -> None:
        """iterators: a method, of which the object is not kept alive."""
        self._writer = writer
        self._iterators = weakref.WeakMethod(iterators)
        self._source, self._top, self._gate = Followed(), Followed(), Followed()
        self._numbers: dict[tuple[tuple[str, ...], tuple[str, ...]], int] = {}
        self._number_since_ns = 0
        self._number = -1
        self._told = ""
        self._moved_ns: dict[int, int] = {}
        self._located_ns = 0
        self._read_ns = 0
        self._cut_off = 0
        self._epoch: Callable[[], Any] = lambda: None
        self._epochs_met = 0
        self._stopping = threading.Event()
        self._waits = Waits(writer, self._stopping.wait)
        self._thread = threading.Thread(target=self._run, name="tfwatch-stages", daemon=True)

    def start(self) -> None:
        """Begin to read. Where the system gives no more threads, the run says so."""
        try:
            self._thread.start()
        except RuntimeError as error:
            self._tell(f"nobody reads it: {error}", "")

    def stop(self) -> None:
        """End the thread. A second call does nothing."""
        self._stopping.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout=_JOIN_S)

    def _run(self) -> None:
        with fails_open(lambda why: self._tell(f"nobody reads it any more: {why}", "")):
            self._read_on()

    def _read_on(self) -> None:
        wait_s, cost_s = PERIOD_S, 0.0
        spent_ns = self._writer.clock.thread_ns()
        while not self._sleep(wait_s):
            if self._iterators() is None:
                return
            rows = self.read()
            now_ns = self._writer.clock.thread_ns()
            self._writer.stages_cpu_ns += now_ns - spent_ns
            before_s, cost_s = cost_s, (now_ns - spent_ns) / 1e9
            # One that is dear by itself, as a pipeline's first is, does not make the next ones rare.
            wait_s = max(self._period_s(rows), min(before_s, cost_s) / _SHARE)
            spent_ns = now_ns

    def _sleep(self, wait_s: float) -> bool:
        """Wait, and look into the waits of the training meanwhile. Says whether to stop."""
        looks = max(1, round(wait_s / _LOOK_S))
        for _ in range(looks):
            if self._stopping.wait(wait_s / looks):
                return True
            self._waits.look()
        return False

    def _period_s(self, rows: int) -> float:
        if (self._writer.now_ns() - self._number_since_ns) / 1e9 < _CLOSELY_S:
            return PERIOD_S
        return max(PERIOD_S, rows * STAGE.itemsize / _BYTES_S)

    def read(self) -> int:
        """Read once and write what was found. Returns the number of rows."""
        lines: list[Line] = []
        batches = 0
        # Of an object of the user's, or of TensorFlow's private ones: the next reading may do.
        with fails_open(lambda why: self._tell(why, "")):
            lines, batches = self._found()
        if batches and lines:  # before the first batch, tf.data has not made all stages
            self._write(lines)
        self._look_for_stall(lines)
        self._read_ns = self._writer.now_ns()
        return len(lines)

    # -- a reading --------------------------------------------------------------------------------

    def _found(self) -> tuple[list[Line], int]:
        """The stages that can be read now, and how many batches they have given."""
        iterators = self._iterators()
        source, top = iterators() if iterators else (None, None)
        if top is None:
            return [], 0
        try:
            lines, batches = self._lines(source, top)
            self._tell_short_epochs(top if source is None else source, lines)
        except NoModelError as error:
            self._tell_unread(error, written_of(source) or written_of(top))
            return [], 0
        return lines, batches

    def _lines(self, source: Any, top: Any) -> tuple[list[Line], int]:
        """The stages, and how many batches they have given."""
        nodes, batches = nodes_of(model_of(top))
        if any(node.cut_off for node in nodes) and self._cut_off < _PATIENCE:
            self._cut_off += 1
            return [], batches
        self._cut_off = 0
        followed = follow(self._top, top)
        if followed is not self._top:
            self._top, self._gate = followed, Followed()
        if source is None:
            return compared(followed, nodes, batches), batches
        gate, nodes = without_gate(nodes)
        below = self._source = follow(self._source, source)
        return [*self._below(below, source, gate, batches), *compared(followed, nodes, batches)], batches

    def _below(self, followed: Followed, source: Any, gate: Node | None, batches: int) -> list[Line]:
        """The source's own stages; where it has no model, one row for all of it, by what taking from it costs."""
        try:
            return compared(followed, *nodes_of(model_of(source)))
        except NoModelError:
            if gate is None:
                return []
        python, files = (any(getattr(stage, mark) for stage in followed.stages) for mark in ("python", "files"))
        given = next((stage.given for stage in followed.stages if stage.given), "")
        whole = Written("Map", whole_label(followed.stages), python=python, files=files, given=given)
        return compared(self._gate, [replace(gate, kind=SOURCE)], batches, [(whole,)])

    def _write(self, lines: list[Line]) -> None:
        now_ns = self._writer.now_ns()
        number = self._number_of(lines, now_ns)
        wait_cores = self._waits.cores()
        for n, line in enumerate(lines):
            node = line.node
            if line.elements:
                self._moved_ns[n] = now_ns
            busy_ms = line.time_ns / line.elements * node.per_batch / 1e6 if line.elements else math.nan
            figures = (busy_ms, node.parallelism, node.buffered, line.buffer_size, node.buffered_bytes, wait_cores)
            self._writer.stage(now_ns, number, n, line.elements, *figures)

    def _number_of(self, lines: list[Line], now_ns: int) -> int:
        names, kinds = tuple(line.name for line in lines), tuple(line.kind for line in lines)
        number = self._numbers.get((names, kinds))
        if number is None:
            number = self._name(names, kinds)
        if number != self._number:
            self._number, self._number_since_ns, self._moved_ns = number, now_ns, {}
        return number

    def _name(self, names: Sequence[str], kinds: Sequence[str]) -> int:
        number = self._numbers[tuple(names), tuple(kinds)] = len(self._numbers)
        self._writer.event(StagesFound(self._writer.now_ns(), number, list(names), list(kinds)))
        return number

    def _tell_short_epochs(self, iterator: Any, lines: list[Line]) -> None:
        """iterator: it lives for the epoch."""
        begun, self._epoch = self._epoch() is not iterator, weakref.ref(iterator)
        self._epochs_met = self._epochs_met + 1 if begun and not any(line.elements for line in lines) else 0
        if self._epochs_met == _SHORT:
            self._tell(_TOO_SHORT, _LONGER)

    def _tell_unread(self, error: NoModelError, stages: list[Written]) -> None:
        """A pipeline without a model: what its code says of it stands, without a row."""
        if stages and not self._numbers:
            self._name([stage.label for stage in stages], [marked(stage.normal, [stage]) for stage in stages])
        if str(error) == NOT_TFDATA and not self._numbers:
            self._name(["iterator"], ["Python iterator"])
        with_workers = error.fix == TUNE and any(stage.given == "PyDataset" for stage in stages)
        self._tell(*(_WORKERS, "") if with_workers else (str(error), error.fix))

    def _tell(self, reason: str, fix: str) -> None:
        if reason != self._told:
            self._told = reason
            self._writer.event(SensorMissing(self._writer.now_ns(), SENSOR, reason, fix))

    # -- a stall ----------------------------------------------------------------------------------

    def _look_for_stall(self, lines: list[Line]) -> None:
        phase, since_ns, step, *_ = self._writer.status
        now_ns = self._writer.now_ns()
        # What moved since a reading of before the wait may have moved before it too.
        known = now_ns - since_ns >= STALL_NS and self._read_ns >= since_ns
        if phase is not Phase.WAIT or not known or since_ns == self._located_ns:
            return
        self._located_ns = since_ns
        at = stands_at(lines)
        place, thread = standing(self._writer.trains_in)
        moved_ns = since_ns if at is None else self._moved_ns.get(at, since_ns)
        stage = "" if at is None else lines[at].name
        if stage or place:
            self._writer.event(StallLocated(now_ns, step, stage, min(moved_ns, now_ns), place, thread))


#: An iterator's first reading holds its start-up, which so many batches outweigh.
_OUTWEIGH = 20


@dataclass
class Followed:
    """An iterator, and what is known of it from the readings before."""

    iterator: Callable[[], Any] = lambda: None
    stages: list[Written] = field(default_factory=list)
    before: dict[int, Node] = field(default_factory=dict)
    batches: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """A row to be: a stage, what it is called, and what it did since the reading before."""

    name: str
    kind: str
    node: Node
    time_ns: float
    elements: int
    buffer_size: float


def stands_at(lines: list[Line]) -> int | None:
    """The stage that delivers nothing, although it or what stands before it works."""
    at = stuck([line.node for line in lines])
    if at is None or not lines[at].elements:
        return at
    return next((n for n in range(at + 1, len(lines)) if not lines[n].elements), None)


def follow(followed: Followed, iterator: Any) -> Followed:
    """The iterator, with what is known of it where it was followed before."""
    if followed.iterator() is iterator:
        return followed
    return Followed(weakref.ref(iterator), written_of(iterator))


def written_of(iterator: Any) -> list[Written]:
    """The stages of the code that an iterator goes over; none where it is none of tf.data's."""
    dataset = getattr(iterator, "_dataset", None)
    return [] if dataset is None else written(dataset)


def compared(
    followed: Followed, nodes: list[Node], batches: int, names: list[tuple[Written, ...]] | None = None
) -> list[Line]:
    """What each stage did since the reading before; nothing at an iterator's first, which holds its start-up."""
    names = aligned([node.kind for node in nodes], followed.stages) if names is None else names
    shown = [(node, stages) for node, stages in zip(nodes, names, strict=True) if not any(s.hidden for s in stages)]
    first = not followed.before and batches < _OUTWEIGH
    lines = []
    for n, (node, stages) in enumerate(shown):
        before = followed.before.get(n)
        time_ns, elements = (0.0, 0) if first else spent(before, node)
        if elements or before is None or before.number != node.number:
            followed.before[n] = node  # work goes with the elements that it made, however late they come
        lines.append(_line(node, stages, time_ns, elements))
    return lines


def _line(node: Node, stages: tuple[Written, ...], time_ns: float, elements: int) -> Line:
    label = ", ".join(stage.label for stage in stages) or plain_label(node.kind)
    size = next((stage.buffer_size for stage in stages if not math.isnan(stage.buffer_size)), math.nan)
    size = node.buffer_size if math.isnan(size) or node.buffer_size > 0 else size
    return Line(label, marked(node.kind, stages, node.reads_files), node, time_ns, elements, size)


def marked(kind: str, stages: Sequence[Written], files: bool = False) -> str:
    """A kind, and behind it what the stages of the code that it stands for do: see `analysis.stages.Stage`."""
    python, files = any(stage.python for stage in stages), files or any(stage.files for stage in stages)
    given = next((stage.given for stage in stages if stage.given), "")
    marks = (("python", python), ("files", files), (given, bool(given)))
    return " ".join([kind, *(mark for mark, is_so in marks if is_so)])
