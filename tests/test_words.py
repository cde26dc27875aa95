"""The program's names and texts keep to the words of the field: none of these words is left in
tfwatch/."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

import tfwatch

PACKAGE = Path(tfwatch.__file__).parent
#: Parts of names, split at underscores and capitals, in lower case.
NAMES = frozenset(
    [
        *("told", "tell", "tells", "telling", "untold"),
        *("foretold", "foretell", "foretells", "foretelling", "foreteller"),
        *("reckon", "reckoned", "reckoning", "outlook"),
        *("promise", "promised", "promises", "promising"),
        *("flight", "flights", "flown", "flying"),
        *("jot", "jots", "jotted", "heard", "grounds", "anew", "underway", "ledger"),
        *("happened", "happening", "happenings"),
    ]
)
#: In strings, docstrings and comments.
TEXTS = re.compile(
    r"\b(told|tells?|telling|untold|foretold|foretell\w*|reckon\w*|outlook|anew|jot|jots|jotted|heard|flights|flown"
    r"|happenings?|ledger|ended without a word|no answer for|none is made ahead|burns cpu|made"
    r" images|ms a step"
    r"|steps a call|at once [0-9]|in the median of|is the range meant to hold|nothing accounts"
    r" for|weights anew"
    r"|images?/s|img/s|per image|hold-ups?|left at [0-9a-z]+;|under its lock|between steps,"
    r" launching)\b",
    re.IGNORECASE,
)
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def _is_plain(name: str) -> bool:
    return NAMES.isdisjoint(part.lower() for part in _PARTS.findall(name))


def _names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The names that a module defines, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr


def _texts(source: str) -> Iterator[tuple[int, str]]:
    """The lines of strings, docstrings and comments."""
    kinds = {
        tokenize.STRING,
        tokenize.COMMENT,
        getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING),
    }
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in kinds:
            yield from enumerate(token.string.split("\n"), token.start[0])


def find_words(source: str) -> list[tuple[int, str]]:
    """The names and texts of a module that use other words than those of the field, with their
    lines."""
    names = [(line, name) for line, name in _names(ast.parse(source)) if not _is_plain(name)]
    return names + [
        (line, found[0]) for line, text in _texts(source) if (found := TEXTS.search(text))
    ]


#: A docstring is a noun or begins with a verb.
_QUESTIONS = re.compile(r"(What|How|Which|Who|Whose|Whether|Why|Where|When|If)\b")


def find_questions(source: str) -> list[str]:
    """The docstrings of a module that begin with a question's word."""
    kinds = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    texts = [
        ast.get_docstring(node) or ""
        for node in ast.walk(ast.parse(source))
        if isinstance(node, kinds)
    ]
    return [text.split("\n")[0] for text in texts if _QUESTIONS.match(text)]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        pytest.param("def is_told() -> bool: ...", [(1, "is_told")], id="a function's name"),
        pytest.param("x = 1\n# the median is told", [(2, "told")], id="a comment"),
        pytest.param('"""One.\n\nIt burns CPU.\n"""', [(3, "burns CPU")], id="a docstring"),
        pytest.param('f"{x} ms a step"', [(1, "ms a step")], id="a text"),
        pytest.param(
            "in_flight_ms = 'the detail of tellurium'", [(1, "in_flight_ms")], id="a part of a name"
        ),
        pytest.param("intelligence = stollen = 'the batch in flight'", [], id="no such word"),
    ],
)
def test_names_and_texts_are_found(source: str, found: list[tuple[int, str]]) -> None:
    assert find_words(source) == found
    assert find_questions('"""Which one."""\n') == ["Which one."]


def test_names_and_texts_use_the_words_of_the_field() -> None:
    paths = sorted(PACKAGE.rglob("*.py"))
    found = [
        f"{path.relative_to(PACKAGE.parent)}:{line}: {word}"
        for path in paths
        for line, word in find_words(path.read_text(encoding="utf-8"))
    ]

    assert len(paths) > 100
    assert found == []
    assert [
        question for path in paths for question in find_questions(path.read_text(encoding="utf-8"))
    ] == []
