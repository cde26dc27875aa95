"""Run Keras' own tests with and without Watch in every `fit`, and compare: no test may end differently.

    python -m tests.keras_suite FOLDER [--only NAME ...] [--together 8] [--results FILE] [--again]

FOLDER: a checkout of Keras at the installed version, or the installed package, which holds its tests. Each test file
that calls `fit` runs bare and watched, in processes of their own. Compared are the phases of each test, with the text
of an error, and the history and weights after each `fit`. A test that differs runs once more in both ways, alone: where
bare differs from bare, it is unstable by itself. Exits with 1 if a test differs. pytest does not collect this.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: The result of a test by its name; see `keras_suite_plugin`.
Tests: TypeAlias = "dict[str, dict[str, Any]]"

ROOT = Path(__file__).parents[1]
PLUGIN = "tests.keras_suite_plugin"
PROCESS_S = 3600
CALLS_FIT = re.compile(r"\.fit\(")
OTHER_BACKENDS = {"jax", "torch", "numpy", "openvino"}
COUNTS = ("fits", "steps")
ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "KERAS_BACKEND": "tensorflow",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONPATH": os.pathsep.join(
        part for part in (str(ROOT), os.environ.get("PYTHONPATH", "")) if part
    ),
}


def files_that_fit(folder: Path, only: Sequence[str]) -> list[Path]:
    """Return the test files of TensorFlow's backend that call `fit`, or those whose path holds one of `only`."""
    files = (
        file for file in sorted(folder.rglob("*_test.py")) if not OTHER_BACKENDS & set(file.parts)
    )
    chosen = (file for file in files if not only or any(part in file.as_posix() for part in only))
    return [file for file in chosen if CALLS_FIT.search(file.read_text(encoding="utf-8"))]


def run_tests(files: Sequence[Path], *, watched: bool) -> dict[str, Tests]:
    """Run files, or single tests `FILE::TEST`, in one process, and return the results by file.

    A process that dies takes the results of its files along: then each runs alone.
    """
    done = run_process(files, watched=watched)
    if isinstance(done, str) and len(files) > 1:
        return {str(file): run_tests([file], watched=watched)[str(file)] for file in files}
    if isinstance(done, str):
        return {str(files[0]): {"": {"phases": [["process", "failed", done]], "trained": []}}}
    return {str(file): done.get(file.name, {}) for file in files}


def run_process(tests: Sequence[Path | str], *, watched: bool) -> dict[str, Tests] | str:
    """Run tests in one process; return the results by the file's name, or a reason."""
    with tempfile.TemporaryDirectory() as folder:
        result, config = Path(folder) / "result.json", Path(folder) / "pytest.ini"
        config.write_text("[pytest]\n", encoding="utf-8")
        (Path(folder) / "runs").mkdir()
        options = [
            "-q",
            "-p",
            PLUGIN,
            "-p",
            "no:cacheprovider",
            "-p",
            "no:warnings",
            "--import-mode=importlib",
        ]
        options += [
            "--continue-on-collection-errors",
            "--rootdir",
            ROOT.anchor,
        ]  # names of tests begin with their file
        where = [
            "--suite-result",
            str(result),
            *(["--suite-runs", str(Path(folder) / "runs")] if watched else []),
        ]
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-c",
            str(config),
            *options,
            *where,
            *map(str, tests),
        ]
        environment = {**os.environ, **ENVIRONMENT}
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=PROCESS_S,
            )
        except subprocess.TimeoutExpired:
            return f"no end within {PROCESS_S} s"
        if not result.is_file():
            return f"exit code {done.returncode}: {(done.stderr or done.stdout)[-1000:]}"
        return json.loads(result.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def differing(bare: Tests, watched: Tests) -> list[str]:
    """Return the names of the tests that ended differently."""
    return [name for name in {**bare, **watched} if outcome(bare, name) != outcome(watched, name)]


def outcome(tests: Tests, name: str) -> Any:
    """Return what is compared; None if the test did not run."""
    return (tests[name]["phases"], tests[name]["trained"]) if name in tests else None


def run_again(file: Path, known: dict[str, Any]) -> None:
    """Run the tests of a file that differ once more, alone, and add the results."""
    tests = [f"{file}::{name}" for name in differing(known["bare"], known["watched"]) if name]
    known["again"] = []
    if tests:
        for watched in (False, True):
            done = run_process(tests, watched=watched)
            known["again"].append({} if isinstance(done, str) else done.get(file.name, {}))


def verdicts(known: dict[str, Any]) -> dict[str, str]:
    """Return `differs` or `unstable` for each test that ended differently."""
    bare, watched = known["bare"], known["watched"]
    again = known["again"] or [bare, watched]
    found = {}
    for name in differing(bare, watched):
        repeats = outcome(bare, name) == outcome(again[0], name) != outcome(again[1], name)
        found[name] = "differs" if repeats else "unstable"
    return found


def lines(name: str, known: dict[str, Any]) -> Iterator[str]:
    """Return the result of a file as text."""
    bare, watched, found = known["bare"], known["watched"], verdicts(known)
    ended = [phase[1] for test in bare.values() for phase in test["phases"]]
    counts = [f"{sum(test.get(key, 0) for test in watched.values())} {key}" for key in COUNTS]
    judged = [f"{list(found.values()).count(word)} {word}" for word in ("differs", "unstable")]
    summary = [
        f"{len(bare)} tests",
        f"{ended.count('failed')} failed bare",
        f"{ended.count('skipped')} skipped",
    ]
    yield f"{name}: {', '.join([*summary, *counts, *judged])}"
    for test, word in found.items():
        yield f"  {word}: {test}"
        yield f"    bare:    {_part_that_differs(bare.get(test), watched.get(test))}"
        yield f"    watched: {_part_that_differs(watched.get(test), bare.get(test))}"
    for test, result in watched.items():
        yield from (f"  Watch, {test}: {reason}" for reason in result.get("notes", ()))


def _part_that_differs(test: dict[str, Any] | None, other: dict[str, Any] | None) -> str:
    if test is None or other is None:
        return "not run" if test is None else str(test["phases"])[:600]
    key = "phases" if test["phases"] != other["phases"] else "trained"
    return str([part for n, part in enumerate(test[key]) if part not in other[key][n : n + 1]])[
        :1500
    ]


def chunks(files: Sequence[Path], size: int) -> Iterator[list[Path]]:
    """Yield the files in groups; two files of one name never share a group."""
    rest = list(files)
    while rest:
        unique = {file.name: file for file in reversed(rest)}
        group = list(islice((file for file in rest if unique[file.name] is file), size))
        rest = [file for file in rest if file not in group]
        yield group


def main() -> int:
    parser = argparse.ArgumentParser(
        description="run Keras' tests with and without Watch, and compare"
    )
    parser.add_argument(
        "folder", type=Path, help="a checkout of the installed Keras, or the installed package"
    )
    parser.add_argument(
        "--only", nargs="*", default=[], help="only the files whose path holds one of these"
    )
    parser.add_argument("--together", type=int, default=8, help="files in one process")
    parser.add_argument(
        "--results",
        type=Path,
        help="where results are kept as JSON: what it has does not run again",
    )
    parser.add_argument("--again", action="store_true", help="run watched again what has results")
    options = parser.parse_args()
    folder: Path = options.folder.resolve()
    kept: Path | None = options.results
    known: dict[str, Any] = (
        json.loads(kept.read_text(encoding="utf-8")) if kept and kept.is_file() else {}
    )
    files = files_that_fit(folder, options.only)
    names = {file: file.relative_to(folder).as_posix() for file in files}
    for group in chunks(
        [file for file in files if options.again or names[file] not in known], options.together
    ):
        unknown = [file for file in group if names[file] not in known]
        bare, watched = (
            run_tests(unknown, watched=False) if unknown else {},
            run_tests(group, watched=True),
        )
        for file in group:
            before = bare[str(file)] if file in unknown else known[names[file]]["bare"]
            known[names[file]] = {"bare": before, "watched": watched[str(file)]}
            run_again(file, known[names[file]])
            sys.stdout.write("\n".join(lines(names[file], known[names[file]])) + "\n")
            sys.stdout.flush()
        if kept:
            kept.write_text(json.dumps(known, indent=1), encoding="utf-8")
    chosen = [known[name] for name in names.values()]
    total = [word for file in chosen for word in verdicts(file).values()]
    tests = sum(len(file["bare"]) for file in chosen)
    sys.stdout.write(
        f"{tests} tests, {total.count('differs')} differ, {total.count('unstable')} unstable\n"
    )
    return 1 if "differs" in total else 0


if __name__ == "__main__":
    sys.exit(main())
