"""Checks that values read from a file have the types that a dataclass declares."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any

from tfwatch.core.knobs import KnobChange

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: No count or time comes near: a larger whole number is damage.
_LARGEST = 2**63


def known_fields(kind: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of `values`, from JSON, that the dataclass `kind` declares, in their declared types.

    Raises:
        ValueError: a value has another type than declared.
    """
    declared = _declared(kind)
    known = {name: value for name, value in values.items() if name in declared}
    for name, value in known.items():
        if not _CHECKS[declared[name]](value):
            raise ValueError(f"{name} is not {declared[name]}")
    return {
        name: _CONVERTERS[declared[name]](value) if declared[name] in _CONVERTERS else value
        for name, value in known.items()
    }


def _unchanged(value: Any) -> Any:
    return value


@cache
def _declared(kind: Any) -> dict[str, str]:
    return {f.name: str(f.type) for f in fields(kind)}


def _is_int(value: object) -> bool:
    return isinstance(value, int) and abs(value) < _LARGEST


def _is_float(value: object) -> bool:
    return isinstance(value, float) or _is_int(value)


def _is_str(value: object) -> bool:
    return isinstance(value, str)


def _is_dict(value: object) -> bool:
    return isinstance(value, dict)


def _is_change(value: object) -> bool:
    names = {f.name for f in fields(KnobChange)}
    return isinstance(value, dict) and value.keys() == names and all(map(_is_str, value.values()))


_CHANGES = "tuple[KnobChange, ...]"
#: Converters of the types that JSON does not have.
_CONVERTERS: dict[str, Callable[[Any], Any]] = {_CHANGES: lambda value: tuple(KnobChange(**change) for change in value)}
_CHECKS: dict[str, Callable[[Any], bool]] = {
    "bool": lambda value: isinstance(value, bool),
    "int": _is_int,
    "int | None": lambda value: value is None or _is_int(value),
    "float": _is_float,
    "float | None": lambda value: value is None or _is_float(value),
    "str": _is_str,
    "list[str]": lambda value: isinstance(value, list) and all(map(_is_str, value)),
    "dict[str, str]": lambda value: _is_dict(value) and all(map(_is_str, value.values())),
    "dict[str, float]": lambda value: _is_dict(value) and all(map(_is_float, value.values())),
    "dict[str, Any]": _is_dict,
    _CHANGES: lambda value: isinstance(value, list) and all(map(_is_change, value)),
}
