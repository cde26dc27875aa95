"""Every JSON key in the pages is one of the schemas, and every figure of a run is in the page about JSON."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.docs.pages import PAGES, ROOT
from tests.schemas import schema

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SCHEMAS = sorted(
    path.name.removesuffix(".schema.json") for path in (ROOT / "docs").glob("*.schema.json")
)
_CODE = re.compile(r"`([^`]+)`")
#: The tables of keys: their page, their section and the schema that they are of.
_TABLES = (
    ("json.md", "A run", "run"),
    ("json.md", "A check-up", "doctor"),
    ("comparing.md", "Explain", "explain"),
)
#: Values in backticks, which no schema lists.
_VALUES = {"null", "exact"}


@pytest.mark.parametrize(("page", "section", "name"), _TABLES)
def test_every_key_in_a_table_is_in_the_schema(page: str, section: str, name: str) -> None:
    whole = schema(name)
    first = {**_properties(whole), **_nested(whole, "findings")}
    known = _names(whole, whole) | _VALUES
    rows = list(_rows((ROOT / "docs" / page).read_text(encoding="utf-8"), section))
    wrong = [key for keys, _ in rows for key in keys if key not in first]
    wrong += [word for _, content in rows for word in _keys_of(content) if not _is_key(word, known)]

    assert rows
    assert wrong == []


def test_every_figure_of_a_run_is_in_the_page() -> None:
    keys = [
        key
        for row, _ in _rows((ROOT / "docs/json.md").read_text(encoding="utf-8"), "A run")
        for key in row
    ]

    assert sorted(keys) == sorted(_properties(schema("run")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_key_that_a_sentence_about_json_names_is_in_a_schema(page: Path) -> None:
    text = " ".join(page.read_text(encoding="utf-8").split())
    sentences = [sentence for sentence in re.split(r"(?<=[.;:|]) ", text) if "`--json`" in sentence]
    known = set().union(*(_names(schema(name), schema(name)) for name in _SCHEMAS))
    lists = [words for sentence in sentences for words in re.findall(r"\(([^()]+)\)", sentence)]
    named = [word for words in lists if _is_list_of_keys(words) for word in _keys_of(words)]

    assert [word for word in named if not _is_key(word, known)] == []


def test_keys_are_found_in_sentences() -> None:
    assert _is_list_of_keys("`machine.strategy_gpus`, `busiest_gpu`")
    assert _is_list_of_keys("`replicas` in `--json`")
    assert not _is_list_of_keys("its `fit`, as ever")


def test_every_schema_is_in_the_page_with_its_command() -> None:
    listed = re.findall(
        r"\]\((\w+)\.schema\.json\)", (ROOT / "docs/json.md").read_text(encoding="utf-8")
    )

    assert sorted(listed) == _SCHEMAS


def _rows(page: str, section: str) -> Iterator[tuple[list[str], str]]:
    """The keys and the content of each row of a section's table."""
    body = page.partition(f"## {section}\n")[2].partition("\n## ")[0]
    for line in body.splitlines():
        first, _, rest = line.strip("| ").partition(" | ")
        if line.startswith("| `"):
            yield _CODE.findall(first), rest.strip(" |")


def _keys_of(text: str) -> list[str]:
    """The words in backticks that may be keys, or values that a schema lists."""
    return [
        code
        for code in _CODE.findall(re.sub(r"\]\([^)]*\)", "", text))
        if re.fullmatch(r"[a-z][\w.-]*", code)
    ]


def _is_list_of_keys(text: str) -> bool:
    return re.fullmatch(r"`[a-z_.]+`(, `[a-z_.]+`)*( in `--json`)?", text) is not None


def _is_key(word: str, known: set[str]) -> bool:
    """Return True for a key, or for a path of keys such as `machine.strategy_gpus`."""
    return set(word.split(".")) <= known


def _properties(part: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = part.get("properties", {})
    return found


def _nested(whole: dict[str, Any], key: str) -> dict[str, Any]:
    """The keys of each object in a list of the schema."""
    return _properties(_properties(whole).get(key, {}).get("items", {}))


def _names(part: Any, whole: dict[str, Any], seen: frozenset[str] = frozenset()) -> set[str]:
    """The keys in a part of a schema, and the values that it lists."""
    if isinstance(part, list):
        return set().union(*(_names(each, whole, seen) for each in part))
    if not isinstance(part, dict):
        return set()
    reference = part.get("$ref", "").rpartition("/")[2]
    found = (
        _names(whole["$defs"][reference], whole, seen | {reference})
        if reference and reference not in seen
        else set()
    )
    found |= set(_properties(part)) | {
        value for value in part.get("enum", []) if isinstance(value, str)
    }
    return found.union(*(_names(each, whole, seen) for each in part.values()))
