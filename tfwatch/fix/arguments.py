"""An argument of a call of `compile`, set in the source of a script: the rest of it stays."""

from __future__ import annotations

import ast
import io
import tokenize
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from tfwatch.fix.user_file import NoPatchError

if TYPE_CHECKING:
    from collections.abc import Sequence

_COMPILE = "compile"
#: Modules and builtins whose `compile` is another one.
_OTHERS = frozenset({"re", "regex", "builtins", "tf", "jax"})
#: Values that set nothing, in place of which another one is written.
_UNSET = frozenset({"None", "False", "'auto'", "1"})


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of `compile`. effect: what it changes beside the time.

    old: the value that it replaces, as source; empty: any that sets nothing, or no argument.
    """

    keyword: str
    value: str
    effect: str = ""
    old: str = ""

    @property
    def text(self) -> str:
        """The argument as it is written: `jit_compile=True`."""
        return f"{self.keyword}={self.value}"


def set_argument(text: str, argument: Argument) -> str:
    """Return the source of a script with an argument of its only call of `compile`.

    Raises:
        NoPatchError: there is no such call, or several, or the argument has a value.
    """
    call = _only_call(text)
    given = next((one.value for one in call.keywords if one.arg == argument.keyword), None)
    if given is not None:
        return _replaced(text, given, argument)
    if argument.old:
        raise NoPatchError(f"compile has no {argument.keyword}={argument.old}")
    if any(one.arg is None for one in call.keywords):
        raise NoPatchError("compile takes arguments from a dict")
    return _added(text, call, argument)


def _only_call(text: str) -> ast.Call:
    calls = [node for node in ast.walk(ast.parse(text)) if _is_compile(node)]
    if len(calls) != 1:
        raise NoPatchError(f"the script has {len(calls) or 'no'} calls of compile")
    call = calls[0]
    assert isinstance(call, ast.Call)
    return call


def _is_compile(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    owner = node.func.value
    is_other = isinstance(owner, ast.Name) and owner.id in _OTHERS
    is_parent = isinstance(owner, ast.Call) and ast.unparse(owner.func) == "super"
    return node.func.attr == _COMPILE and not is_other and not is_parent


def _replaced(text: str, given: ast.expr, argument: Argument) -> str:
    written = ast.unparse(given)
    if written != argument.old if argument.old else written not in _UNSET:
        raise NoPatchError(f"compile has {argument.keyword}={written}")
    lines = text.split("\n")
    start = _offset(lines, given.lineno, given.col_offset)
    end = _offset(lines, given.end_lineno or given.lineno, given.end_col_offset or 0)
    return text[:start] + argument.value + text[end:]


def _added(text: str, call: ast.Call, argument: Argument) -> str:
    """Return the source with one more argument at the end of a call.

    Where a comma ends the last line of arguments, the new one has a line of its own below it.
    """
    lines = text.split("\n")
    last = _last_token(text, lines, call)
    line, column = last.start
    if last.string == "(":
        return _inserted(text, lines, last.end, argument.text)
    if last.string != ",":
        return _inserted(text, lines, last.end, f", {argument.text}")
    if line == call.end_lineno:
        return _inserted(text, lines, (line, column), f", {argument.text}")
    written = lines[line - 1]
    indent = written[: len(written) - len(written.lstrip())]
    return _inserted(text, lines, (line, len(written)), f"\n{indent}{argument.text},")


def _inserted(text: str, lines: Sequence[str], place: tuple[int, int], new: str) -> str:
    at = sum(len(one) + 1 for one in lines[: place[0] - 1]) + place[1]
    return text[:at] + new + text[at:]


def _last_token(text: str, lines: Sequence[str], call: ast.Call) -> tokenize.TokenInfo:
    """Return the token before the closing parenthesis of a call."""
    assert call.end_lineno is not None
    assert call.end_col_offset is not None
    end = call.end_lineno, _column(lines, call.end_lineno, call.end_col_offset)
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    code = [one for one in tokens if one.type not in (tokenize.NL, tokenize.COMMENT)]
    return next(before for before, one in pairwise(code) if one.end == end)


def _offset(lines: Sequence[str], line: int, column: int) -> int:
    return sum(len(one) + 1 for one in lines[: line - 1]) + _column(lines, line, column)


def _column(lines: Sequence[str], line: int, column: int) -> int:
    """Return a column in characters: Python counts bytes."""
    return len(lines[line - 1].encode()[:column].decode(errors="replace"))
