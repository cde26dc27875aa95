"""Imports: no circles, the contracts between rooms, and no heavy library for a quick command."""

from __future__ import annotations

import ast
import pkgutil
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement

import tfwatch
from tfwatch.core.knobs import KNOBS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(tfwatch.__file__).parents[1]
HEAVY = {"tensorflow", "keras", "textual"}
LIGHT = (
    "tfwatch.core",
    "tfwatch.runs",
    "tfwatch.judge",
    "tfwatch.doctor",
    "tfwatch.cli",
    "tfwatch.report",
)


def modules_of(package: str) -> list[str]:
    """Return a package and all its modules."""
    path = ROOT.joinpath(*package.split("."))
    inner = (
        [info.name for info in pkgutil.walk_packages([str(path)], f"{package}.")]
        if path.is_dir()
        else []
    )
    return [package, *inner]


def python(code: str, *options: str) -> str:
    command = [sys.executable, *options, "-c", code]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    ).stdout


def sources(root: Path) -> dict[str, Path]:
    """Return every module of tfwatch by name; a package stands for its `__init__.py`."""
    return {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for path in root.joinpath("tfwatch").rglob("*.py")
    }


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield every name that a module imports, in functions and for types alone too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def import_graph(modules: Mapping[str, Path]) -> dict[str, set[str]]:
    """Return the imports of each module; `from tfwatch.core import units` imports
    `tfwatch.core.units` alone."""
    graph: dict[str, set[str]] = {}
    for module, path in modules.items():
        names = imported(ast.parse(path.read_bytes()))
        graph[module] = {
            name if name in modules else name.rpartition(".")[0] for name in names
        } & modules.keys()
    return graph


def find_circle(graph: Mapping[str, set[str]]) -> list[str]:
    """Return modules that import each other in a circle; none without one."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        return circle
    return []


#: Modules of one platform each, whose classes have the same names: callers never branch.
SIBLINGS = {"tfwatch.sensors.linux", "tfwatch.sensors.macos"}
#: Modules in which the name of a knob stands as a text: `core/knobs.py`, and those where it is that
#: of something else, such as a method of tf.data.
MOST_WITH_KNOB_NAMES = 8


def test_a_class_has_a_name_of_its_own() -> None:
    places: dict[str, list[str]] = {}
    for module, path in sources(ROOT).items():
        for node in ast.parse(path.read_bytes()).body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(module)

    assert len(places) > 300
    assert {
        name: found for name, found in places.items() if len(found) > 1 and {*found} != SIBLINGS
    } == {}


def test_a_knob_is_named_by_its_constant() -> None:
    with_names = {
        module
        for module, path in sources(ROOT).items()
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in KNOBS
    }

    assert "tfwatch.core.knobs" in with_names
    assert len(with_names) <= MOST_WITH_KNOB_NAMES, sorted(with_names)


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = import_graph(sources(ROOT))

    assert graph["tfwatch.cli"], "the graph has arrows"
    assert find_circle(graph) == []


def test_a_circle_is_found_through_a_type_and_a_function(tmp_path: Path) -> None:
    package = tmp_path / "tfwatch"
    package.mkdir()
    package.joinpath("__init__.py").write_text("from tfwatch import one\n")
    package.joinpath("one.py").write_text("if TYPE_CHECKING:\n    from tfwatch.two import Thing\n")
    package.joinpath("two.py").write_text("def load():\n    import tfwatch.three\n")
    package.joinpath("three.py").write_text("from tfwatch import one\n")

    circle = find_circle(import_graph(sources(tmp_path)))
    assert set(circle) == {"tfwatch.one", "tfwatch.three", "tfwatch.two"}


def test_every_import_contract_is_kept() -> None:
    from importlinter.cli import lint_imports

    assert lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True) == 0


def test_a_light_room_loads_no_heavy_library() -> None:
    """Import the rooms in one process: the modules that load a library stand in the message."""
    modules = [module for package in LIGHT for module in modules_of(package)]
    code = (
        f"import sys, importlib\nfor name in {modules}:\n    importlib.import_module(name)\n    if"
        f" heavy := {HEAVY} & set(sys.modules):\n        sys.exit(f'{{name}} loads {{heavy}}')\n"
    )
    assert len(modules) > 100
    loads = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (loads.returncode, loads.stderr) == (0, "")


def test_the_public_names_need_no_tensorflow() -> None:
    code = (
        "import tfwatch, sys;"
        "print(tfwatch.open_run.__name__, tfwatch.Snapshot.__name__, tfwatch.summary.__name__);"
        f"print({HEAVY} & set(sys.modules))"
    )

    assert python(code).split() == ["open_run", "Snapshot", "summary", "set()"]


def test_nothing_slow_is_loaded_before_ctrl_c_is_handled() -> None:
    # -S: site packages load modules at every start.
    loaded = python("import sys; from tfwatch.cli import main; print(*sys.modules)", "-S").split()

    assert "tfwatch.cli" in loaded
    assert not {"typing", "argparse", "re"} & set(loaded)


#: The modules that start a Python interpreter.
PYTHON_STARTERS = ("trial.py", "hosts.py")
#: The module that starts the user's own command.
COMMAND_STARTER = "notices.py"


def test_one_module_starts_the_systems_tools() -> None:
    starts = re.compile(r"subprocess\.(Popen|run|call|check_output)\(|os\.(system|popen)\(")
    found = {
        path.name
        for path in (ROOT / "tfwatch").rglob("*.py")
        if starts.search(path.read_text(encoding="utf-8"))
    }

    assert found == {"system_tool.py", COMMAND_STARTER, *PYTHON_STARTERS}


def test_a_plain_install_brings_no_tensorflow() -> None:
    wanted = _project()["dependencies"]
    assert len(wanted) > 5
    assert not {"tensorflow", "keras"} & {Requirement(one).name for one in wanted}


def test_python_3_14_gets_the_pre_release_that_is_the_only_tensorflow_with_wheels_for_it() -> None:
    machine = {"sys_platform": "linux", "platform_machine": "x86_64", "python_version": "3.14"}
    for extra in ("tensorflow", "nvidia"):
        wanted = [Requirement(one) for one in _project()["optional-dependencies"][extra]]
        (taken,) = [
            one
            for one in wanted
            if one.name == "tensorflow" and one.marker and one.marker.evaluate(machine)
        ]
        assert taken.specifier.prereleases


def _project() -> Any:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
