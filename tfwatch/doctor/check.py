"""The result of a check, and the result of all of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from tfwatch.core.errors import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Status(Enum):
    """The outcome of a check; the members are in the order of display."""

    FAIL = "fail"
    WARN = "warn"
    OK = "ok"
    NA = "n/a"

    @property
    def word(self) -> str:
        """The word on the screen; problems are in capitals."""
        word = str(self.value)
        return word.upper() if self in (Status.FAIL, Status.WARN) else word


_ORDER = list(Status)
_LONGEST = 600


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check.

    id: the name, stable between versions. found: the result in one or two sentences with figures; for `n/a` the reason.
    todo: the remedy; empty where none is needed.
    """

    id: str
    status: Status
    found: str
    todo: str = ""

    def __post_init__(self) -> None:
        # These texts quote tools and libraries, so they may hold control characters and many lines.
        object.__setattr__(self, "found", _short(self.found))
        object.__setattr__(self, "todo", _short(self.todo))


@dataclass(frozen=True, slots=True)
class CheckUp:
    """The results of all checks, worst first, and the machine in one line."""

    machine: str
    checks: tuple[Check, ...]


def worst_first(checks: Iterable[Check]) -> list[Check]:
    """Sort by status; checks of the same status keep their order."""
    return sorted(checks, key=lambda check: _ORDER.index(check.status))


def worst(checks: Iterable[Check]) -> Status:
    """Return the worst status; `ok` where no check fails or warns."""
    found = min((check.status for check in checks), key=_ORDER.index, default=Status.OK)
    return Status.OK if found is Status.NA else found


def failed(checks: Sequence[Check]) -> str:
    """Return the number of failures, e.g. `1 failed`."""
    return f"{sum(check.status is Status.FAIL for check in checks)} failed"


def counted(checks: Sequence[Check]) -> str:
    """Return the number of checks by status, e.g. `1 failed, 2 warnings, 15 ok, 5 n/a`."""
    count = {status: sum(check.status is status for check in checks) for status in Status}
    warnings = "1 warning" if count[Status.WARN] == 1 else f"{count[Status.WARN]} warnings"
    return f"{failed(checks)}, {warnings}, {count[Status.OK]} ok, {count[Status.NA]} n/a"


def _short(text: str) -> str:
    """Return the text on one line of at most `_LONGEST` characters, without control characters."""
    return " ".join(printable(text[: 2 * _LONGEST]).split())[:_LONGEST]
