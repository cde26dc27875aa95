"""The language of the tables of facts: a figure's key, kind, meaning, source and wording, once.

A table is a tuple of facts about one subject: a run, a switch, a stage. JSON, its schema, the page
that describes it and the tables of a report walk over it. The end of a key is its unit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from tfwatch.core import units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: Returns the value of a fact from its subject; a text is the path of its attribute.
Source: TypeAlias = "str | Callable[[Any], Any]"

#: The words of a value, by the unit at the end of its key.
_UNITS: dict[str, Callable[[float | None], str]] = {
    "ms": units.milliseconds,
    "s": units.seconds,
    "bytes": units.memory,
    "w": units.watts,
    "c": lambda value: f"{units.number(value, 0)} °C",
    "mhz": lambda value: f"{units.number(value, 0)} MHz",
    "cores": units.number,
    "parallelism": lambda value: units.number(value, 0),
    "buffered": lambda value: units.number(value, 0),
    "size": lambda value: units.number(value, 0),
    "share": units.percent,
    "busy": units.percent,
}
#: Ends of a key that are a unit and no part of the name.
_HIDDEN = ("ms", "s", "bytes", "w", "c", "mhz")


class ValueKind(Enum):
    """The kind of a value, as JSON schema names it, and three that are free in what they hold."""

    TEXT = "string"
    NUMBER = "number"
    WHOLE = "integer"
    FLAG = "boolean"
    RECORD = "object"
    ROWS = "array"
    TEXTS = "texts"
    MAP = "map"
    ANY = "any"


_SINGLE = (ValueKind.TEXT, ValueKind.NUMBER, ValueKind.WHOLE, ValueKind.FLAG)


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of one fact of a subject, or of a record or rows of further facts about it."""

    key: str
    kind: ValueKind
    meaning: str
    of: Callable[[Any], Any]
    #: Of a record, and of each of the rows.
    table: Table = field(default=(), repr=False)
    #: The values that a text can have; empty for any.
    choices: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The key in words, without its unit: `data wait`."""
        words = self.key.split("_")
        return " ".join(words[:-1] if words[-1] in _HIDDEN and words[1:] else words)

    def value(self, subject: Any) -> Any:
        """Return the value as JSON holds it; None where it is missing, also for an empty text."""
        found = self.of(subject)
        if self.kind is ValueKind.RECORD:
            return None if found is None else as_object(self.table, found)
        if self.kind is ValueKind.ROWS:
            return [as_object(self.table, one) for one in found]
        return None if self.kind is ValueKind.TEXT and found == "" else finite(found)

    def words(self, subject: Any) -> str:
        """Return the value in words with its unit; `n/a` where it is missing."""
        value = self.value(subject)
        if value is None:
            return units.MISSING
        if self.kind is ValueKind.FLAG:
            return "yes" if value else "no"
        if self.kind is ValueKind.TEXT:
            return str(value)
        if self.kind is ValueKind.WHOLE:
            return units.count(value)
        return _UNITS.get(self.key.rpartition("_")[2], units.number)(value)


Table: TypeAlias = tuple[Definition, ...]


def _fact(
    kind: ValueKind, key: str, meaning: str, of: Source = "", choices: tuple[str, ...] = ()
) -> Definition:
    return Definition(key, kind, meaning, _source(key, of), choices=choices)


#: Each returns a fact from its key, its meaning and its source; without one, the attribute `key`.
#: In words: after the source, the values that it can have.
text = partial(_fact, ValueKind.TEXT)
#: A figure with decimals.
number = partial(_fact, ValueKind.NUMBER)
#: A number of things, or the number of one.
whole = partial(_fact, ValueKind.WHOLE)
#: A fact that is so or not.
flag = partial(_fact, ValueKind.FLAG)
#: A list of texts.
texts = partial(_fact, ValueKind.TEXTS)
#: Values by names that the run decides.
mapping = partial(_fact, ValueKind.MAP)
#: A value of any kind.
anything = partial(_fact, ValueKind.ANY)


def record(key: str, meaning: str, table: Table, of: Source = "") -> Definition:
    """Return one object of further facts; of: None where there is none."""
    return Definition(key, ValueKind.RECORD, meaning, _source(key, of), table)


def rows(key: str, meaning: str, table: Table, of: Source = "") -> Definition:
    """Return a list of objects of further facts."""
    return Definition(key, ValueKind.ROWS, meaning, _source(key, of), table)


def if_any(path: str) -> Callable[[Any], Any]:
    """Return the source of a path of attributes that not each subject has: None there."""

    def value(subject: Any) -> Any:
        for name in path.split("."):
            subject = getattr(subject, name, None)
        return subject

    return value


def within(table: Table, of: Source) -> Table:
    """Return the facts of a part of a subject as facts of the subject; of: the part."""
    part = _source("", of)

    def chained(fact: Definition) -> Callable[[Any], Any]:
        return lambda subject: fact.of(part(subject))

    return tuple(replace(fact, of=chained(fact)) for fact in table)


def _source(key: str, of: Source) -> Callable[[Any], Any]:
    return of if callable(of) else attrgetter(of or key)


def finite(value: Any) -> Any:
    """Return the value with None for each NaN and infinity in it, which JSON cannot hold."""
    if isinstance(value, dict):
        return {name: finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def as_object(table: Table, subject: Any) -> dict[str, Any]:
    """Return the facts of a subject as `--json` prints them."""
    return {fact.key: fact.value(subject) for fact in table}


def known(table: Table, subject: Any) -> list[tuple[Definition, str]]:
    """Return each single fact that is known with its words, for a page."""
    single = (fact for fact in table if fact.kind in _SINGLE)
    return [(fact, fact.words(subject)) for fact in single if fact.value(subject) is not None]


def as_rows(table: Table, subjects: Iterable[Any]) -> tuple[list[str], list[list[str]]]:
    """Return the head and the cells of a table with a row a subject; a missing figure is empty, and
    a fact that no subject has is left out."""
    every = list(subjects)
    single = [fact for fact in table if fact.kind in _SINGLE]
    shown = [fact for fact in single if any(fact.value(one) is not None for one in every)]
    cells = [["" if f.value(one) is None else f.words(one) for f in shown] for one in every]
    return [fact.name for fact in shown], cells


def pick(table: Table, *keys: str) -> Table:
    """Return the facts with these keys, in their order."""
    facts = {fact.key: fact for fact in table}
    return tuple(facts[key] for key in keys)


def tables_below(table: Table) -> dict[Table, str]:
    """Return the tables of all records and rows below a table, each once, with the key of its
    first one, which no other table has."""
    names: dict[Table, str] = {}
    waiting = [table]
    for one in waiting:
        for fact in one:
            if fact.table and fact.table not in names:
                names[fact.table] = fact.key
                waiting.append(fact.table)
    return names


def schema_of(table: Table) -> dict[str, Any]:
    """Return the JSON schema of the object of a table: each key is there, and no other."""
    names = tables_below(table)

    def of_object(one: Table) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {fact.key: _schema_of_value(fact, names) for fact in one},
            "required": [fact.key for fact in one],
            "additionalProperties": False,
        }

    return {**of_object(table), "$defs": {name: of_object(one) for one, name in names.items()}}


def _schema_of_value(fact: Definition, names: dict[Table, str]) -> dict[str, Any]:
    about: dict[str, Any] = {"description": fact.meaning}
    below = {"$ref": f"#/$defs/{names.get(fact.table)}"}
    if fact.choices:
        return {**about, "enum": [*fact.choices, None]}
    match fact.kind:
        case ValueKind.RECORD:
            return {**about, "anyOf": [below, {"type": "null"}]}
        case ValueKind.ROWS:
            return {**about, "type": "array", "items": below}
        case ValueKind.TEXTS:
            return {**about, "type": "array", "items": {"type": "string"}}
        case ValueKind.MAP:
            return {**about, "type": ["object", "null"]}
        case ValueKind.ANY:
            return about
    return {**about, "type": [fact.kind.value, "null"]}
