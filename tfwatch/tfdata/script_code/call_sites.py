"""The place in a script that made a stage of its pipeline: noted on the data set while the script
builds it."""

from __future__ import annotations

from dataclasses import dataclass
from dis import opname
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import CodeType, FrameType

_NOTE = "_tfwatch_call"
#: The methods of a data set whose calls are noted: each returns a new stage.
METHODS = (
    "batch",
    "cache",
    "enumerate",
    "filter",
    "flat_map",
    "interleave",
    "map",
    "padded_batch",
    "prefetch",
    "repeat",
    "shard",
    "shuffle",
    "skip",
    "take",
    "unbatch",
)


@dataclass(frozen=True, slots=True)
class CallSite:
    """A call of a method: its code, the instruction in it, and the line of that instruction."""

    method: str
    code: CodeType
    instruction: int
    line: int

    @property
    def file(self) -> str:
        """The file of the call."""
        return self.code.co_filename

    @property
    def end(self) -> tuple[int, int] | None:
        """The line and the column, in bytes, after the call; None where this Python does not keep
        them."""
        positions = getattr(self.code, "co_positions", None)  # since Python 3.11
        if positions is None:
            return None
        _, line, _, column = next(islice(positions(), self.instruction // 2, None), (None,) * 4)
        return None if line is None or column is None else (line, column)

    @property
    def has_line_of_name(self) -> bool:
        """True where Python 3.10 gives it the line of the method's name: all its arguments are
        positional.

        Else it has the line where the chain of calls begins.
        """
        return opname[self.code.co_code[self.instruction]] == "CALL_METHOD"


def note_call(dataset: Any, method: str, frame: FrameType) -> None:
    """Note on a data set the call in this frame that made it; an earlier note stays."""
    if _NOTE not in vars(dataset):
        setattr(dataset, _NOTE, CallSite(method, frame.f_code, frame.f_lasti, frame.f_lineno))


def call_of(dataset: Any) -> CallSite | None:
    """Return the call that made a data set; None where none of the script's own code did."""
    return getattr(dataset, _NOTE, None)
