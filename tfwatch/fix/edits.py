"""Changes of the source of a script: the rest of it stays, as do comments and line breaks.

Each returns the changed source. Raises `NoPatchError` where the source has no single place for it,
or the result is no Python.
"""

from __future__ import annotations

import ast
import re
import textwrap
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from tfwatch.core.source_code import (
    SourceCode,
    imported_name,
    keyword_of,
    method_of,
    with_edits,
)
from tfwatch.fix.user_file import NoPatchError, check_python

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tfwatch.core.source_code import Edit

_T = TypeVar("_T")
COMPILE, FIT = "compile", "fit"
#: Modules and builtins whose `compile` is another one.
_OTHERS = frozenset({"re", "regex", "builtins", "tf", "jax"})
#: Only a `fit` with one of these validates.
_VALIDATES = ("validation_data", "validation_split")
#: Values that set nothing, in place of which another one is written.
_UNSET = frozenset({"None", "False", "'auto'", "1"})
_POLICY = ("set_dtype_policy", "set_global_policy")

#: Arguments of a recurrent layer without which it computes the same, by their values then.
_NO_CUDNN = (("unroll", "True", "False"), ("use_cudnn", "False", '"auto"'))
_IN_MAP = (
    ".map(lambda x, y: ({augment}(x, training=True), y), num_parallel_calls={tf}.data.AUTOTUNE)"
    ".prefetch({tf}.data.AUTOTUNE)"
)
#: Keras' metrics that compare each prediction with many thresholds, and those that may.
_OVER_THRESHOLDS = frozenset(
    {
        "AUC",
        "PrecisionAtRecall",
        "RecallAtPrecision",
        "SensitivityAtSpecificity",
        "SpecificityAtSensitivity",
    }
)
_AT_GIVEN = frozenset({"Precision", "Recall"})
_METRICS = ("metrics", "weighted_metrics")
#: Methods of a model that return its metrics in the order of `compile`.
_RETURN_METRICS = frozenset({"evaluate", "test_on_batch", "train_on_batch"})
#: What follows an element of a list or an argument: its comma, and the end of its line.
_COMMA, _LINE_END = re.compile(r"\s*,([ \t]*(?=[^\s#]))?"), re.compile(r"[ \t]*(#.*)?\n")
_CALLS, _MANY = "num_parallel_calls", "16"
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
    given = keyword_of(call, keyword)
    if given is not None:
        written = ast.unparse(given)
        if written != old if old else written not in _UNSET:
            raise NoPatchError(f"{method} has {keyword}={written}")
        return _with_edits(code, [code.in_place_of(given, value)])
    if old:
        raise NoPatchError(f"{method} has no {keyword}={old}")
    if any(one.arg is None for one in call.keywords):
        raise NoPatchError(f"{method} takes arguments from a dict")
    return _with_edits(code, [code.added(call, f"{keyword}={value}")])


def full_precision(text: str) -> str:
    """Set the only policy of the script to float32, in place of mixed_float16."""
    code = _parsed(text)
    call = _only([one for one in _calls(code) if method_of(one) in _POLICY], "dtype policies")
    if len(call.args) != 1 or ast.unparse(call.args[0]) != "'mixed_float16'":
        raise NoPatchError("its policy is not mixed_float16")
    return _with_edits(code, [code.in_place_of(call.args[0], '"float32"')])


def set_policy(text: str) -> str:
    """Set Keras' global dtype policy after the imports at the top: layers compute in bfloat16."""
    code = _parsed(text)
    if any(method_of(call) in _POLICY for call in _calls(code)):
        raise NoPatchError("the script sets a policy of its own")
    imports = [one for one in code.tree.body if isinstance(one, ast.Import | ast.ImportFrom)]
    name = imported_name(imports, "keras") or imported_name(imports, "tensorflow.keras")
    if not name and (tensorflow := imported_name(imports, "tensorflow")):
        name = f"{tensorflow}.keras"
    if not name:
        raise NoPatchError("the script does not import keras at its top")
    end = text.find("\n", code.end_of(imports[-1]))
    line = f'\n{name}.config.set_dtype_policy("mixed_bfloat16")'
    return _with_edits(code, [(end, end, line)])


def with_cudnn(text: str) -> str:
    """Leave out what keeps cuDNN from recurrent layers that it computes alike."""
    code = _parsed(text)
    calls = [one for one in ast.walk(code.tree) if isinstance(one, ast.Call)]
    given = [(keyword_of(one, name), old, new) for one in calls for name, old, new in _NO_CUDNN]
    edits = [code.in_place_of(one, new) for one, old, new in given if one and _is(one, old)]
    if not edits:
        raise NoPatchError("no layer has unroll=True or use_cudnn=False")
    return _with_edits(code, edits)


def augment_in_map(text: str) -> str:
    """Move the random layers of the only list of layers that has some into a map of the data of the
    only `fit`; all others see the data as it is without training."""
    code = _parsed(text)
    lists = [one for one in _calls(code) if method_of(one) == "Sequential" and _augments(one)]
    made = _only(lists, "models that begin with random layers")
    fit = _only(
        [one for one in _calls(code) if method_of(one) == "fit" and one.args], "calls of fit"
    )
    tensorflow = imported_name(code.tree.body, "tensorflow")
    if not tensorflow or not isinstance(fit.args[0], ast.Name | ast.Call):
        raise NoPatchError("the script has no name for TensorFlow, or for the data of fit")
    moved, rest = _parts_of(made)
    edits, augment = [], "augment"
    if rest:
        begin, end = code.start_of(moved[0]), code.start_of(rest[0])
        layers = code.text[begin:end].rstrip().rstrip(",")
        lines = f"{augment} = {code.code_of(made.func)}([\n    {layers}\n])\n"
        edits += [_lines_before(code, fit, lines), (begin, end, "")]
    else:
        augment = _target(_statement(code.tree, made))
        calls = [one for one in ast.walk(code.tree) if isinstance(one, ast.Call) and one.args]
        call = _only([one for one in calls if _is(one.func, augment)], f"calls of {augment}")
        edits.append(code.in_place_of(call, code.code_of(call.args[0])))
    end = code.end_of(fit.args[0])
    edits.append((end, end, _IN_MAP.format(augment=augment, tf=tensorflow)))
    return _with_edits(code, edits)


def _augments(call: ast.Call) -> bool:
    """Return whether a model has a list of layers that begins with random ones."""
    moved, rest = _parts_of(call)
    return bool(moved) and not any(map(_is_random, rest))


def _parts_of(model: ast.Call) -> tuple[list[ast.expr], list[ast.expr]]:
    """Return the random layers with which a list of layers begins, and those after them."""
    layers = model.args[0].elts if model.args and isinstance(model.args[0], ast.List) else []
    first = int(bool(layers) and method_of(layers[0]) == "Input")
    last = next((n for n in range(first, len(layers)) if not _is_random(layers[n])), len(layers))
    return layers[first:last], layers[last:]


def _is_random(layer: ast.expr) -> bool:
    """Return whether a layer changes images in training alone; a crop does so always."""
    return _class_of(layer).startswith("Random") and _class_of(layer) != "RandomCrop"


def move_before(text: str, method: str, others: str) -> str:
    """Move the only call of a stage after others in front of them."""
    code = _parsed(text)
    found = []
    for calls in _pipelines(code):
        names = [method_of(one) for one in calls]
        for at in (n for n, name in enumerate(names) if name == method):
            first = at
            while first and names[first - 1] == others:
                first -= 1
            if first < at:
                found.append(calls[first : at + 1])
    calls = _only(found, f"calls of {method} right after {others}")
    new = [calls[-1], *calls[:-1]]
    places = [(_start_of_method(code, one), code.end_of(one)) for one in calls]
    texts = [text[_start_of_method(code, one) : code.end_of(one)] for one in new]
    return _with_edits(code, [(*place, moved) for place, moved in zip(places, texts, strict=True)])


def rows_in_batches(text: str) -> str:
    """Have the only generator of rows before a `batch` yield batches of as many rows: a function
    before its line makes them."""
    code = _parsed(text)
    pairs = [pair for calls in _pipelines(code) for pair in pairwise(calls)]
    rows, batch = _only(
        [one for one in pairs if [*map(method_of, one)] == ["from_generator", "batch"]],
        "calls of batch right after from_generator",
    )
    signature = keyword_of(rows, "output_signature")
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
        code.in_place_of(rows.args[0], f"rows_in_batches({function}, {size})"),
        code.in_place_of(signature, f"in_batches({code.code_of(signature)})"),
        (code.end_of(_owner(batch)), code.end_of(batch), ""),
    ]
    return _with_edits(code, edits)


def more_calls(text: str) -> str:
    """Have the maps of the only pipeline with maps make 16 calls in parallel, in a pool of as many
    threads: more calls wait at the same time."""
    code = _parsed(text)
    name = imported_name(code.tree.body, "tensorflow")
    chains = [one for one in _pipelines(code) if "map" in map(method_of, one)]
    chain = _only(chains, "pipelines with a map")
    if not name or "private_threadpool_size" in text:
        raise NoPatchError("the script has no name for TensorFlow, or a pool of threads already")
    edits = []
    for one in chain:
        given = keyword_of(one, _CALLS)
        if method_of(one) == "map" and given is not None:
            edits.append(code.in_place_of(given, _MANY))
        elif method_of(one) == "map":
            edits.append(code.added(one, f"{_CALLS}={_MANY}"))
    end = code.end_of(chain[-1])
    edits.append((end, end, ".with_options(parallel_options)"))
    edits.append(_lines_before(code, chain[-1], _OPTIONS.format(tf=name, calls=_MANY)))
    return _with_edits(code, edits)


def any_order(text: str) -> str:
    """Have each parallel map pass on elements as they are ready."""
    code = _parsed(text)
    maps = [call for call in _calls(code) if method_of(call) == "map"]
    parallel = [one for one in maps if keyword_of(one, _CALLS) is not None]
    ordered = [one for one in parallel if keyword_of(one, "deterministic") is None]
    if not ordered:
        raise NoPatchError("no map has num_parallel_calls and keeps the order")
    return _with_edits(code, [code.added(call, "deterministic=False") for call in ordered])


def larger_batches(text: str) -> str:
    """Double the only number of a batch size, or that of the constant which holds it."""
    code = _parsed(text)
    names, sizes = {}, {}
    for node in code.tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            names[node.targets[0].id] = node.value
    for call in _calls(code):
        given = keyword_of(call, "batch_size")
        if given is None and method_of(call) in ("batch", "padded_batch") and call.args:
            given = call.args[0]
        given = names.get(given.id) if isinstance(given, ast.Name) else given
        if isinstance(given, ast.Constant) and type(given.value) is int:
            sizes[code.start_of(given)] = given
    size = _only(list(sizes.values()), "numbers of a batch size")
    return _with_edits(code, [code.in_place_of(size, str(2 * int(ast.literal_eval(size))))])


def without_threshold_metrics(text: str) -> str:
    """Leave the metrics over thresholds out of the lists of the only `compile`, where nothing else
    in the script reads them."""
    code = _parsed(text)
    call = _only([node for node in _calls(code) if _is_keras(node, COMPILE)], "calls of compile")
    left_out: list[ast.keyword | ast.expr] = []
    for given in (one for one in call.keywords if one.arg in _METRICS):
        if not isinstance(given.value, ast.List):
            raise NoPatchError(f"compile has {ast.unparse(given)}, not a list in the call")
        found = [one for one in given.value.elts if _is_over_thresholds(one)]
        left_out += [given] if found and len(found) == len(given.value.elts) else found
    if not left_out:
        raise NoPatchError("compile has no list with a metric over thresholds, such as AUC()")
    _check_unread(code, left_out)
    for node in sorted(left_out, key=code.start_of, reverse=True):
        text = _without(text, code.start_of(node), code.end_of(node))
    check_python(text)
    return text


def _is_over_thresholds(metric: ast.AST) -> bool:
    kind = _class_of(metric)
    has_thresholds = isinstance(metric, ast.Call) and keyword_of(metric, "thresholds") is not None
    return kind in _OVER_THRESHOLDS or (kind in _AT_GIVEN and has_thresholds)


def _check_unread(code: SourceCode, left_out: Sequence[ast.AST]) -> None:
    """Check that nothing else in a script reads metrics: by their names, such as
    `monitor="val_auc"`, or by their place in what `evaluate` returns.

    Raises:
        NoPatchError: something does.
    """
    inside = [one for node in left_out for one in ast.walk(node)]
    names = "|".join(re.escape(_log_of(one)) for one in inside if _is_over_thresholds(one))
    log = rf"(\w+_)?({names})(_\d+)?"
    reads = re.compile(rf"^{log}$|{{{log}[:}}]")
    for node in ast.walk(code.tree):
        if not isinstance(node, ast.Constant) or node in inside:
            continue
        if isinstance(node.value, str) and reads.search(node.value):
            raise NoPatchError(f"line {node.lineno} reads the metric as {node.value!r}")
    unused = [one.value for one in ast.walk(code.tree) if isinstance(one, ast.Expr)]
    for call in _calls(code):
        is_list = method_of(call) in _RETURN_METRICS and keyword_of(call, "return_dict") is None
        if is_list and call not in unused:
            raise NoPatchError(f"line {call.lineno} uses the metrics that {method_of(call)} lists")


def _log_of(metric: ast.AST) -> str:
    """Return the name of a metric in the logs: its own, or that of its class."""
    name = keyword_of(metric, "name") if isinstance(metric, ast.Call) else None
    if isinstance(name, ast.Constant) and isinstance(name.value, str):
        return name.value
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", _class_of(metric)).lower()


def _without(text: str, begin: int, end: int) -> str:
    """Return a text without an element of a list or an argument, its comma, and its lines where
    they have nothing else."""
    comma = _COMMA.match(text, end)
    end = comma.end() if comma else end
    line, rest = text.rfind("\n", 0, begin) + 1, _LINE_END.match(text, end)
    if rest and not text[line:begin].strip():
        return text[:line] + text[rest.end() :]
    before = text[:begin].rstrip()
    if not comma and before.endswith(","):
        return before.removesuffix(",") + text[end:]
    return (text[:begin].rstrip(" \t") if rest else text[:begin]) + text[end:]


# -- stages of a pipeline --------------------------------------------------------------------------


def _pipelines(code: SourceCode) -> list[list[ast.Call]]:
    """Return the calls of methods that follow each other, the first one first: in one expression,
    and in lines such as `data = data.batch(8)`."""
    chains = {id(chain[-1]): chain for chain in map(_chain, _calls(code))}
    inner = {id(call) for chain in chains.values() for call in chain[:-1]}
    chains = {last: chain for last, chain in chains.items() if last not in inner}
    for body in _bodies(code.tree):
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


def _chain(last: ast.expr | None) -> list[ast.Call]:
    calls: list[ast.Call] = []
    while isinstance(last, ast.Call) and isinstance(last.func, ast.Attribute):
        calls.append(last)
        last = last.func.value
    return calls[::-1]


def _base(line: ast.stmt) -> str:
    """Return the name of the data set that the chain of calls of a line begins with."""
    chain = _chain(getattr(line, "value", None))
    first = _owner(chain[0]) if chain else None
    return first.id if isinstance(first, ast.Name) else ""


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


def _owner(call: ast.Call) -> ast.expr:
    """Return what a method is called on."""
    assert isinstance(call.func, ast.Attribute)
    return call.func.value


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
    return code.end_of(call.func) - len(method_of(call))


# -- calls -----------------------------------------------------------------------------------------


def _parsed(text: str) -> SourceCode:
    try:
        return SourceCode.of(text)
    except (SyntaxError, ValueError) as error:
        raise NoPatchError(f"the script cannot be parsed: {error}") from error


def _calls(code: SourceCode) -> list[ast.Call]:
    """Return the calls of methods."""
    return [one for one in ast.walk(code.tree) if isinstance(one, ast.Call) and method_of(one)]


def _is_keras(call: ast.Call, method: str) -> bool:
    """Return whether a call is that of a model: `compile`, or a `fit` that validates."""
    if method_of(call) != method or not isinstance(call.func, ast.Attribute):
        return False
    owner = call.func.value
    is_other = isinstance(owner, ast.Name) and owner.id in _OTHERS
    is_parent = isinstance(owner, ast.Call) and ast.unparse(owner.func) == "super"
    validates = any(keyword_of(call, name) is not None for name in _VALIDATES)
    return not is_other and not is_parent and (method != FIT or validates)


def _class_of(node: ast.AST) -> str:
    """Return the name of the class or function that a node calls; empty where it calls none."""
    return ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""


def _is(node: ast.expr, source: str) -> bool:
    return ast.unparse(node) == source


# -- text ------------------------------------------------------------------------------------------


def _only(found: Sequence[_T], what: str) -> _T:
    if len(found) != 1:
        raise NoPatchError(f"the script has {len(found) or 'no'} {what}")
    return found[0]


def _with_edits(code: SourceCode, edits: Iterable[Edit]) -> str:
    text = with_edits(code.text, edits)
    check_python(text)
    return text
