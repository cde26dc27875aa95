"""A file of the user's own, as far as it can be judged without running it: what a workload needs is in it."""

from __future__ import annotations

import ast
import difflib
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tfwatch.workloads.workload import BadInputError, Entry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: The functions that a file may have, and what they are called with.
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "model": (),
    "dataset": ("knobs",),
    "source": (),
    "pipeline": ("source", "knobs"),
    "validation": (),
}
#: What can be asked of it before it starts; all else its own code says.
_SETTINGS = frozenset({"epochs", "steps", "seed", "device", "mode", "mixed_precision", "steps_per_execution"})
_COMPILED = "model() compiles with an optimizer of its own"
_LONGEST_NAME = 40


@dataclass(frozen=True, slots=True)
class UserFile:
    """A file that has what a workload needs.

    shown: its path as the user wrote it. name: what the run is called. lines: of its functions, by their names; those
    that it imports or assigns are not among them. live: it has `pipeline`, which can be built anew while it trains.
    has_forms: it asks `knobs.fast_form`.
    """

    shown: str
    path: Path
    name: str
    lines: Mapping[str, int]
    live: bool
    has_forms: bool

    def at(self, function: str) -> str:
        """Where a function stands: `my_file.py:12`."""
        line = self.lines.get(function)
        return self.shown if line is None else f"{self.shown}:{line}"

    def entry(self) -> Entry:
        """As the registry has the other workloads."""
        return Entry(
            "a file of your own",
            defaults={"epochs": 1},
            fast="fast form" if self.has_forms else "",
            only=_SETTINGS,
            why_not={
                "batch_size": f"{'source()' if self.live else 'dataset(knobs)'} makes the batches",
                "optimizer": _COMPILED,
                "learning_rate": _COMPILED,
                "data": "its own code reads the data",
            },
            is_built_once=not self.live,
            shuffles=False,
        )


def read(name: str) -> UserFile:
    """Look into a file.

    Raises:
        BadInputError: there is none, it is no Python, or lacks a function; the message names the line.
    """
    path = Path(name)
    tree = _parsed(name, _content(name, path))
    bound = dict(_bound(tree))
    if "*" not in bound:
        _check_names(name, bound.keys())
    for function, node in bound.items():
        if function in ARGUMENTS and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            _check_arguments(name, node)
    return UserFile(
        shown=name,
        path=path.resolve(),
        name=_title(tree, path),
        lines={function: node.lineno for function, node in bound.items() if isinstance(node, ast.FunctionDef)},
        live="pipeline" in bound,
        has_forms=any(isinstance(node, ast.Attribute) and node.attr == "fast_form" for node in ast.walk(tree)),
    )


def _content(name: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except IsADirectoryError:
        raise BadInputError(f"{name} is a folder: give a Python file") from None
    except FileNotFoundError:
        near = difflib.get_close_matches(path.name, _python_files(path.parent), n=1)
        hint = f": did you mean {path.parent / near[0]}?" if near else ""
        raise BadInputError(f"there is no file {name}{hint}") from None
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        raise BadInputError(f"{name!r} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _python_files(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.glob("*.py")]
    except OSError:
        return []


def _parsed(name: str, content: bytes) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd escapes, which importing it tells again
            tree = ast.parse(content, name)
            compile(tree, name, "exec")
    except SyntaxError as error:
        raise BadInputError(f"{name}:{error.lineno or 1}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise BadInputError(f"{name} is no Python that can be read: {error or type(error).__name__}") from None
    return tree


def _bound(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """The names that a module has once it is run, with what binds each; `*` where it imports all of another's."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield child.name, child
        elif isinstance(child, ast.alias):
            yield child.asname or child.name.partition(".")[0], child
        elif isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
            yield child.id, child
        elif not isinstance(child, ast.Lambda):
            yield from _bound(child)


def _check_names(name: str, bound: object) -> None:
    has = {function for function in ARGUMENTS if function in bound}  # type: ignore[operator]
    if "model" not in has:
        raise BadInputError(f"{name} has no function model()")
    if {"dataset", "pipeline"} <= has:
        raise BadInputError(f"{name} has both dataset(knobs) and pipeline(source, knobs): keep one")
    if "dataset" not in has and not {"source", "pipeline"} & has:
        raise BadInputError(f"{name} has no function dataset(knobs), nor source() and pipeline(source, knobs)")
    if "pipeline" in has and "source" not in has:
        raise BadInputError(f"{name} has pipeline(source, knobs) and no function source()")
    if "source" in has and "pipeline" not in has:
        raise BadInputError(f"{name} has source() and no function pipeline(source, knobs)")


def _check_arguments(name: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    wanted = ARGUMENTS[node.name]
    taken = node.args.posonlyargs + node.args.args
    least, most = len(taken) - len(node.args.defaults), len(taken)
    missing = [own for own, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if default is None]
    if least > len(wanted) or (most < len(wanted) and not node.args.vararg) or missing:
        raise BadInputError(f"{name}:{node.lineno}: {node.name} is called as {node.name}({', '.join(wanted)})")


def _title(tree: ast.Module, path: Path) -> str:
    """What `NAME = "..."` says, else the file's own name; fit for a folder's."""
    said = [
        node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        if any(isinstance(target, ast.Name) and target.id == "NAME" for target in node.targets)
    ]
    name = "".join(c if c.isalnum() or c in "-_." else "_" for c in (said or [path.stem])[-1])
    return name.strip(".")[:_LONGEST_NAME] or "own"
