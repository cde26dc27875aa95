"""The user's own file as a workload, checked without running it."""

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

#: The functions that a file may have, and their arguments.
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "model": (),
    "dataset": ("knobs",),
    "source": (),
    "pipeline": ("source", "knobs"),
    "validation": (),
}
#: The settings that a file takes; its own code decides the others.
_SETTINGS = frozenset({"epochs", "steps", "seed", "device", "mode", "mixed_precision", "steps_per_execution"})
_COMPILED = "model() compiles with its own optimizer"
_LONGEST_NAME = 40


@dataclass(frozen=True, slots=True)
class UserFile:
    """A file with the functions of a workload.

    shown: its path as the user wrote it. name: the name of its runs. lines: the line of each function that it defines;
    imported and assigned functions have none. has_pipeline: it has `pipeline`, which can be rebuilt while it trains.
    has_fast_pipeline: it uses `knobs.fast_pipeline`.
    """

    shown: str
    path: Path
    name: str
    lines: Mapping[str, int]
    has_pipeline: bool
    has_fast_pipeline: bool

    def at(self, function: str) -> str:
        """Return the place of a function, e.g. `my_file.py:12`."""
        line = self.lines.get(function)
        return self.shown if line is None else f"{self.shown}:{line}"

    def entry(self) -> Entry:
        """Return the file's entry among the workloads."""
        return Entry(
            "a file of your own",
            defaults={"epochs": 1},
            fast="fast pipeline" if self.has_fast_pipeline else "",
            only=_SETTINGS,
            why_not={
                "batch_size": f"{'source()' if self.has_pipeline else 'dataset(knobs)'} makes the batches",
                "optimizer": _COMPILED,
                "learning_rate": _COMPILED,
                "data": "its own code reads the data",
            },
            is_built_once=not self.has_pipeline,
            shuffles=False,
        )


def read(name: str) -> UserFile:
    """Parse and check a file.

    Raises:
        BadInputError: the file does not exist, is not Python, or lacks a function; the message names the line.
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
        has_pipeline="pipeline" in bound,
        has_fast_pipeline=any(
            isinstance(node, ast.Attribute) and node.attr == "fast_pipeline" for node in ast.walk(tree)
        ),
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
            warnings.simplefilter("ignore")  # of invalid escapes, which the import repeats
            tree = ast.parse(content, name)
            compile(tree, name, "exec")
    except SyntaxError as error:
        raise BadInputError(f"{name}:{error.lineno or 1}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise BadInputError(f"{name} is not readable as Python: {error or type(error).__name__}") from None
    return tree


def _bound(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield the names that a module binds, each with its node; `*` for an import of all names."""
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
    """Return the value of `NAME = "..."`, else the file's name, as a valid folder name."""
    titles = [
        node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        if any(isinstance(target, ast.Name) and target.id == "NAME" for target in node.targets)
    ]
    name = "".join(c if c.isalnum() or c in "-_." else "_" for c in (titles or [path.stem])[-1])
    return name.strip(".")[:_LONGEST_NAME] or "own"
