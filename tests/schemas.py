"""The JSON Schemas of docs/, and a check of printed objects against them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

DOCS = Path(__file__).parents[1] / "docs"


def schema(name: str) -> dict[str, Any]:
    """The schema of this name."""
    found: dict[str, Any] = json.loads((DOCS / f"{name}.schema.json").read_text(encoding="utf-8"))
    return found


def errors(name: str, document: Any) -> list[str]:
    """Return the places where a document breaks its schema, as `path: message`; the document as a program reads it."""
    read = json.loads(json.dumps(document, allow_nan=False))
    found = Draft202012Validator(schema(name)).iter_errors(read)
    return [f"{error.json_path}: {error.message}" for error in found]
