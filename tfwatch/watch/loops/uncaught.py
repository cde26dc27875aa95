"""The error that ends a script: it left a loop, or was raised between two of its epochs."""

from __future__ import annotations

import ast
import linecache
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from tfwatch.watch.session import ErrorText

if TYPE_CHECKING:
    from types import CodeType

_HERE = str(Path(__file__).parents[1])
#: A code object, and a line of it.
Place = tuple["CodeType", int]


def find_stack() -> list[Place]:
    """Return the stack of the thread, innermost first, without tfwatch's own code."""
    places = []
    for frame, line in traceback.walk_stack(sys._getframe(1)):
        if not frame.f_code.co_filename.startswith(_HERE):
            places.append((frame.f_code, line or 0))
    return places


def find_uncaught(looped_at: list[Place], *, is_left: bool) -> ErrorText | None:
    """Return the uncaught exception that left a loop, or was raised in a loop around it; None where there is none.

    looped_at: the stack when the loop began or was left. is_left: before its data ended.
    """
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if error is None or not looped_at:
        return None
    raised_at = [
        (frame.f_code, line or 0) for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    codes = {code for code, _ in raised_at}
    innermost = next((place for place in looped_at if place[0] in codes), None)
    has_left = is_left and innermost in raised_at
    return ErrorText.of(error) if has_left or _is_between(looped_at, raised_at) else None


def _is_between(looped_at: list[Place], raised_at: list[Place]) -> bool:
    """Return whether one statement loops over a line of both stacks: it would have begun the loop again."""
    return any(
        code is other and _share_loop(code, line, raised)
        for code, line in looped_at
        for other, raised in raised_at
    )


def _share_loop(code: CodeType, *lines: int) -> bool:
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    except (SyntaxError, ValueError):
        return False
    loops = [node for node in ast.walk(tree) if isinstance(node, (ast.For, ast.While))]
    inside = [
        loop for loop in loops if loop.lineno >= code.co_firstlineno
    ]  # not one around the function itself
    return any(
        loop.lineno <= min(lines) and max(lines) <= (loop.body[-1].end_lineno or 0)
        for loop in inside
    )
