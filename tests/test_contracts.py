"""What pages for contributors and docstrings point at exists: each path, module, function and
test."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted(path for room in ("tfwatch", "tests") for path in (ROOT / room).rglob("*.py"))
PAGES = ("CONTRIBUTING.md",)
#: Folders that a path may begin in: rooms within a room are named by themselves.
_HOMES = (
    ROOT,
    ROOT / "tests",
    *sorted({path.parent for path in SOURCES if "tfwatch" in str(path)}),
)
_ROOMS = {path.name for path in (ROOT / "tfwatch").iterdir() if (path / "__init__.py").exists()}
_PACKAGES = {*_ROOMS, "tests", "tfwatch"}
_PATH = re.compile(r"(?<![\w./~<-])((?:\w+/)*\w+\.(?:py|md|tsv|toml)|(?:\w+/)+)(?![\w*/])")
_DOTTED = re.compile(r"`((?:\w+\.)+\w+)(?:\(\))?`")
#: `name` of `path`, `one` and `two` of `path`, `name` (`path`).
_NAMED = re.compile(r"((?:`\w+`(?:, | and )?)+)\s(?:of|in)?\s*\(?`([\w/]+\.py)`")
_IDENTIFIER = re.compile(r"`(_?[A-Za-z]+(?:_\w+|[A-Z]\w+))`")


@cache
def names_of(path: Path) -> frozenset[str]:
    """Return what a module defines or imports: functions, classes, variables, fields."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
        elif isinstance(node, ast.ImportFrom) and path.name == "__init__.py":
            found.update(alias.asname or alias.name for alias in node.names)
    return frozenset(found)


def find(path: str, beside: Path) -> Path | None:
    """Return the file or folder that a text beside a file names; None where there is none."""
    homes = (beside.parent, *_HOMES)
    return next((home / path for home in homes if (home / path).exists()), None)


def is_there(dotted: str) -> bool:
    """Return True for a module, or a name that its module defines, e.g. `core.rows.STEP`."""
    first, *rest = dotted.split(".")
    place = ROOT / first if first in ("tfwatch", "tests") else ROOT / "tfwatch" / first
    for index, part in enumerate(rest):
        if place.with_suffix(".py").is_file():
            return part in names_of(place.with_suffix(".py"))
        if not (place / part).exists() and not (place / f"{part}.py").exists():
            return index == len(rest) - 1 and part in names_of(place / "__init__.py")
        place /= part
    return True


def faults(text: str, beside: Path) -> list[str]:
    """Return what a text points at and is not there. beside: the file of the text."""
    rooms = {home.name for home in _HOMES} | _ROOMS
    paths = (path for path in _PATH.findall(text) if path.partition("/")[0] in rooms)
    dotted = (name for name in _DOTTED.findall(text) if name.partition(".")[0] in _PACKAGES)
    return [
        *(path for path in paths if "/" in path and find(path, beside) is None),
        *(name for name in dotted if not name.endswith((".py", ".md")) and not is_there(name)),
        *_missing_names(text, beside),
    ]


def _missing_names(text: str, beside: Path) -> Iterator[str]:
    for names, path in _NAMED.findall(text):
        module = find(path, beside)
        for name in re.findall(r"`(\w+)`", names):
            if module and name not in names_of(module):
                yield f"{name} of {path}"


def docstrings(path: Path) -> Iterator[str]:
    """Yield the docstrings of a module, its classes and functions."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


@pytest.mark.parametrize("page", PAGES)
def test_a_page_for_contributors_points_at_what_exists(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")

    assert faults(text, ROOT / page) == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_for_contributors_uses_the_names_of_the_source(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    used = {name for path in SOURCES for name in re.findall(r"\w+", path.read_text("utf-8"))}

    assert [name for name in _IDENTIFIER.findall(text) if name not in used] == []


def test_docstrings_point_at_what_exists() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {fault}"
        for path in SOURCES
        for text in docstrings(path)
        for fault in faults(text, path)
    ]

    assert len(SOURCES) > 300
    assert found == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param("`core/rows.py`, screens/live/, `core.rows.STEP`", None, id="what is there"),
        pytest.param("see `core/nothing.py`", "core/nothing.py", id="a file"),
        pytest.param("see core/nowhere/", "core/nowhere/", id="a folder"),
        pytest.param("`core.rows.NOTHING`", "core.rows.NOTHING", id="a name of a module"),
        pytest.param("`tests.bench.nothing`", "tests.bench.nothing", id="a module"),
        pytest.param(
            "`nobody` of `core/rows.py`", "nobody of core/rows.py", id="a function of a file"
        ),
        pytest.param(
            "under `nobody` (`core/rows.py`)", "nobody of core/rows.py", id="a name with its file"
        ),
    ],
)
def test_what_is_not_there_is_found(text: str, fault: str | None) -> None:
    assert faults(text, ROOT / "CONTRIBUTING.md") == ([fault] if fault else [])
