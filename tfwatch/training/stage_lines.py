"""What the stages of an iterator did between two readings of tf.data's model: a line a stage."""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tfwatch.training.stage_model import Node, spent, stuck
from tfwatch.training.stage_names import Written, aligned, plain_label, written

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
