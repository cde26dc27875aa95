"""Checks that values read from a file have the types and the bounds that a dataclass declares."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, Union, get_args, get_origin, get_type_hints

from tfwatch.core.code_edits import CodeEdit
from tfwatch.core.knobs import KnobChange

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tfwatch.core.decoding.bounds import Bound

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
    return {name: _read(name, readers[name], value) for name, value in values.items() if name in readers}


def known_entries(kind: type, values: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the entries that are in the bounds that `kind` declares, and the names of the others.

    Entries that `kind` does not declare are text, numbers, true, false or null.
    """
    readers = _readers(kind)
    known = {name: value for name, value in values.items() if _is_readable(readers.get(name, _scalar), value)}
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
    if not all(one in bound for one in found.values()) if isinstance(found, dict) else found not in bound:
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
