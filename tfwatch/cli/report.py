"""`tfwatch report` and `export`: a recorded run as a page, as Markdown or JSON, and for other
tools."""

from __future__ import annotations

import gzip
import json
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from tfwatch.cli.named_runs import find, opened, readable
from tfwatch.cli.options import of_config
from tfwatch.core import units
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import BadInputError, printable
from tfwatch.runs.folder import RunFolder
from tfwatch.runs.group import is_group, open_group
from tfwatch.terminal.output import STANDARD_OUTPUT, write, write_text, written
from tfwatch.workloads import list_workloads

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from tfwatch.report.exports.tables import Recording
    from tfwatch.report.redaction import Redaction


def report(args: argparse.Namespace, clock: Clock = SYSTEM) -> int:
    """Write the report of a run or a group and return the exit code.

    Raises:
        BadInputError: there is no such run, or the place cannot be written.
    """
    if args.json and args.redact:
        raise BadInputError("--redact is for the page and Markdown: JSON holds all figures")
    args.redact = of_config("redact", args.redact) and not args.json
    folder = find(args.which, args.runs_dir)
    text, redaction = (_group_text if is_group(folder) else _run_text)(folder, args, clock)
    if args.json or args.markdown:
        return write_text(args.output or STANDARD_OUTPUT, text)
    name = "tfwatch-report" if redaction else f"tfwatch-{folder.absolute().name}"
    place = args.output or Path(f"{name}.html")
    failed = write_text(place, text)
    if failed or place == STANDARD_OUTPUT:
        return failed
    return write(sys.stdout, f"{printable(str(place))}\n")


def _run_text(folder: Path, args: argparse.Namespace, clock: Clock) -> tuple[str, Redaction | None]:
    from tfwatch.judge.judged_run import JudgedRun
    from tfwatch.report.markdown import as_markdown
    from tfwatch.report.page import as_html
    from tfwatch.report.redaction import redaction_of
    from tfwatch.report.run_facts import judged_json

    run = opened(folder, clock)
    redaction = redaction_of(run, Path.home(), list_workloads()) if args.redact else None
    judged = JudgedRun(run)
    if args.json:
        return _json_text(judged_json(judged)), redaction
    if args.markdown:
        return as_markdown(judged, redaction), redaction
    return as_html(judged, redaction), redaction


def _group_text(
    folder: Path, args: argparse.Namespace, clock: Clock
) -> tuple[str, Redaction | None]:
    from tfwatch.judge.groups.judged_group import JudgedGroup
    from tfwatch.report.group_report import group_html, group_json, group_markdown
    from tfwatch.report.redaction import redaction_of_group

    with readable(folder):
        judged = JudgedGroup(open_group(folder, clock))
    redaction = None
    if args.redact:
        redaction = redaction_of_group(judged.group, Path.home(), list_workloads())
    if args.json:
        return _json_text(group_json(judged)), redaction
    if args.markdown:
        return group_markdown(judged, redaction), redaction
    return group_html(judged, redaction), redaction


def _json_text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1) + "\n"


# -- for other tools -------------------------------------------------------------------------------

#: The package that a format needs.
_NEEDS = {"parquet": "pyarrow", "tensorboard": "tensorboard"}


def export(args: argparse.Namespace, clock: Clock = SYSTEM) -> int:
    """Write a run in a format of another tool and return the exit code.

    Raises:
        BadInputError: there is no such run or step, a package is missing, or the place cannot be
        written.
    """
    from tfwatch.report.exports.tables import Recording, write_csv, write_parquet
    from tfwatch.report.exports.tensorboard import write_scalars

    folder = find(args.which, args.runs_dir)
    run = opened(folder, clock)
    first, last = args.steps or (1, len(run.steps))
    if args.steps and first > len(run.steps):
        raise BadInputError(
            f"the run has {units.counted(len(run.steps), 'step')}, none from {first} on"
        )
    recording = Recording(RunFolder(folder), run, args.steps)
    suffix = ".json" if args.to == "perfetto" else f"-{args.to}"
    place = args.output or Path(f"tfwatch-{folder.absolute().name}{suffix}")
    if args.to == "perfetto":
        return _write_trace(recording, place)
    writers: dict[str, Callable[[Callable[[str], IO[bytes]]], None]] = {
        "csv": partial(write_csv, recording),
        "parquet": partial(write_parquet, recording),
        "tensorboard": partial(write_scalars, recording, min(last, len(run.steps)) - first + 1),
    }
    return _write_folder(writers[args.to], place, args.to)


def _write_trace(recording: Recording, place: Path) -> int:
    from tfwatch.report.exports.perfetto import write_trace

    with written(place) as file:
        if place.suffix == ".gz":
            with gzip.GzipFile(
                filename="", fileobj=file, mode="wb", compresslevel=1, mtime=0
            ) as packed:
                write_trace(recording, cast("IO[bytes]", packed))
        else:
            write_trace(recording, file)
    return 0 if place == STANDARD_OUTPUT else _print_size(place, [place])


def _write_folder(
    writer: Callable[[Callable[[str], IO[bytes]]], None], folder: Path, to: str
) -> int:
    """Write the files of a format into a new folder, or an empty one."""
    made: list[Path] = []

    def create(name: str) -> IO[bytes]:
        made.append(folder / name)
        return open(folder / name, "xb")

    try:
        folder.mkdir(exist_ok=True)
        if any(folder.iterdir()):
            raise BadInputError(f"{folder} is not empty: name another folder with -o")
        with _removed_if_broken_off(made, folder):
            writer(create)
    except ImportError as error:
        package = _NEEDS.get(to, to)
        raise BadInputError(f"{to} needs the package {package}: pip install {package}") from error
    except OSError as error:
        raise BadInputError(f"{folder} cannot be written: {error.strerror or error}") from error
    return _print_size(folder, made)


@contextmanager
def _removed_if_broken_off(made: list[Path], folder: Path) -> Iterator[None]:
    """Remove the files of an export that fails or is stopped: half of a table looks like a whole
    one."""
    try:
        yield
    except BaseException:
        for path in made:
            path.unlink(missing_ok=True)
        folder.rmdir()
        raise


def _print_size(place: Path, made: list[Path]) -> int:
    size = units.memory(sum(path.stat().st_size for path in made if path.is_file()))
    return write(sys.stdout, f"{printable(str(place))}, {size}\n")
