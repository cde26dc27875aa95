"""The lines of a script that make its pipeline, and the changes that set its own
`num_parallel_calls`, `prefetch` and `cache`.

The call that made a stage is noted on its data set while the script builds it. It is found in the
source by its end, which Python keeps for each instruction from 3.11 on.
"""

from __future__ import annotations

import ast
import linecache
import os
import sys
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from tfwatch.core.knobs import CACHE, PREFETCH, WORKERS
from tfwatch.core.script_code import VALUE, CodeEdit
from tfwatch.core.source_code import SourceCode, imported_name, keyword_of, method_of
from tfwatch.core.user_code import is_users
from tfwatch.tfdata.pipeline_tree import MAPS
from tfwatch.tfdata.stage_names import kind_of, nodes_of, spine_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, FrameType

    from tfwatch.core.source_code import Edit

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


def note_call(dataset: Any, method: str, frame: FrameType) -> None:
    """Note on a data set the call in this frame that made it; an earlier note stays."""
    if _NOTE not in vars(dataset):
        setattr(dataset, _NOTE, CallSite(method, frame.f_code, frame.f_lasti, frame.f_lineno))


def call_of(dataset: Any) -> CallSite | None:
    """Return the call that made a data set; None where none of the script's own code did."""
    return getattr(dataset, _NOTE, None)


# -- cells of a notebook ---------------------------------------------------------------------------


def is_cell(file: str) -> bool:
    """Return whether code of this file name is that of a cell."""
    return _number_of(file) is not None


def place_in_cell(file: str, line: int, text: str) -> tuple[str, int] | None:
    """Return the prompt of a cell and the line in it, from a line of its compiled source; None
    where it is not found.

    IPython compiles a cell without its empty first lines and without the line of a cell magic, and
    gives what such a magic runs the number of the next cell.
    """
    number = _number_of(file)
    for ran in () if number is None else (number, number - 1):
        for at, written in enumerate(_written(ran), 1):
            if at >= line and written.rstrip() == text.rstrip():
                return f"In [{ran}]", at
    return None


def place_of(file: str, line: int) -> str:
    """Return a line of code as its user names it: `train.py:22`, in a notebook `In [3], line 4`."""
    # Only the source of a cell is in memory: the disk of a file may hang.
    if is_cell(file) and (place := place_in_cell(file, line, linecache.getline(file, line))):
        return f"{place[0]}, line {place[1]}"
    return f"{os.path.basename(file)}:{line}"


def _number_of(file: str) -> int | None:
    """Return the number of a cell's last run."""
    return getattr(getattr(_shell(), "compile", None), "_filename_map", {}).get(file)


def _written(number: int) -> list[str]:
    """Return the lines of a cell as the user wrote them."""
    cells = _shell().history_manager.input_hist_raw
    return cells[number].splitlines() if 0 < number < len(cells) else []


def _shell() -> Any:
    """Return the shell of this process; None where there is none."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


# -- changes ---------------------------------------------------------------------------------------

_TENSORFLOW = "tensorflow"
#: The name of `tf.data.AUTOTUNE` in TensorFlow.
AUTOTUNE = "data.AUTOTUNE"
#: The value of `tf.data.AUTOTUNE`, for a script that has no name for it.
_AUTOTUNE_VALUE = "-1"
_CALLS = "num_parallel_calls"
#: The call that a knob appends to another.
_APPENDED = {PREFETCH: f".prefetch({VALUE})", CACHE: ".cache()"}
#: The argument of a call that holds the knob's value: its keyword, and its position.
_ARGUMENTS = {"map": (_CALLS, 1), PREFETCH: ("buffer_size", 0)}


def find_edits(
    dataset: Any, stages: Sequence[Any], cached: Any | None = None
) -> tuple[CodeEdit, ...]:
    """Return the changes of the script's lines for `workers`, of these stages, for `prefetch`, and
    for `cache`.

    `workers` has none unless each of these maps is made by a call that makes no map with another
    setting. `prefetch` has none unless the call at the end makes the last stage alone.
    cached: the stage that a cache follows; None where no single line adds one.
    """
    set_here = {id(node) for node in stages}
    maps = (node for node in nodes_of(dataset) if kind_of(node) in MAPS)
    others = {call_of(node) for node in maps if id(node) not in set_here}
    made = dict.fromkeys(call_of(node) for node in stages)
    workers = [None if call in others else _edit(WORKERS, call) for call in made]
    last = next((node for node in spine_of(dataset) if kind_of(node) != "Options"), dataset)
    ahead = _edit_after(PREFETCH, last, dataset)
    kept = _edit_after(CACHE, cached, dataset) if cached is not None else None
    known = [edit for edit in workers if edit]
    return (
        *(known if len(known) == len(workers) else ()),
        *(edit for edit in (ahead, kept) if edit),
    )


def _edit_after(knob: str, stage: Any, dataset: Any) -> CodeEdit | None:
    """Return the change of the call that makes a stage; None where it makes others too."""
    site = call_of(stage)
    is_shared = any(call_of(node) == site for node in nodes_of(dataset) if node is not stage)
    return None if is_shared else _edit(knob, site)


def _edit(knob: str, site: CallSite | None) -> CodeEdit | None:
    code = _source_of(site.file) if site else None
    call = find_call(code.tree, site) if code and site else None
    if code is None or call is None or site is None:
        return None
    if knob in _APPENDED and knob != site.method:
        end = code.end_of(call)
        change: Edit | None = (end, end, _APPENDED[knob])
    else:
        change = _argument(code, call, site.method)
    return _named(knob, site.file, code, change) if change else None


def _source_of(file: str) -> SourceCode | None:
    """Read a file, or a cell of a notebook; None where it cannot be read."""
    linecache.checkcache(file)
    text = "".join(linecache.getlines(file))
    try:
        return SourceCode.of(text) if text else None
    except (SyntaxError, ValueError):
        return None


def _argument(code: SourceCode, call: ast.Call, method: str) -> Edit | None:
    """Return the change of the argument that holds the knob's value, or its addition."""
    if method not in _ARGUMENTS:
        return None
    keyword, position = _ARGUMENTS[method]
    given = keyword_of(call, keyword)
    if given is None and len(call.args) > position:
        given = call.args[position]
    if given is not None:
        return code.in_place_of(given, VALUE)
    unpacked = any(isinstance(one, ast.Starred) for one in call.args) or any(
        not one.arg for one in call.keywords
    )
    return None if unpacked else code.added(call, f"{keyword}={VALUE}")


def _named(knob: str, file: str, code: SourceCode, change: Edit) -> CodeEdit:
    """Return a change of characters as that of their lines, with its place as the user names it: a
    file relative to the working folder if it is below it; one without lines `cell`."""
    (start, end, new), text = change, code.text
    begin = text.rfind("\n", 0, start) + 1
    lines = text[begin:end] + text[end:].partition("\n")[0]
    line = text.count("\n", 0, begin) + 1
    place = place_in_cell(file, line, lines.partition("\n")[0])
    if place is not None:
        name, line = place
    elif not os.path.isfile(file):
        name = "cell"
    else:
        relative = os.path.relpath(file)
        name = os.path.abspath(file) if relative.startswith(os.pardir) else relative
    where, auto = (start - begin, end - begin, new), _autotune(code.tree, file)
    return CodeEdit(knob, name, line, lines, *where, auto, is_cell=place is not None)


def find_call(tree: ast.AST, site: CallSite) -> ast.Call | None:
    """Return the call at a site; None where the source has no such call, or several."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    named = [call for call in calls if method_of(call) == site.method]
    found = [call for call in named if (call.end_lineno, call.end_col_offset) == site.end]
    return found[0] if len(found) == 1 else None


def find_fit_call(frame: FrameType | None) -> CallSite | None:
    """Return the user's call of `fit` that these frames run; None without one."""
    while frame is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return None
    return CallSite("fit", frame.f_code, frame.f_lasti, frame.f_lineno)


@lru_cache(maxsize=8)
def names_in_fit(site: CallSite) -> dict[str, str]:
    """Return the names of the `model` and the `dataset` in a call of `fit`, e.g. `self.model` and
    `train`; none where they are no names.

    Its file is read once: a loop may call `fit` thousands of times.
    """
    code = _source_of(site.file)
    call = find_call(code.tree, site) if code else None
    if call is None:
        return {}
    data = keyword_of(call, "x") or next(iter(call.args), None)
    found = {"model": getattr(call.func, "value", None), "dataset": data}
    return {word: name for word, node in found.items() if (name := _name_in(node))}


def _name_in(node: ast.AST | None) -> str:
    """Return a name, or one with attributes; empty where it is neither."""
    if isinstance(node, ast.Attribute):
        before = _name_in(node.value)
        return f"{before}.{node.attr}" if before else ""
    return node.id if isinstance(node, ast.Name) else ""


def _autotune(tree: ast.AST, file: str) -> str:
    """Return the name that a script has for `tf.data.AUTOTUNE`, or its value; in a notebook any
    cell may have imported TensorFlow."""
    imported = imported_name(ast.walk(tree), _TENSORFLOW)
    module = sys.modules.get(_TENSORFLOW)
    if not imported and module and is_cell(file):
        names = list(getattr(_shell(), "user_ns", {}).items())
        imported = min((name for name, value in names if value is module), key=len, default="")
    return f"{imported}.{AUTOTUNE}" if imported else _AUTOTUNE_VALUE
