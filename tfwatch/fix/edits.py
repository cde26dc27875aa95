"""Changes of the source of a script: the rest of it stays, as do comments and line breaks.

Each returns the changed source. Raises `NoPatchError` where the source has no single place for it,
or the result is no Python.
"""

from __future__ import annotations

import ast
import textwrap
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from tfwatch.core.source_code import SourceCode
from tfwatch.fix.user_file import NoPatchError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import TypeAlias

    #: The begin and the end of characters of a source, and their replacement.
    Edit: TypeAlias = tuple[int, int, str]

_T = TypeVar("_T")
COMPILE, FIT = "compile", "fit"
#: Modules and builtins whose `compile` is another one.
_OTHERS = frozenset({"re", "regex", "builtins", "tf", "jax"})
#: Only a `fit` with one of these validates.
_VALIDATES = ("validation_data", "validation_split")
#: Values that set nothing, in place of which another one is written.
_UNSET = frozenset({"None", "False", "'auto'", "1"})
_POLICY = ("set_dtype_policy", "set_global_policy")

_CALLS = "num_parallel_calls"
_OPTIONS = """\
parallel_options = {tf}.data.Options()
parallel_options.threading.private_threadpool_size = {calls}
"""
#: The functions that make batches of the rows of a generator.
_ROWS_IN_BATCHES = """\
def rows_in_batches(rows, size):
    import numpy as np

    def batches():
        left = iter(rows())
        while batch := [row for _, row in zip(range(size), left)]:
            yield {tf}.nest.map_structure(lambda *parts: np.stack(parts), *batch)

    return batches


def in_batches(signature):
    return {tf}.nest.map_structure(
        lambda one: {tf}.TensorSpec([None, *one.shape], one.dtype), signature
    )


"""


def set_argument(text: str, method: str, keyword: str, value: str, old: str = "") -> str:
    """Set an argument of the only call of a method, `compile` or `fit`.

    old: the value that it replaces, as source; empty: any that sets nothing, or no argument.
    """
    code = _parsed(text)
    call = _only([node for node in _calls(code) if _is_keras(node, method)], f"calls of {method}")
    given = _keyword(call, keyword)
    if given is not None:
        written = ast.unparse(given)
        if written != old if old else written not in _UNSET:
            raise NoPatchError(f"{method} has {keyword}={written}")
        return _with_edits(code, [_in_place_of(code, given, value)])
    if old:
        raise NoPatchError(f"{method} has no {keyword}={old}")
    if any(one.arg is None for one in call.keywords):
        raise NoPatchError(f"{method} takes arguments from a dict")
    return _with_edits(code, [_added(code, call, f"{keyword}={value}")])


def without_metric(text: str, name: str) -> str:
    """Leave a metric out of the list of `compile`."""
    code = _parsed(text)
    lists = [_keyword(call, "metrics") for call in _calls(code) if _is_keras(call, COMPILE)]
    given = _only([one for one in lists if isinstance(one, ast.List)], "lists of metrics")
    kept = [one for one in given.elts if name not in _names_of_metric(one)]
    if len(kept) != len(given.elts) - 1:
        raise NoPatchError(f"compile has no single metric {name} in its list")
    new = f"[{', '.join(map(code.code_of, kept))}]"
    return _with_edits(code, [_in_place_of(code, given, new)])


def set_policy(text: str, policy: str) -> str:
    """Set Keras' global dtype policy after the imports at the top."""
    code = _parsed(text)
    if any(_method(call) in _POLICY for call in _calls(code)):
        raise NoPatchError("the script sets a policy of its own")
    imports = [one for one in code.tree.body if isinstance(one, ast.Import | ast.ImportFrom)]
    name = next(filter(None, map(_name_of_keras, imports)), "")
    if not name:
        raise NoPatchError("the script does not import keras at its top")
    end = text.find("\n", code.end_of(imports[-1]))
    line = f'\n{name}.config.set_dtype_policy("{policy}")'
    return _with_edits(code, [(end, end, line)])


def batch_before_maps(text: str) -> str:
    """Move the only `batch` with maps before it in front of them: each map gets whole batches."""
    return _moved(text, "batch", "map")


def take_before_cache(text: str) -> str:
    """Move the only `take` after a cache in front of it."""
    return _moved(text, "take", "cache")


def rows_in_batches(text: str) -> str:
    """Have the only generator of rows before a `batch` yield batches of as many rows: a function
    before its line makes them."""
    code = _parsed(text)
    pairs = [pair for calls in _pipelines(code.tree) for pair in pairwise(calls)]
    rows, batch = _only(
        [one for one in pairs if [*map(_method, one)] == ["from_generator", "batch"]],
        "calls of batch right after from_generator",
    )
    signature = _keyword(rows, "output_signature")
    if len(rows.args) != 1 or len(rows.keywords) != 1 or signature is None:
        raise NoPatchError("from_generator has other arguments than a function and a signature")
    if len(batch.args) != 1 or batch.keywords:
        raise NoPatchError("batch has other arguments than its size")
    size, owner = code.code_of(batch.args[0]), code.code_of(rows.func).rpartition(".data.")[0]
    if not owner or "rows_in_batches" in text:
        raise NoPatchError("the script has no name for TensorFlow, or makes batches already")
    function = code.code_of(rows.args[0])
    edits = [
        _lines_before(code, rows, _ROWS_IN_BATCHES.format(tf=owner)),
        _in_place_of(code, rows.args[0], f"rows_in_batches({function}, {size})"),
        _in_place_of(code, signature, f"in_batches({code.code_of(signature)})"),
        (_end_of_owner(code, batch), code.end_of(batch), ""),
    ]
    return _with_edits(code, edits)


def more_calls(text: str, calls: str) -> str:
    """Have the maps of the only pipeline with maps make so many calls in parallel, in a pool of as
    many threads: more calls wait at the same time."""
    code = _parsed(text)
    name = next(filter(None, map(_name_of_tensorflow, code.tree.body)), "")
    chains = [one for one in _pipelines(code.tree) if "map" in map(_method, one)]
    chain = _only(chains, "pipelines with a map")
    if not name or "private_threadpool_size" in text:
        raise NoPatchError("the script has no name for TensorFlow, or a pool of threads already")
    edits = []
    for one in chain:
        given = _keyword(one, _CALLS)
        if _method(one) == "map" and given is not None:
            edits.append(_in_place_of(code, given, calls))
        elif _method(one) == "map":
            edits.append(_added(code, one, f"{_CALLS}={calls}"))
    end = code.end_of(chain[-1])
    edits.append((end, end, ".with_options(parallel_options)"))
    edits.append(_lines_before(code, chain[-1], _OPTIONS.format(tf=name, calls=calls)))
    return _with_edits(code, edits)


def any_order(text: str) -> str:
    """Have each parallel map pass on elements as they are ready."""
    code = _parsed(text)
    maps = [call for call in _calls(code) if _method(call) == "map"]
    parallel = [one for one in maps if _keyword(one, _CALLS) is not None]
    ordered = [one for one in parallel if _keyword(one, "deterministic") is None]
    if not ordered:
        raise NoPatchError("no map has num_parallel_calls and keeps the order")
    return _with_edits(code, [_added(code, call, "deterministic=False") for call in ordered])


def larger_batches(text: str) -> str:
    """Double the only number of a batch size, or that of the constant which holds it."""
    code = _parsed(text)
    names, sizes = {}, {}
    for node in code.tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            names[node.targets[0].id] = node.value
    for call in _calls(code):
        given = _keyword(call, "batch_size")
        if given is None and _method(call) in ("batch", "padded_batch") and call.args:
            given = call.args[0]
        given = names.get(given.id) if isinstance(given, ast.Name) else given
        if isinstance(given, ast.Constant) and type(given.value) is int:
            sizes[code.start_of(given)] = given
    size = _only(list(sizes.values()), "numbers of a batch size")
    return _with_edits(code, [_in_place_of(code, size, str(2 * int(ast.literal_eval(size))))])


# -- stages of a pipeline --------------------------------------------------------------------------


def _moved(text: str, method: str, over: str) -> str:
    """Move a call of a stage over the calls of another one right before it."""
    code = _parsed(text)
    found = []
    for calls in _pipelines(code.tree):
        names = [_method(one) for one in calls]
        for at in (n for n, name in enumerate(names) if name == method):
            first = at
            while first and names[first - 1] == over:
                first -= 1
            if first < at:
                found.append(calls[first : at + 1])
    calls = _only(found, f"calls of {method} right after {over}")
    new = [calls[-1], *calls[:-1]]
    places = [(_start_of_method(code, one), code.end_of(one)) for one in calls]
    texts = [text[_start_of_method(code, one) : code.end_of(one)] for one in new]
    return _with_edits(code, [(*place, moved) for place, moved in zip(places, texts, strict=True)])


def _pipelines(tree: ast.Module) -> list[list[ast.Call]]:
    """Return the calls of methods that follow each other, the first one first: in one expression,
    and in lines such as `data = data.batch(8)`."""
    chains = {id(chain[-1]): chain for chain in map(_chain, _method_calls(tree))}
    inner = {id(call) for chain in chains.values() for call in chain[:-1]}
    chains = {last: chain for last, chain in chains.items() if last not in inner}
    for body in _bodies(tree):
        for before, line in pairwise(body):
            value = getattr(line, "value", None)
            if id(value) in chains and _is_continued(before, line):
                first = getattr(before, "value", None)
                chains[id(value)][:0] = chains.pop(id(first), [])
    return list(chains.values())


def _is_continued(before: ast.stmt, line: ast.stmt) -> bool:
    """Return whether a line calls methods of the name that the line before it sets, and sets it
    again: no code but these calls reads the data set between them."""
    name = _target(line)
    is_same = bool(name) and name == _target(before) == _base(line)
    return is_same and all(_reads(one, name) == (_base(one) == name) for one in (before, line))


def _reads(line: ast.stmt, name: str) -> int:
    names = (one for one in ast.walk(line) if isinstance(one, ast.Name) and one.id == name)
    return sum(isinstance(one.ctx, ast.Load) for one in names)


def _chain(last: ast.Call) -> list[ast.Call]:
    calls: list[ast.Call] = []
    call: ast.expr = last
    while isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
        calls.append(call)
        call = call.func.value
    return calls[::-1]


def _base(line: ast.stmt) -> str:
    """Return the name of the data set that the chain of calls of a line begins with."""
    value = getattr(line, "value", None)
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        value = value.func.value
    return value.id if isinstance(value, ast.Name) else ""


def _target(line: ast.stmt) -> str:
    """Return the only name that a line sets."""
    names = line.targets if isinstance(line, ast.Assign) else []
    return names[0].id if len(names) == 1 and isinstance(names[0], ast.Name) else ""


def _bodies(tree: ast.Module) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list):
                yield body


def _method_calls(tree: ast.Module) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node


def _end_of_owner(code: SourceCode, call: ast.Call) -> int:
    """Return the place after what a method is called on."""
    assert isinstance(call.func, ast.Attribute)
    return code.end_of(call.func.value)


def _statement(tree: ast.Module, node: ast.AST) -> ast.stmt:
    """Return the innermost statement that contains a node."""
    holders = [
        line
        for body in _bodies(tree)
        for line in body
        if any(one is node for one in ast.walk(line))
    ]
    return holders[-1]


def _lines_before(code: SourceCode, node: ast.AST, lines: str) -> Edit:
    """Return the addition of lines before the statement that contains a node."""
    statement = _statement(code.tree, node)
    begin = code.start_of(next(iter(getattr(statement, "decorator_list", ())), statement))
    line = code.text.rfind("\n", 0, begin) + 1
    indent = code.text[line:begin]
    if indent.strip():
        raise NoPatchError(f"another statement begins its line: {indent.strip()}")
    return line, line, textwrap.indent(lines, indent)


def _start_of_method(code: SourceCode, call: ast.Call) -> int:
    return code.end_of(call.func) - len(_method(call))


# -- calls -----------------------------------------------------------------------------------------


def _parsed(text: str) -> SourceCode:
    try:
        return SourceCode.of(text)
    except (SyntaxError, ValueError) as error:
        raise NoPatchError(f"the script cannot be parsed: {error}") from error


def _calls(code: SourceCode) -> list[ast.Call]:
    return list(_method_calls(code.tree))


def _method(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _is_keras(call: ast.Call, method: str) -> bool:
    """Return whether a call is that of a model: `compile`, or a `fit` that validates."""
    if _method(call) != method or not isinstance(call.func, ast.Attribute):
        return False
    owner = call.func.value
    is_other = isinstance(owner, ast.Name) and owner.id in _OTHERS
    is_parent = isinstance(owner, ast.Call) and ast.unparse(owner.func) == "super"
    validates = any(_keyword(call, name) is not None for name in _VALIDATES)
    return not is_other and not is_parent and (method != FIT or validates)


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((one.value for one in call.keywords if one.arg == name), None)


def _names_of_metric(node: ast.expr) -> set[str]:
    """Return the names that a metric may have: its text, its `name`, or that of its class."""
    if isinstance(node, ast.Constant):
        return {str(node.value)}
    given = _keyword(node, "name") if isinstance(node, ast.Call) else None
    if isinstance(given, ast.Constant):
        return {str(given.value)}
    last = ast.unparse(node.func if isinstance(node, ast.Call) else node).rpartition(".")[2]
    return {last, last.lower()}


def _name_of_keras(node: ast.Import | ast.ImportFrom) -> str:
    """Return the name that an import gives Keras; empty where it is another one."""
    for one in node.names:
        if isinstance(node, ast.Import) and one.name == "keras":
            return one.asname or one.name
        if isinstance(node, ast.Import) and one.name == "tensorflow":
            return f"{one.asname or one.name}.keras"
        if isinstance(node, ast.ImportFrom) and (node.module, one.name) == ("tensorflow", "keras"):
            return one.asname or one.name
    return ""


def _name_of_tensorflow(node: ast.stmt) -> str:
    names = node.names if isinstance(node, ast.Import) else []
    return next((one.asname or one.name for one in names if one.name == "tensorflow"), "")


# -- text ------------------------------------------------------------------------------------------


def _only(found: Sequence[_T], what: str) -> _T:
    if len(found) != 1:
        raise NoPatchError(f"the script has {len(found) or 'no'} {what}")
    return found[0]


def _added(code: SourceCode, call: ast.Call, argument: str) -> Edit:
    """Return the addition of an argument at the end of a call.

    Where a comma ends the last line of arguments, the new one has a line of its own below it.
    """
    last, end = code.last_token(call)
    if last == "(":
        return end, end, argument
    if last != ",":
        return end, end, f", {argument}"
    line_end = code.text.find("\n", end)
    if not end <= line_end < code.end_of(call):
        return end - 1, end - 1, f", {argument}"
    line = code.text[code.text.rfind("\n", 0, end) + 1 : line_end]
    indent = line[: len(line) - len(line.lstrip())]
    return line_end, line_end, f"\n{indent}{argument},"


def _in_place_of(code: SourceCode, node: ast.AST, new: str) -> Edit:
    return code.start_of(node), code.end_of(node), new


def _with_edits(code: SourceCode, edits: Iterable[Edit]) -> str:
    text = code.text
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    try:
        ast.parse(text)
    except SyntaxError as error:
        raise NoPatchError(f"the changed script is no Python: {error}") from error
    return text
