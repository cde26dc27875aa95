"""Checks of values read from a file: the types that a dataclass declares, and bounds; beyond those it is damage."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from functools import cache, partial
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from tfwatch.core.code_edits import CodeEdit
from tfwatch.core.knobs import KNOBS, KnobChange

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The longest run: 100 days. Times of a run are below it.
LATEST_NS: Final = 100 * 86_400 * 10**9
#: The longest part of a step, and the longest pause: 11 days.
LONGEST_MS: Final = 1e9
#: The latest date in nanoseconds since 1970: the year 2262.
LATEST_WALL_NS: Final = 2**63 - 1
#: The largest figure of a machine: a thousand terabytes.
LARGEST_FIGURE: Final = 1e15
#: Steps and epochs are 32 bits in the rows; the next one fits too.
LARGEST_COUNT: Final = 2**32 - 2
#: A number of examples, and any other whole number, is exact as a float.
LARGEST_WHOLE: Final = 2**53
#: Step times differ by less.
SMALLEST_RATIO: Final = 1e-9
LARGEST_RATIO: Final = 1e9
#: The most cores of a machine.
MOST_CORES: Final = 2**20


@dataclass(frozen=True, slots=True)
class Between:
    """A number from `least` to `most`. A float holds any number, and NaN is in no range."""

    least: float
    most: float

    def __contains__(self, value: Any) -> bool:
        return bool(self.least <= value <= self.most)

    def __str__(self) -> str:
        return f"a number from {self.least:g} to {self.most:g}"


@dataclass(frozen=True, slots=True)
class Least:
    """A list with at least this many items."""

    items: int

    def __contains__(self, value: list[Any]) -> bool:
        return len(value) >= self.items

    def __str__(self) -> str:
        return f"a list of at least {self.items}"


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of these texts."""

    texts: tuple[str, ...]

    def __contains__(self, value: Any) -> bool:
        return value in self.texts

    def __str__(self) -> str:
        return f"one of {', '.join(self.texts)}"


@dataclass(frozen=True, slots=True)
class Hexadecimal:
    """So many lower-case hexadecimal digits, or nothing."""

    digits: int

    def __contains__(self, value: str) -> bool:
        return not value or (len(value) == self.digits and not set(value) - set("0123456789abcdef"))

    def __str__(self) -> str:
        return f"{self.digits} hexadecimal digits"


#: Nanoseconds since the run's clock origin.
Moment: TypeAlias = Annotated[int, Between(0, LATEST_NS)]
#: Nanoseconds since 1970.
WallTime: TypeAlias = Annotated[int, Between(0, LATEST_WALL_NS)]
#: Nanoseconds of a machine's monotonic clock.
ClockTime: TypeAlias = Annotated[int, Between(0, LATEST_WALL_NS)]
#: Steps, epochs, rounds and files.
Count: TypeAlias = Annotated[int, Between(0, LARGEST_COUNT)]
#: Examples.
Whole: TypeAlias = Annotated[int, Between(0, LARGEST_WHOLE)]
#: A seed.
Seed: TypeAlias = Annotated[int, Between(-(2**63), 2**63)]
Milliseconds: TypeAlias = Annotated[float, Between(0, LONGEST_MS)]
#: Milliseconds that a machine sleeps: up to 100 days.
SleepMilliseconds: TypeAlias = Annotated[float, Between(0, LATEST_NS / 1e6)]
#: A number of bytes.
Bytes: TypeAlias = Annotated[int, Between(0, LARGEST_FIGURE)]
ByteCounts: TypeAlias = Annotated[dict[str, int], Between(0, LARGEST_FIGURE)]
#: A computed number of bytes.
MeanBytes: TypeAlias = Annotated[float, Between(0, LARGEST_FIGURE)]
#: A share of a whole; rounding may exceed it.
Share: TypeAlias = Annotated[float, Between(0, 1.001)]
#: A ratio of two step times.
Ratio: TypeAlias = Annotated[float, Between(SMALLEST_RATIO, LARGEST_RATIO)]
#: A change of a step time, as a share of it.
Change: TypeAlias = Annotated[float, Between(-1, LARGEST_RATIO)]
#: Seconds since 1970 at which a process started.
StartTime: TypeAlias = Annotated[float, Between(0, LATEST_WALL_NS / 1e9)]
CoreCount: TypeAlias = Annotated[int, Between(0, MOST_CORES)]
#: A number of cores; a container's may be a part of one.
Cores: TypeAlias = Annotated[float, Between(0, MOST_CORES)]
#: A limit of memory; where there is none, some systems report 2**63.
MemoryLimit: TypeAlias = Annotated[int, Between(0, 2**63)]
#: A process number.
ProcessId: TypeAlias = Annotated[int, Between(1, 2**31 - 1)]
#: The names of a list that is never empty.
Names: TypeAlias = Annotated[list[str], Least(1)]
#: Step times by setting.
StepTimes: TypeAlias = Annotated[dict[str, float], Between(0, LONGEST_MS)]


Knob: TypeAlias = Annotated[str, OneOf(KNOBS)]
Sha256: TypeAlias = Annotated[str, Hexadecimal(64)]
NotFinite: TypeAlias = Annotated[str, OneOf(("NaN", "infinite"))]
Answer: TypeAlias = Annotated[str, OneOf(("faster", "slower", "same", "unclear"))]
ExperimentCause: TypeAlias = Annotated[
    str, OneOf(("clear", "budget", "cancelled", "key", "stopped", "ended", "failed"))
]
AutopilotCause: TypeAlias = Annotated[
    str,
    OneOf(("not_starving", "compute_floor", "nothing_left", "user", "over", "budget", "failed")),
]

#: What `Annotated` declares of a field.
Bound: TypeAlias = Between | Least | OneOf | Hexadecimal


#: A larger whole number fits no column, and no C integer.
_LARGEST = 2**63
#: Strings up to this length (causes, classes, names) are interned.
_INTERNED_CHARACTERS = 40

#: Takes a value from JSON and returns it as declared, or raises ValueError.
Reader: TypeAlias = Callable[[Any], Any]


def known_fields(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of `values`, from JSON, that the dataclass `kind` declares, in their declared types.

    Raises:
        ValueError: a value has another type than declared, or is out of its bounds.
    """
    readers = _readers(kind)
    return {
        name: _read(name, readers[name], value) for name, value in values.items() if name in readers
    }


def known_entries(kind: type, values: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the entries that are in the bounds that `kind` declares, and the names of the others.

    Entries that `kind` does not declare are text, numbers, true, false or null.
    """
    readers = _readers(kind)
    known = {
        name: value
        for name, value in values.items()
        if _is_readable(readers.get(name, _scalar), value)
    }
    read = {_text(name): readers.get(name, _scalar)(value) for name, value in known.items()}
    return read, [_text(name) for name in values if name not in known]


def _is_readable(read: Reader, value: Any) -> bool:
    try:
        read(value)
    except ValueError:
        return False
    return True


def _read(name: str, read: Reader, value: Any) -> Any:
    try:
        return read(value)
    except ValueError as error:
        raise ValueError(f"{name} is not {error}") from None


@cache
def _readers(kind: type) -> dict[str, Reader]:
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: _reader(hints[field.name]) for field in fields(kind)}


def _reader(declared: Any) -> Reader:
    """Return the reader of a declared type."""
    if get_origin(declared) is Annotated:
        plain, bound = get_args(declared)
        return partial(_bounded, _reader(plain), bound)
    if get_origin(declared) in (Union, types.UnionType):
        (some,) = (one for one in get_args(declared) if one is not types.NoneType)
        return partial(_optional, _reader(some))
    return _READERS[declared]


def _bounded(read: Reader, bound: Bound, value: Any) -> Any:
    found = read(value)
    if (
        not all(one in bound for one in found.values())
        if isinstance(found, dict)
        else found not in bound
    ):
        raise ValueError(bound)
    return found


def _optional(read: Reader, value: Any) -> Any:
    return None if value is None else read(value)


def _exactly(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise ValueError(kind.__name__)
    return value


def _int(value: Any) -> int:
    if type(value) is not int or abs(value) >= _LARGEST:
        raise ValueError("a whole number of 64 bits")
    return value


def _float(value: Any) -> float:
    return value if type(value) is float else float(_int(value))


def _text(value: Any) -> str:
    """Return a text; half a surrogate pair, which no terminal takes, becomes `?`."""
    text: str = _exactly(str, value)
    text = text if text.isascii() else text.encode(errors="replace").decode()
    return sys.intern(text) if len(text) <= _INTERNED_CHARACTERS else text


def _scalar(value: Any) -> Any:
    if type(value) is str:
        return _text(value)
    return value if value is None or type(value) in (bool, float) else _int(value)


def _list(read: Reader, value: Any) -> list[Any]:
    return [read(one) for one in _exactly(list, value)]


def _dict(read: Reader, value: Any) -> dict[str, Any]:
    return {_text(name): read(one) for name, one in _exactly(dict, value).items()}


def _change(value: Any) -> KnobChange:
    texts = _dict(_text, value)
    if texts.keys() != {field.name for field in fields(KnobChange)}:
        raise ValueError("a change of a knob")
    return KnobChange(**texts)


def _edit(value: Any) -> CodeEdit:
    values = _exactly(dict, value)
    needed = {field.name for field in fields(CodeEdit) if field.default is MISSING}
    if not needed <= values.keys() <= {field.name for field in fields(CodeEdit)}:
        raise ValueError("a change of a line")
    edit = CodeEdit(**known_fields(CodeEdit, values))
    if not 0 <= edit.start <= edit.end <= len(edit.text):
        raise ValueError("a change of a line")
    return edit


_READERS: dict[Any, Reader] = {
    bool: partial(_exactly, bool),
    int: _int,
    float: _float,
    str: _text,
    list[str]: partial(_list, _text),
    dict[str, str]: partial(_dict, _text),
    dict[str, float]: partial(_dict, _float),
    dict[str, int]: partial(_dict, _int),
    dict[str, Any]: partial(_exactly, dict),
    tuple[KnobChange, ...]: lambda value: tuple(_list(_change, value)),
    tuple[CodeEdit, ...]: lambda value: tuple(_list(_edit, value)),
}
