"""Changes of single lines of a script, each of which does in its pipeline what a knob does in tfwatch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.core.knobs import stage_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: The place of the knob's value in `CodeEdit.new`.
VALUE = "{}"
#: Stands for a value that only autotuning sets.
_AUTO = "auto"
#: Values that no line sets.
_UNSET = ("off", "default")
_WORKERS = "workers"


@dataclass(frozen=True, slots=True)
class CodeEdit:
    """A change of one line of a script.

    knob: the knob that it stands for. file: as the user names it; line: its number, from 1; text: the line itself.
    start, end: the characters of it that `new` replaces. new: holds `{}` in place of the value. auto: the script's own
    name of `tf.data.AUTOTUNE`. most: the largest number that the call takes; 0 without a limit. is_cell: the file is a
    cell of a notebook.
    stage: of the parallel calls, the number of the stage from 0 on in the order of the pipeline; None for all alike.
    plain: of a change of the order of calls, where `{}` is the parallel calls: the text where the script sets them.
    """

    knob: str
    file: str
    line: int
    text: str
    start: int
    end: int
    new: str
    auto: str
    most: int = 0
    plain: str = ""
    stage: int | None = None
    is_cell: bool = False

    @property
    def place(self) -> str:
        """`train.py:9`; in a notebook `In [3], line 9`."""
        return f"{self.file}, line {self.line}" if self.is_cell else f"{self.file}:{self.line}"

    def value_of(self, values: Mapping[str, str]) -> str:
        """Return the value of its knob, of `workers` that of its own stage; `off` where there is none."""
        value = values.get(self.knob, _UNSET[0])
        return stage_value(value, self.stage) if self.knob == _WORKERS else value

    def replacement(self, value: str) -> str:
        """Return the text between `start` and `end` for a value of the knob."""
        number = str(min(int(value), self.most)) if self.most and value.isdigit() else value
        return self.new.replace(VALUE, self.auto if value == _AUTO else number)

    @property
    def is_plain(self) -> bool:
        """True if a terminal prints the line as it is."""
        return "".join((self.file, self.text, self.new, self.auto, self.plain)).replace("\t", " ").isprintable()


def edited_lines(edits: Sequence[CodeEdit], values: Mapping[str, str]) -> str:
    """Return each line that these values of knobs change, with its place and its text before; empty without any.

    A line that several knobs change has all their changes.
    """
    wanted = [edit for edit in edits if edit.value_of(values) not in _UNSET and edit.is_plain]
    by_line: dict[tuple[str, int], list[CodeEdit]] = {}
    for edit in wanted:
        by_line.setdefault((edit.file, edit.line), []).append(edit)
    changed = [(group, _edited(_apart(group), values)) for _, group in sorted(by_line.items())]
    return "\n".join(_described(group[0], after) for group, after in changed if after != group[0].text)


def _apart(edits: Sequence[CodeEdit]) -> list[CodeEdit]:
    """Leave out the changes of a call that changes its place: its new text has them."""
    moved = [edit for edit in edits if edit.plain]
    return [one for one in edits if one.plain or not any(m.start <= one.start < m.end for m in moved)]


def _replacement(edit: CodeEdit, values: Mapping[str, str]) -> str:
    if not edit.plain:
        return edit.replacement(edit.value_of(values))
    calls = stage_value(values.get(_WORKERS, _UNSET[0]), edit.stage)
    return edit.plain if calls in _UNSET else edit.replacement(calls)


def _edited(edits: Sequence[CodeEdit], values: Mapping[str, str]) -> str:
    text = edits[0].text
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end), reverse=True):
        text = text[: edit.start] + _replacement(edit, values) + text[edit.end :]
    return text


def _described(edit: CodeEdit, after: str) -> str:
    return f"# {edit.place}  in place of: {edit.text.strip()}\n{after}"
