"""Who may import whom, and what is never loaded for a quick answer."""

from __future__ import annotations

import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tfwatch

ROOT = Path(tfwatch.__file__).parents[1]
HEAVY = {"tensorflow", "keras", "textual"}
QUICK = (
    "tfwatch.core",
    "tfwatch.runs",
    "tfwatch.analysis",
    "tfwatch.live",
    "tfwatch.workloads",
    "tfwatch.doctor",
    "tfwatch.cli",
    "tfwatch.report",
)


def modules_of(package: str) -> list[str]:
    """A package and all the modules in it."""
    path = ROOT.joinpath(*package.split("."))
    inner = [info.name for info in pkgutil.walk_packages([str(path)], f"{package}.")] if path.is_dir() else []
    return [package, *inner]


def python(code: str, *options: str) -> str:
    command = [sys.executable, *options, "-c", code]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout


def test_every_import_contract_is_kept() -> None:
    from importlinter.cli import lint_imports

    assert lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True) == 0


@pytest.mark.parametrize("package", QUICK)
def test_a_quick_room_loads_no_heavy_library(package: str) -> None:
    imports = "; ".join(f"import {module}" for module in modules_of(package))

    loaded = python(f"{imports}; import sys; print(*sys.modules)").split()

    assert package in loaded
    assert not HEAVY & set(loaded)


def test_the_public_names_are_there_without_tensorflow() -> None:
    code = "import tfwatch, sys; print(tfwatch.open_run.__name__, tfwatch.Run.__name__, 'keras' in sys.modules)"

    assert python(code).split() == ["open_run", "Run", "False"]


def test_help_loads_no_heavy_library() -> None:
    code = (
        "import sys; from tfwatch.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit as end: print(end.code)\n"
        "print(*sys.modules)"
    )

    assert not HEAVY & set(python(code).split())


def test_nothing_slow_is_loaded_before_ctrl_c_is_taken() -> None:
    # Without what the site's packages load at every start.
    loaded = python("import sys; from tfwatch.cli import main; print(*sys.modules)", "-S").split()

    assert "tfwatch.cli" in loaded
    assert not {"typing", "argparse", "re"} & set(loaded)


def test_one_place_starts_the_systems_tools() -> None:
    starts = re.compile(r"subprocess\.(Popen|run|call|check_output)\(|os\.(system|popen)\(")
    found = {path.name for path in (ROOT / "tfwatch").rglob("*.py") if starts.search(path.read_text(encoding="utf-8"))}

    assert found == {"tool.py", "trial.py"}  # the doctor's trial starts Python
