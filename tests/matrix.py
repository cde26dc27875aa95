"""Run the tests that train and the selftest with every TensorFlow, and the oldest and newest Keras that it allows.

    python -m tests.matrix FOLDER [--only 2.19] [--keep] [--again] [--all-pythons]

Creates one virtual environment after another in FOLDER, tests a copy of this checkout in it, and deletes it. Results
are saved in FOLDER/results.json, so that a second call continues where the first one ended. Prints a table of all
results in FOLDER, also of earlier calls. Pythons are searched in ~/.pyenv/versions, then on the path.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as xml
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[1]
NEWEST = "newest"
#: For each TensorFlow the oldest Keras that its metadata and tfwatch allow, and the Pythons that it has wheels for.
ALLOWED = {
    "2.18": ("3.8.0", ("3.10", "3.11", "3.12")),
    "2.19": ("3.8.0", ("3.10", "3.11", "3.12")),
    "2.20": ("3.10.0", ("3.10", "3.11", "3.12", "3.13")),
    "2.21": ("3.12.0", ("3.10", "3.11", "3.12", "3.13")),
    "2.22": ("3.12.0", ("3.10", "3.11", "3.12", "3.13", "3.14")),
}
SCRIPTS = ("tests/commands/script/test_run.py", "tests/commands/script/test_run_trains.py")
TRAINING = (
    "tests/watch",
    "tests/tfdata",
    "tests/training",
    "tests/workloads",
    "tests/checks",
    *SCRIPTS,
)
INSTALL_S, TESTS_S, SELFTEST_S = 1800, 3600, 900
COLUMNS = ("TensorFlow", "Keras", "Python", "tests", "selftest")


@dataclass(frozen=True, slots=True)
class Case:
    """One environment. keras: a version, or `newest`."""

    tensorflow: str
    keras: str
    python: str

    @property
    def name(self) -> str:
        """The name for `--only`, e.g. `2.19-newest-3.12`."""
        return f"{self.tensorflow}-{self.keras}-{self.python}"


@dataclass(frozen=True, slots=True)
class Row:
    """The result of a case: the installed versions and the passed tests, or a reason if it was not reached."""

    tensorflow: str
    keras: str
    python: str
    tests: str
    selftest: str


def cases(all_pythons: bool) -> Iterator[Case]:
    """Yield the oldest Keras with the oldest Python and the newest with the newest, or both with every Python."""
    for tensorflow, (oldest, pythons) in ALLOWED.items():
        for keras, chosen in ((oldest, pythons[:1]), (NEWEST, pythons[-1:])):
            yield from (
                Case(tensorflow, keras, python) for python in (pythons if all_pythons else chosen)
            )


def try_case(case: Case, folder: Path, keep: bool) -> Row:
    """Create the environment, test in it, and delete it."""
    home = folder / case.name
    try:
        return in_environment(case, home)
    except (OSError, subprocess.SubprocessError) as error:
        return Row(case.tensorflow, case.keras, case.python, reason(error), "")
    finally:
        if not keep:
            shutil.rmtree(home, ignore_errors=True)


def in_environment(case: Case, home: Path) -> Row:
    """Install, test, and return the result.

    Raises:
        subprocess.SubprocessError: something could not be installed.
    """
    shutil.rmtree(home, ignore_errors=True)
    checkout = home / "checkout"
    shutil.copytree(ROOT, checkout, ignore=shutil.ignore_patterns(".*", "__pycache__", "assets"))
    run([str(find_python(case.python)), "-m", "venv", str(home / "venv")], home, INSTALL_S)
    python = home / "venv" / "bin" / "python"
    install(case, python, checkout)
    report, config = (
        home / "tests.xml",
        ("-p", "no:cacheprovider", f"--junitxml={home / 'tests.xml'}"),
    )
    with contextlib.suppress(subprocess.CalledProcessError):  # the report names what failed
        run([str(python), "-m", "pytest", *config, *TRAINING], checkout, TESTS_S)
    tests, selftest = read_report(report), run_selftest(python, checkout)
    tensorflow, keras, version = run([str(python), "-c", _VERSIONS], home, INSTALL_S).split()
    return Row(tensorflow, keras, version, tests, selftest)


_VERSIONS = """
from importlib.metadata import version
import platform
print(version("tensorflow"), version("keras"), platform.python_version())
"""


def install(case: Case, python: Path, checkout: Path) -> None:
    """Install the case's versions and what the tests need; a release candidate where there is no release yet.

    Raises:
        subprocess.SubprocessError: something could not be installed.
    """
    pip = (str(python), "-m", "pip", "--quiet")
    keras = "keras" if case.keras == NEWEST else f"keras=={case.keras}"
    tensorflow = f"tensorflow=={case.tensorflow}.*,>={case.tensorflow}.0rc0"
    run([*pip, "install", tensorflow, keras, f"{checkout}[test]"], checkout, INSTALL_S)
    # TensorFlow 2.22.0rc0 brings keras-nightly, whose files lie in the folder of keras.
    run([*pip, "uninstall", "--yes", "keras-nightly", "keras"], checkout, INSTALL_S)
    run([*pip, "install", "--no-deps", keras], checkout, INSTALL_S)


def find_python(version: str) -> Path:
    """An interpreter of pyenv's, or else one on the path.

    Raises:
        FileNotFoundError: there is none.
    """
    in_pyenv = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python"))
    found = str(in_pyenv[-1]) if in_pyenv else shutil.which(f"python{version}")
    if found is None:
        raise FileNotFoundError(f"no Python {version} in ~/.pyenv/versions or on the path")
    return Path(found)


def read_report(report: Path) -> str:
    """`170 passed`, and what failed by name."""
    if not report.is_file():
        return "pytest gave no report"
    tests = list(xml.parse(report).getroot().iter("testcase"))
    failed = [
        str(test.get("name"))
        for test in tests
        if test.find("failure") is not None or test.find("error") is not None
    ]
    skipped = sum(test.find("skipped") is not None for test in tests)
    words = [f"{len(tests) - len(failed) - skipped} passed"]
    words += [f"{skipped} skipped"] if skipped else []
    words += [f"{len(failed)} failed: {', '.join(failed[:5])}"] if failed else []
    return ", ".join(words)


def run_selftest(python: Path, checkout: Path) -> str:
    """`52 passed`, and the cases that failed."""
    command = [str(python), "-m", "tfwatch", "selftest", "--json"]
    done = subprocess.run(
        command, cwd=checkout, env=environment(), capture_output=True, text=True, timeout=SELFTEST_S
    )
    try:
        report = json.loads(done.stdout)
        failed = [
            f"{case['group']} {case['case']}" for case in report["cases"] if not case["passed"]
        ]
    except (ValueError, KeyError, TypeError):
        return f"no result: {last_line(done.stderr)}"
    return f"{report['passed']} passed" + (
        f", {len(failed)} failed: {', '.join(failed[:5])}" if failed else ""
    )


def run(command: Sequence[str], folder: Path, timeout_s: float) -> str:
    """Run to the end and return what it printed.

    Raises:
        subprocess.SubprocessError: it failed, or took too long.
    """
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(),
        check=True,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    return done.stdout


def environment() -> dict[str, str]:
    """This process' environment without what leads to other packages."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "TF_CPP_MIN_LOG_LEVEL": "2", "PYTHONDONTWRITEBYTECODE": "1"}


def reason(error: Exception) -> str:
    """Return the reason of a failed case, in one line."""
    output = getattr(error, "stderr", None) or str(error)
    return f"not run: {last_line(output if isinstance(output, str) else output.decode(errors='replace'))}"


def last_line(text: str) -> str:
    """Return the last line that is not empty."""
    return next(
        (line.strip() for line in reversed(text.splitlines()) if line.strip()), "no output"
    )[:200]


def table(rows: Sequence[Row]) -> str:
    """As Markdown."""
    lines = [COLUMNS, ("---",) * len(COLUMNS), *(tuple(asdict(row).values()) for row in rows)]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="test with every TensorFlow, and the oldest and newest Keras it allows"
    )
    parser.add_argument("folder", type=Path, help="where the environments are made")
    parser.add_argument(
        "--only", default="", help="only the cases whose name holds this, e.g. 2.19 or newest"
    )
    parser.add_argument("--keep", action="store_true", help="keep the environments")
    parser.add_argument("--again", action="store_true", help="also the cases that have a result")
    parser.add_argument(
        "--all-pythons", action="store_true", help="every Python that fits, not the corners only"
    )
    options = parser.parse_args()
    folder: Path = options.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    results = folder / "results.json"
    known = json.loads(results.read_text(encoding="utf-8")) if results.is_file() else {}
    wanted = list(cases(options.all_pythons))
    for case in (case for case in wanted if options.only in case.name):
        if options.again or case.name not in known:
            sys.stderr.write(f"{case.name} ...\n")
            known[case.name] = asdict(try_case(case, folder, options.keep))
            results.write_text(json.dumps(known, indent=1), encoding="utf-8")
    sys.stdout.write(table([Row(**known[case.name]) for case in wanted if case.name in known]))


if __name__ == "__main__":
    main()
