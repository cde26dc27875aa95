"""The changes of a script's lines that put a batch before its maps, each of which then takes the whole batch.

The calls from the first of these maps to the batch change places: `.map(f).batch(8)` becomes `.batch(8).map(...)`.
Nothing may stand between them but the next call, or the next line `data = data...`.
"""

from __future__ import annotations

import ast
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tfwatch.core.code_edits import VALUE, CodeEdit
from tfwatch.tfdata.script_code.call_sites import call_of
from tfwatch.tfdata.script_code.source_edits import AUTOTUNE, SourceFile, find_call, name_of
from tfwatch.tfdata.stages.stage_names import inputs_of, nodes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.tfdata.rebuilding.vectorised_maps import Group
    from tfwatch.tfdata.script_code.call_sites import CallSite

_KNOB = "fast_pipeline"
_FUNCTION = "map_func"
_SIMPLE = (ast.Assign, ast.AnnAssign, ast.Expr, ast.Return)


def find_order_edits(dataset: Any, groups: Sequence[Group]) -> tuple[CodeEdit, ...]:
    """Return the changes of the script's lines that vectorise these maps; none unless all of them can be made."""
    changes = [_edits_of(dataset, group) for group in groups]
    return tuple(edit for edits in changes for edit in edits) if all(changes) else ()


def _edits_of(dataset: Any, group: Group) -> list[CodeEdit]:
    nodes = _between(group)
    sites = [site for node in nodes if (site := call_of(node)) is not None]
    others = {call_of(node) for node in nodes_of(dataset) if not any(node is one for one in nodes)}
    if len({*sites}) < len(nodes) or others & {*sites} or any(map(_may_return_list, group.maps)):
        return []
    source = SourceFile.of(sites[0].file) if len({site.file for site in sites}) == 1 else None
    calls = [find_call(source.tree, site) for site in sites] if source else []
    known = [call for call in calls if call is not None]
    if source is None or len(known) < len(nodes) or not _are_beside(source.tree, known):
        return []
    if not source.auto.endswith(AUTOTUNE):
        return []
    is_map = [any(node is one for one in group.maps) for node in nodes]
    return _Swap(source, sites, [_part(source, call) for call in known], is_map).edits()


def _between(group: Group) -> list[Any]:
    """Return the stages from the first map to the batch, in the order of the pipeline."""
    nodes = [group.batch]
    while nodes[-1] is not group.maps[0]:
        nodes.append(inputs_of(nodes[-1])[0])
    return nodes[::-1]


def _may_return_list(node: Any) -> bool:
    """Return whether a map's function may return a list inside its result.

    `map` makes one tensor of it, of constants or not, and `vectorized_map` does not.
    """
    for output in node._map_func.function.graph.outputs:
        operation = output.op
        while operation.type == "Identity":
            operation = operation.inputs[0].op
        if operation.type == "Pack" or (operation.type == "Const" and output.shape.rank != 0):
            return True
    return False


def _are_beside(tree: ast.AST, calls: Sequence[ast.Call]) -> bool:
    """Return whether these calls stand in one statement, or in lines `data = data...` that follow each other."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            value = getattr(node, name, None)
            block = value if isinstance(value, list) else []
            simple = [one for one in block if isinstance(one, _SIMPLE)]
            holders = [next((one for one in simple if _holds(one, call)), None) for call in calls]
            if simple and all(holders):
                return all(_follows(one, other, block) for one, other in pairwise(holders))
    return False


def _holds(statement: ast.AST, call: ast.Call) -> bool:
    return any(node is call for node in ast.walk(statement))


def _follows(first: Any, second: Any, block: list[Any]) -> bool:
    """Return whether a statement is the one before, or assigns to the same name what it makes of it."""
    if first is second:
        return True
    at, names = block.index(first), {_assigned(first), _assigned(second)}
    return second is block[at + 1] and names == {_root(second)} and None not in names


def _assigned(statement: Any) -> str | None:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else None


def _root(statement: Any) -> str | None:
    """Return the name that the chain of calls of an assignment begins with."""
    node = statement.value if isinstance(statement, ast.Assign) else None
    while isinstance(node, (ast.Call, ast.Attribute)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


@dataclass(frozen=True, slots=True)
class _Part:
    """A call from its method's name to its end, in characters of the source."""

    call: ast.Call
    start: int
    end: int


def _part(source: SourceFile, call: ast.Call) -> _Part:
    assert isinstance(call.func, ast.Attribute)
    return _Part(call, source.end_of(call.func) - len(call.func.attr), source.end_of(call))


@dataclass(frozen=True, slots=True)
class _Swap:
    """The calls of a group in their order. is_map: whether each is a map that is vectorised."""

    source: SourceFile
    sites: Sequence[CallSite]
    parts: Sequence[_Part]
    is_map: Sequence[bool]

    def edits(self) -> list[CodeEdit]:
        """Return a change for each call that another one takes the place of; none where the result is not theirs."""
        order = sorted(range(len(self.parts)), key=lambda n: self.is_map[n])
        texts = [self._texts(n) for n in order]
        if not all(plain for plain, _ in texts):
            return []
        edits = [self._edit(part, *text) for part, text in zip(self.parts, texts, strict=True)]
        return edits if self._is_intended(edits, order) else []

    def _edit(self, part: _Part, plain: str, new: str) -> CodeEdit:
        edit = self.source.edit(_KNOB, part.start, part.end, new)
        return replace(edit, file=name_of(edit.file), plain=plain)

    def _texts(self, number: int) -> tuple[str, str]:
        """Return the text of a call in its new place, and that with `{}` parallel calls; empty where there is none."""
        part = self.parts[number]
        if not self.is_map[number]:
            text = self._cut(part, [])
            return ("", "") if VALUE in text else (text, text)
        given = _given_function(part.call)
        calls = self.source.argument(part.call, "map")
        if given is None or calls is None:
            return "", ""
        start, end = self.source.start_of(given), self.source.end_of(given)
        wrapped = (start, end, self._wrapped(given, self.source.text[start:end]))
        plain = self._cut(part, [wrapped])
        return (
            ("", "")
            if VALUE in plain
            else (plain, self._cut(part, [wrapped, (calls.start, calls.end, calls.new)]))
        )

    def _cut(self, part: _Part, changes: list[tuple[int, int, str]]) -> str:
        """Return the text of a call with changes."""
        text = self.source.text[part.start : part.end]
        for start, end, new in sorted(changes, reverse=True):
            text = text[: start - part.start] + new + text[end - part.start :]
        return text

    def _wrapped(self, given: ast.expr, text: str) -> str:
        """Return a function of whole batches in place of one of examples."""
        used = {node.id for node in ast.walk(given) if isinstance(node, ast.Name)}
        batch, example = (_unused(name, used) for name in ("batch", "example"))
        called = text if isinstance(given, (ast.Name, ast.Attribute)) else f"({text})"
        module = self.source.auto.removesuffix(f".{AUTOTUNE}")
        return f"lambda *{batch}: {module}.vectorized_map(lambda {example}: {called}(*{example}), {batch})"

    def _is_intended(self, edits: Sequence[CodeEdit], order: Sequence[int]) -> bool:
        """Return whether the changed source is the intended one: the same calls in this order."""
        text = self.source.text
        for part, edit in sorted(
            zip(self.parts, edits, strict=True), key=lambda pair: pair[0].start, reverse=True
        ):
            text = text[: part.start] + edit.plain + text[part.end :]
        try:
            changed, wanted = ast.parse(text), ast.parse(self.source.text)
        except (SyntaxError, ValueError):
            return False
        calls = [find_call(wanted, site) for site in self.sites]
        for call, made in zip(calls, [self._intended(n) for n in order], strict=True):
            assert call is not None
            assert isinstance(call.func, ast.Attribute)
            assert isinstance(made.func, ast.Attribute)
            call.func.attr, call.args, call.keywords = made.func.attr, made.args, made.keywords
        return ast.dump(changed) == ast.dump(wanted)

    def _intended(self, number: int) -> ast.Call:
        call = deepcopy(self.parts[number].call)
        given = _given_function(call) if self.is_map[number] else None
        if given is not None:
            made = ast.parse(self._wrapped(given, ast.unparse(given)), mode="eval").body
            call.args = [made if one is given else one for one in call.args]
            for keyword in call.keywords:
                keyword.value = made if keyword.value is given else keyword.value
        return call


def _given_function(call: ast.Call) -> ast.expr | None:
    """Return the function that a call of `map` is given."""
    named = next((one.value for one in call.keywords if one.arg == _FUNCTION), None)
    first = call.args[0] if call.args else None
    return named or (None if isinstance(first, ast.Starred) else first)


def _unused(name: str, used: set[str]) -> str:
    while name in used:
        name += "_"
    return name
