"""Changes of a script's lines as a run records them, each of which does in the pipeline what a knob
does in tfwatch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tfwatch.core.bounds import Count
from tfwatch.core.source_code import with_edits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: The place of the knob's value in `CodeEdit.new`.
VALUE = "{}"
#: Between the place of changed lines and their text before.
IN_PLACE = "  in place of: "
#: Stands for a value that only autotuning sets.
_AUTO = "auto"
#: Values that no line sets.
_UNSET = ("off", "default")


@dataclass(frozen=True, slots=True)
class CodeEdit:
    """A change of a line of a script, or of several that follow each other."""

    #: The knob that it stands for.
    knob: str
    #: As the user names it.
    file: str
    #: The number of the first line, from 1, and the lines themselves.
    line: Count
    text: str
    #: The characters of the lines that `new` replaces; it holds `{}` in place of the value.
    start: Count
    end: Count
    new: str
    #: The script's own name of `tf.data.AUTOTUNE`.
    auto: str
    #: The file is a cell of a notebook.
    is_cell: bool = False

    @property
    def place(self) -> str:
        """`train.py:9`, of several lines `train.py:9-11`; in a notebook `In [3], line 9`."""
        lines = f"{self.line}-{self.last}" if self.last > self.line else f"{self.line}"
        return f"{self.file}, line {lines}" if self.is_cell else f"{self.file}:{lines}"

    @property
    def last(self) -> int:
        """The number of the last line."""
        return self.line + self.text.count("\n")

    def value_of(self, values: Mapping[str, str]) -> str:
        """Return the value of its knob; `off` where there is none."""
        return values.get(self.knob, _UNSET[0])

    def replacement(self, value: str) -> str:
        """Return the text between `start` and `end` for a value of the knob."""
        return self.new.replace(VALUE, self.auto if value == _AUTO else value)

    @property
    def is_plain(self) -> bool:
        """True if a terminal prints the lines as they are."""
        lines = "".join((self.text, self.new, self.auto)).replace("\t", " ").replace("\n", " ")
        return (self.file + lines).isprintable()


def edited_lines(edits: Sequence[CodeEdit], values: Mapping[str, str]) -> str:
    """Return the lines that these values of knobs change, with their place and their text before;
    empty without any.

    A line that several knobs change has all their changes, and changes that share a line are one.
    """
    wanted = [edit for edit in edits if edit.value_of(values) not in _UNSET and edit.is_plain]
    blocks: list[list[CodeEdit]] = []
    for edit in sorted(wanted, key=lambda edit: (edit.file, edit.line)):
        if (
            blocks
            and blocks[-1][0].file == edit.file
            and edit.line <= max(one.last for one in blocks[-1])
        ):
            blocks[-1].append(edit)
        else:
            blocks.append([edit])
    described = [_described(_in_one_block(block), values) for block in blocks]
    return "\n".join(filter(None, described))


def with_values(text: str, edits: Sequence[CodeEdit], values: Mapping[str, str]) -> str:
    """Return a text with changes whose `start` and `end` are places in it, for these values."""
    return with_edits(
        text, [(one.start, one.end, one.replacement(one.value_of(values))) for one in edits]
    )


def _in_one_block(edits: Sequence[CodeEdit]) -> list[CodeEdit]:
    """Return changes that share lines with the text of all these lines."""
    lines = {
        edit.line + at: line for edit in edits for at, line in enumerate(edit.text.split("\n"))
    }
    first, text = min(lines), "\n".join(line for _, line in sorted(lines.items()))
    before = {
        edit.line: sum(len(lines[at]) + 1 for at in range(first, edit.line)) for edit in edits
    }
    return [
        replace(
            one,
            line=first,
            text=text,
            start=before[one.line] + one.start,
            end=before[one.line] + one.end,
        )
        for one in edits
    ]


def _described(edits: Sequence[CodeEdit], values: Mapping[str, str]) -> str:
    """Return the lines of changes after them, below a comment with their place; empty where they
    stay the same."""
    before = edits[0].text
    after = with_values(before, edits, values)
    lines = before.strip().split("\n")
    old = lines[0] if len(lines) == 1 else f"{lines[0]} ... {lines[-1].strip()}"
    return f"# {edits[0].place}{IN_PLACE}{old}\n{after}" if after != before else ""
