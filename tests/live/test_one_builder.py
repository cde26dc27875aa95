"""A run is judged in one place: nothing outside `live` builds what a judgement is made from."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tfwatch

PACKAGE = Path(tfwatch.__file__).parent


def builders(name: str) -> set[str]:
    """The modules that call a class of this name."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
        if any(isinstance(call.func, ast.Name) and call.func.id == name for call in calls):
            found.add(path.relative_to(PACKAGE).as_posix())
    return found


@pytest.mark.parametrize(
    ("name", "modules"),
    [
        ("Situation", {"live/view.py"}),
        ("EvidenceTables", {"live/forecasts.py"}),
        (
            "JudgedRun",
            {
                *("live/judged_run.py", "report/document.py", "report/text.py", "notebook/extension.py"),
                *("commands/evidence/report.py", "live/evidence/compared_runs.py", "live/evidence/training_history.py"),
            },
        ),
    ],
)
def test_only_live_builds_a_judgement(name: str, modules: set[str]) -> None:
    assert builders(name) == modules
