"""What a check says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from tfwatch.core.errors import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Status(Enum):
    """In the order in which checks are shown."""

    FAIL = "fail"
    WARN = "warn"
    OK = "ok"
    NA = "n/a"

    @property
    def word(self) -> str:
        """As people read it: trouble in capitals."""
        word = str(self.value)
        return word.upper() if self in (Status.FAIL, Status.WARN) else word


_ORDER = list(Status)
_LONGEST = 600


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    id: stays the same from version to version. found: what is so, in a sentence or two, with its figures; for `n/a`
    why nothing can be told. todo: what to do; empty where nothing is to be done.
    """

    id: str
    status: Status
    found: str
    todo: str = ""

    def __post_init__(self) -> None:
        # Tools' and libraries' words stand in these texts.
        object.__setattr__(self, "found", _short(self.found))
        object.__setattr__(self, "todo", _short(self.todo))


@dataclass(frozen=True, slots=True)
class CheckUp:
    """All of it: the machine in a line, and the checks, the worst first."""

    machine: str
    checks: tuple[Check, ...]


def worst_first(checks: Iterable[Check]) -> list[Check]:
    """By status; those of one status stay in their order."""
    return sorted(checks, key=lambda check: _ORDER.index(check.status))


def worst(checks: Iterable[Check]) -> Status:
    """The worst status; `ok` where nothing is wrong."""
    found = min((check.status for check in checks), key=_ORDER.index, default=Status.OK)
    return Status.OK if found is Status.NA else found


def failed(checks: Sequence[Check]) -> str:
    """`1 failed`."""
    return f"{sum(check.status is Status.FAIL for check in checks)} failed"


def counted(checks: Sequence[Check]) -> str:
    """`1 failed, 2 warnings, 15 ok, 5 n/a`."""
    count = {status: sum(check.status is status for check in checks) for status in Status}
    warnings = "1 warning" if count[Status.WARN] == 1 else f"{count[Status.WARN]} warnings"
    return f"{failed(checks)}, {warnings}, {count[Status.OK]} ok, {count[Status.NA]} n/a"


def _short(text: str) -> str:
    """In one line that ends somewhere, without what a terminal would obey."""
    return " ".join(printable(text[: 2 * _LONGEST]).split())[:_LONGEST]
