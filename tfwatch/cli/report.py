"""`tfwatch report` and `export`: a recorded run as a page, as Markdown and JSON, and for other tools."""

from __future__ import annotations

import gzip
import json
import os
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, TypeAlias, cast

from tfwatch.cli.named_runs import find, opened, readable
from tfwatch.core import units
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import BadInputError, printable
from tfwatch.judge.groups.judged_group import JudgedGroup
from tfwatch.judge.judged_run import JudgedRun
from tfwatch.report.document import judged_json
from tfwatch.report.exports.perfetto import write_trace
from tfwatch.report.exports.tables import Recording, write_csv, write_parquet
from tfwatch.report.exports.tensorboard import write_scalars
from tfwatch.report.group_report import group_html, group_json, group_markdown
from tfwatch.report.html.page import as_html
from tfwatch.report.html.templates import redaction_of, redaction_of_group
from tfwatch.report.markdown import as_markdown
from tfwatch.runs.group import is_group, open_group
from tfwatch.runs.reading.streams import FolderSource
from tfwatch.terminal.output import leave_output, write
from tfwatch.workloads import list_workloads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tfwatch.report.html.templates import Redaction

Form: TypeAlias = Literal["html", "markdown", "json"]


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The options of `tfwatch report`. which: None is the newest. output: None is the usual place."""

    which: str | None
    runs_dir: Path
    output: Path | None = None
    form: Form = "html"
    is_redacted: bool = False


def report(options: ReportOptions, clock: Clock = SYSTEM) -> int:
    """Write the report of a run or a group and return the exit code.

    Raises:
        BadInputError: there is no such run, or the place cannot be written.
    """
    folder = find(options.which, options.runs_dir)
    text, redaction = (_group_text if is_group(folder) else _run_text)(folder, options, clock)
    if options.form != "html":
        return write_text(options.output or STANDARD_OUTPUT, text)
    return _write_page(options.output or _usual_place(folder, redaction), text)


def _run_text(folder: Path, options: ReportOptions, clock: Clock) -> tuple[str, Redaction | None]:
    run = opened(folder, clock)
    redaction = redaction_of(run, Path.home(), list_workloads()) if options.is_redacted else None
    judged = JudgedRun(run)
    match options.form:
        case "json":
            return _json_text(judged_json(judged)), redaction
        case "markdown":
            return as_markdown(judged, redaction), redaction
    _judge(judged)
    return as_html(judged, redaction), redaction


def _group_text(folder: Path, options: ReportOptions, clock: Clock) -> tuple[str, Redaction | None]:
    with readable(folder):
        judged = JudgedGroup(open_group(folder, clock))
    redaction = (
        redaction_of_group(judged.group, Path.home(), list_workloads())
        if options.is_redacted
        else None
    )
    match options.form:
        case "json":
            return _json_text(group_json(judged)), redaction
        case "markdown":
            return group_markdown(judged, redaction), redaction
    return group_html(judged, redaction), redaction


def _json_text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1) + "\n"


def _write_page(place: Path, page: str) -> int:
    failed = write_text(place, page)
    return (
        failed
        if failed or place == STANDARD_OUTPUT
        else write(sys.stdout, f"{printable(str(place))}\n")
    )


def _judge(judged: JudgedRun) -> None:
    """Judge the steps while a thread sums them up: each takes seconds for ten million, mostly outside of Python."""

    def sum_up() -> None:
        _ = judged.hardware, judged.time_breakdown, judged.run.pyramid

    with ThreadPoolExecutor(1) as pool:
        summing = pool.submit(sum_up)
        _ = judged.summary
        summing.result()


def _usual_place(folder: Path, redaction: Redaction | None) -> Path:
    return Path("tfwatch-report.html" if redaction else f"tfwatch-{folder.absolute().name}.html")


#: The package that a format needs.
_NEEDS = {"parquet": "pyarrow", "tensorboard": "tensorboard"}


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """The options of `tfwatch export`. None: the newest run, a place named after the run, all steps."""

    which: str | None
    runs_dir: Path
    to: str
    output: Path | None = None
    steps: tuple[int, int] | None = None


def export(options: ExportOptions, clock: Clock = SYSTEM) -> int:
    """Write a run in a format of another tool and return the exit code.

    Raises:
        BadInputError: there is no such run or step, a package is missing, or the place cannot be written.
    """
    folder = find(options.which, options.runs_dir)
    run = opened(folder, clock)
    first, last = options.steps or (1, len(run.steps))
    if options.steps and first > len(run.steps):
        raise BadInputError(
            f"the run has {units.counted(len(run.steps), 'step')}, none from {first} on"
        )
    recording = Recording(FolderSource(folder), run, options.steps)
    suffix = ".json" if options.to == "perfetto" else f"-{options.to}"
    place = options.output or Path(f"tfwatch-{folder.absolute().name}{suffix}")
    if options.to == "perfetto":
        return _write_trace(recording, place)
    writers: dict[str, Callable[[Callable[[str], IO[bytes]]], None]] = {
        "csv": partial(write_csv, recording),
        "parquet": partial(write_parquet, recording),
        "tensorboard": partial(write_scalars, recording, min(last, len(run.steps)) - first + 1),
    }
    return _write_folder(writers[options.to], place, options.to)


def _write_trace(recording: Recording, place: Path) -> int:
    with written(place) as file:
        if place.suffix == ".gz":
            with gzip.GzipFile(
                filename="", fileobj=file, mode="wb", compresslevel=1, mtime=0
            ) as packed:
                write_trace(recording, cast("IO[bytes]", packed))
        else:
            write_trace(recording, file)
    return 0 if place == STANDARD_OUTPUT else _report(place, [place])


def _write_folder(
    writer: Callable[[Callable[[str], IO[bytes]]], None], folder: Path, to: str
) -> int:
    """Write the files of a format into a new folder, or an empty one."""
    made: list[Path] = []

    def create(name: str) -> IO[bytes]:
        made.append(folder / name)
        return open(folder / name, "xb")

    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise BadInputError(f"{folder} is not empty: name another folder with -o")
        with _removed_if_broken_off(made, folder):
            writer(create)
    except ImportError as error:
        package = _NEEDS.get(to, to)
        raise BadInputError(f"{to} needs the package {package}: pip install {package}") from error
    except OSError as error:
        raise BadInputError(f"{folder} cannot be written: {error.strerror or error}") from error
    return _report(folder, made)


@contextmanager
def _removed_if_broken_off(made: list[Path], folder: Path) -> Iterator[None]:
    """Remove the files of an export that fails or is stopped: half of a table looks like a whole one."""
    try:
        yield
    except BaseException:
        for path in made:
            path.unlink(missing_ok=True)
        folder.rmdir()
        raise


def _report(place: Path, made: list[Path]) -> int:
    size = units.memory(sum(path.stat().st_size for path in made if path.is_file()))
    return write(sys.stdout, f"{printable(str(place))}, {size}\n")


STANDARD_OUTPUT = Path("-")


def write_text(place: Path, text: str) -> int:
    """Write a text to a file, or to standard output, and return the exit code.

    Raises:
        BadInputError: the place cannot be written.
    """
    if place == STANDARD_OUTPUT:
        return write(sys.stdout, text)
    with written(place) as file:
        file.write(text.encode("utf-8", "replace"))
    return 0


@contextmanager
def written(place: Path) -> Iterator[IO[bytes]]:
    """Open a file that takes its place once it is complete; a device or a pipe is written to at once.

    place: `-` is standard output, whose reader may leave at any time.

    Raises:
        BadInputError: it cannot be written.
    """
    if place == STANDARD_OUTPUT:
        try:
            yield sys.stdout.buffer
            sys.stdout.flush()
        except BrokenPipeError:
            leave_output(sys.stdout)
        return
    try:
        if place.exists() and not stat.S_ISREG(place.stat().st_mode):
            with open(place, "wb") as file:
                yield file
            return
        part = place.with_name(f".{place.name[:200]}.{os.getpid()}")
        try:
            with open(part, "wb") as file:
                yield file
            part.replace(place)
        finally:
            with suppress(OSError):
                part.unlink()
    except OSError as error:
        raise BadInputError(f"{place} cannot be written: {error.strerror or error}") from error
