"""The source of a Python file, and the places of its calls in it.

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
    from collections.abc import Sequence


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

    def last_token(self, call: ast.Call) -> tuple[str, int]:
        """Return the token before the closing parenthesis of a call, and the place after it."""
        end = self.end_of(call)
        skipped = (tokenize.NL, tokenize.COMMENT)
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        code = (
            (one.string, self.place_in_line(*one.end)) for one in tokens if one.type not in skipped
        )
        return next(before for before, one in pairwise(code) if one[1] == end)

    def place_in_line(self, line: int, column: int) -> int:
        """Return the place of a column of a line, in characters; lines count from 1."""
        return sum(map(len, self.lines[: line - 1])) + column

    def _place(self, line: int, column: int) -> int:
        before = self.lines[line - 1].encode()[:column]
        return self.place_in_line(line, len(before.decode(errors="replace")))
