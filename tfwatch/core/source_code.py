"""The source of a Python file, the places of its calls in it, and changes there.

A place is in characters from the beginning of the source: Python's parser counts bytes of a line.
"""

from __future__ import annotations

import ast
import io
import tokenize
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TypeAlias

    #: The begin and the end of characters of a source, and their replacement.
    Edit: TypeAlias = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class SourceCode:
    """A source, its lines with their ends, and its syntax tree."""

    text: str
    lines: Sequence[str]
    tree: ast.Module

    @staticmethod
    def of(text: str) -> SourceCode:
        """Parse a source whose lines end with a newline.

        Raises:
            SyntaxError: it is no Python.
            ValueError: it contains a zero byte.
        """
        return SourceCode(text, list(io.StringIO(text)), ast.parse(text))

    def start_of(self, node: Any) -> int:
        """Return the place of a node."""
        return self._place(node.lineno, node.col_offset)

    def end_of(self, node: Any) -> int:
        """Return the place after a node."""
        return self._place(node.end_lineno, node.end_col_offset)

    def code_of(self, node: ast.AST) -> str:
        """Return the code of a node."""
        return self.text[self.start_of(node) : self.end_of(node)]

    def in_place_of(self, node: ast.AST, new: str) -> Edit:
        """Return the replacement of a node."""
        return self.start_of(node), self.end_of(node), new

    def added(self, call: ast.Call, argument: str) -> Edit:
        """Return the addition of an argument at the end of a call.

        Where a comma ends the last line of arguments, the new one has a line of its own below it.
        """
        last, end = self._last_token(call)
        if last == "(":
            return end, end, argument
        if last != ",":
            return end, end, f", {argument}"
        line_end = self.text.find("\n", end)
        if not end <= line_end < self.end_of(call):
            return end - 1, end - 1, f", {argument}"
        line = self.text[self.text.rfind("\n", 0, end) + 1 : line_end]
        indent = line[: len(line) - len(line.lstrip())]
        return line_end, line_end, f"\n{indent}{argument},"

    def _last_token(self, call: ast.Call) -> tuple[str, int]:
        """Return the token before the closing parenthesis of a call, and the place after it."""
        end = self.end_of(call)
        skipped = (tokenize.NL, tokenize.COMMENT)
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        code = (
            (one.string, self._place_in_line(*one.end)) for one in tokens if one.type not in skipped
        )
        return next(before for before, one in pairwise(code) if one[1] == end)

    def _place_in_line(self, line: int, column: int) -> int:
        """Return the place of a column of a line, in characters; lines count from 1."""
        return sum(map(len, self.lines[: line - 1])) + column

    def _place(self, line: int, column: int) -> int:
        before = self.lines[line - 1].encode()[:column]
        return self._place_in_line(line, len(before.decode(errors="replace")))


def with_edits(text: str, edits: Iterable[Edit]) -> str:
    """Return a text with changes; of those at one place the last one comes first."""
    for start, end, new in sorted(edits, key=lambda edit: edit[:2], reverse=True):
        text = text[:start] + new + text[end:]
    return text


def method_of(node: ast.AST) -> str:
    """Return the name of the method that a node calls; empty where it calls none."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr
    return ""


def keyword_of(call: ast.Call, name: str) -> ast.expr | None:
    """Return the value of a keyword argument."""
    return next((one.value for one in call.keywords if one.arg == name), None)


def imported_name(nodes: Iterable[ast.AST], module: str) -> str:
    """Return the name that the first import of a module among nodes gives it; empty without one."""
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            package = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            for one in node.names:
                if f"{package}{one.name}" == module:
                    return one.asname or one.name
    return ""
