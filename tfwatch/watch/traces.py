"""The steps that traced or compiled a function, and what changed in its arguments since the trace
before."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from tfwatch.core.clock import RateLimit
from tfwatch.core.errors import fails_open
from tfwatch.core.events import Traced

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tfwatch.runs.writer import RunWriter

#: Events in a row; after these one a second.
_MOST_IN_A_ROW = 20
#: Arguments that are compared, the depth of their structure, and characters of a value.
_MOST_PARTS, _DEEPEST, _LONGEST_VALUE = 64, 6, 40
#: The changes of one trace that are worded.
_MOST_CHANGES = 3

#: What a trace depends on, by name: the parts of an argument as (word, text).
Signature = dict[str, tuple[tuple[str, str], ...]]


class TraceLog:
    """Writes the traces of a run as events, limited in rate; the counts in them are exact."""

    def __init__(self, writer: RunWriter) -> None:
        self._writer = writer
        self._traces, self._total_ms = 0, 0.0
        self._limit = RateLimit(_MOST_IN_A_ROW, per_s=1.0)
        self._waiting: tuple[int, float, str] | None = None
        self._signature: Signature | None = None

    def note(self, step: int, took_ms: float, signature: Signature) -> None:
        """Record a step that traced what has this signature."""
        before, self._signature = self._signature, signature
        self.note_change(step, took_ms, change_between(before, signature) if before else "")

    def note_change(self, step: int, took_ms: float, change: str) -> None:
        """Record a step that traced because of a change; an empty one is not known."""
        self._traces += 1
        self._total_ms += took_ms
        self._waiting = step, took_ms, change
        if self._limit.take(self._writer.now_ns()):
            self.flush()

    def flush(self) -> None:
        """Write the newest trace if it has no event yet."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            at_ns = self._writer.now_ns()
            self._writer.event(Traced(at_ns, *waiting, self._traces, self._total_ms))


class Numbers:
    """Numbers objects in their order, from 1; it keeps none of them alive.

    By identity: a class of the user's may compare by its own `__eq__`, and then may have no hash.
    """

    def __init__(self) -> None:
        self._known: list[tuple[weakref.ref[Any], int]] = []
        self._count = 0

    def of(self, value: Any) -> int:
        """Return the number of an object."""
        self._known = [(known, number) for known, number in self._known if known() is not None]
        for known, number in self._known:
            if known() is value:
                return number
        self._count += 1
        self._known.append((weakref.ref(value), self._count))
        return self._count


class CompiledShapes:
    """The shapes of batches for which XLA has compiled a step: each new one compiles again."""

    def __init__(self) -> None:
        self._known: set[tuple[Any, ...]] = set()

    def is_new(self, batch: Any) -> bool:
        """Return whether a batch has shapes that none had before."""
        shapes = tuple(str(getattr(part, "shape", None)) for _, part in _parts_of("", batch))
        is_new = shapes not in self._known
        self._known.add(shapes)
        return is_new


def is_one_shape(spec: Any) -> bool:
    """Return whether all batches of a structure have the same shapes."""
    shapes = (getattr(part, "shape", None) for _, part in _parts_of("", spec))
    return all(shape is None or shape.is_fully_defined() for shape in shapes)


def signature_of(arguments: Mapping[str, Any]) -> Signature:
    """Return what a trace of a function depends on in these arguments."""
    signature: Signature = {}
    for name, value in arguments.items():
        for part, leaf in _parts_of(name, value):
            if len(signature) < _MOST_PARTS:
                signature[part] = _describe(leaf)
    return signature


def batch_signature(batch: Any) -> Signature:
    """Return what a step depends on in its batch: `input 0`, `input 1` and so on."""
    leaves = (leaf for _, leaf in _parts_of("", batch))
    return signature_of({f"input {number}": leaf for number, leaf in enumerate(leaves)})


def _parts_of(name: str, value: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a nested structure with their names, e.g. `words[0]`."""
    items: Iterable[tuple[Any, Any]] | None = None
    if depth < _DEEPEST and isinstance(value, dict):
        items = value.items()
    elif depth < _DEEPEST and isinstance(value, (list, tuple)):
        items = enumerate(value)
    if items is None:
        yield name, value
        return
    for key, part in items:
        yield from _parts_of(f"{name}[{key!r}]", part, depth + 1)


def _describe(value: Any) -> tuple[tuple[str, str], ...]:
    described: list[tuple[tuple[str, str], ...]] = []
    with fails_open(lambda _: None):  # the value is the user's, and may raise anything
        described.append(_words_of(value))
    return described[0] if described else (("type", type(value).__name__),)


def _words_of(value: Any) -> tuple[tuple[str, str], ...]:
    if value is None or isinstance(value, (bool, str, bytes)):
        return (("value", _short(value)),)
    if isinstance(value, (int, float, complex)):
        return (("Python number", _short(value)),)
    # Of a variable, which has `assign`, a function has one trace each.
    if hasattr(value, "shape") and hasattr(value, "dtype") and not hasattr(value, "assign"):
        is_known = getattr(value.shape, "rank", 0) is not None
        shape = str(tuple(value.shape)) if is_known else "unknown"
        return (("shape", shape), ("dtype", str(getattr(value.dtype, "name", value.dtype))))
    return (("type", type(value).__name__), ("object", str(id(value))))


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


def change_between(before: Signature, after: Signature) -> str:
    """Return what changed, e.g. `input 0: shape (8, 31, 6) -> (8, 47, 6)`; empty where nothing
    did."""
    changes = [
        f"{name}: {_change_of(before.get(name, ()), after.get(name, ()))}"
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    ]
    more = len(changes) - _MOST_CHANGES
    return "; ".join([*changes[:_MOST_CHANGES], *([f"{more} more"] if more > 0 else [])])


def _change_of(before: tuple[tuple[str, str], ...], after: tuple[tuple[str, str], ...]) -> str:
    if [word for word, _ in before] != [word for word, _ in after]:
        return f"{_texts(before)} -> {_texts(after)}"
    changed = [
        (word, old, new) for (word, old), (_, new) in zip(before, after, strict=True) if old != new
    ]
    if any(word == "object" for word, _, _ in changed):
        return f"another {dict(after)['type']} object"
    return ", ".join(f"{word} {old} -> {new}" for word, old, new in changed)


def _texts(described: tuple[tuple[str, str], ...]) -> str:
    return " ".join(f"{word} {text}" for word, text in described if word != "object") or "none"
