"""A run is judged in one place: nothing outside `live` builds what a judgement is made from."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

import tfwatch

PACKAGE = Path(tfwatch.__file__).parent


@pytest.fixture(scope="module")
def builders() -> dict[str, set[str]]:
    """By name of a class or function: the modules that call it."""
    found = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                found[node.func.id].add(path.relative_to(PACKAGE).as_posix())
    return found


@pytest.mark.parametrize(
    ("name", "modules"),
    [
        ("Situation", {"judge/judged_run.py", "judge/view.py", "notices.py"}),
        ("Evidence", {"judge/forecasts/evidence.py"}),
        (
            "JudgedRun",
            {
                *("judge/judged_run.py", "report/run_facts.py", "report/text.py"),
                *("cli/report.py", "cli/named_runs.py", "cli/script/trial.py", "fix/script_fix.py"),
            },
        ),
    ],
)
def test_only_live_builds_a_judgement(
    name: str, modules: set[str], builders: dict[str, set[str]]
) -> None:
    assert builders[name] == modules
