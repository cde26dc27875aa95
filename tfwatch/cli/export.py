"""`tfwatch export`: a recorded run for other tools."""

from __future__ import annotations

import gzip
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from tfwatch.cli import options
from tfwatch.cli.named_runs import find, opened
from tfwatch.core import units
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import BadInputError, printable
from tfwatch.runs.reading.folder import RunFolder
from tfwatch.terminal.output import STANDARD_OUTPUT, write, written

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from tfwatch.report.exports.tables import Recording

FORMATS = ("perfetto", "csv", "parquet", "tensorboard")
_EXPORT_EPILOG = """\
perfetto     one JSON file for ui.perfetto.dev or chrome://tracing: steps, parts, stages, events
csv          a folder with a CSV file a table: steps, samples, progress, stages, epochs, events
parquet      the same tables as Parquet files; needs pyarrow
tensorboard  a folder of scalars for tensorboard --logdir; needs tensorboard
exit codes: 0 written; 1 it cannot be written; 2 bad input.
"""


def add_export(commands: Any, text: str) -> None:
    """Add the command's parser. text: its help."""
    own = options.add_command(commands, "export", text, _run_export, epilog=_EXPORT_EPILOG)
    own.add_argument("which", metavar="RUN", nargs="?", help=f"{options.RUN} (the default)")
    own.add_argument("--to", choices=FORMATS, required=True, help="the format")
    text = "the file (perfetto) or the new folder (others); default: named after the run, here"
    own.add_argument("-o", "--output", metavar="PLACE", type=options.typed(options.path), help=text)
    text = "only the steps from FIRST to LAST, and what was recorded meanwhile"
    own.add_argument("--steps", metavar="FIRST:LAST", type=options.typed(_steps), help=text)
    options.add_runs_dir(own)


def _steps(text: str) -> tuple[int, int]:
    """Read the first and the last step.

    Raises:
        ValueError: it is no range; the message is for the user.
    """
    first, colon, last = text.partition(":")
    if not (colon and first.isdecimal() and last.isdecimal() and 0 < int(first) <= int(last)):
        raise ValueError(f"{text!r} is not a range of steps: give FIRST:LAST, e.g. 1000:2000")
    return int(first), int(last)


def _run_export(args: argparse.Namespace) -> int:
    return export(
        ExportOptions(args.which, options.runs_dir(args), args.to, args.output, args.steps)
    )


#: The package that a format needs.
_NEEDS = {"parquet": "pyarrow", "tensorboard": "tensorboard"}


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """The options of `tfwatch export`. None: the newest run, a place named after the run, all
    steps."""

    which: str | None
    runs_dir: Path
    to: str
    output: Path | None = None
    steps: tuple[int, int] | None = None


def export(options: ExportOptions, clock: Clock = SYSTEM) -> int:
    """Write a run in a format of another tool and return the exit code.

    Raises:
        BadInputError: there is no such run or step, a package is missing, or the place cannot be
        written.
    """
    from tfwatch.report.exports.tables import Recording, write_csv, write_parquet
    from tfwatch.report.exports.tensorboard import write_scalars

    folder = find(options.which, options.runs_dir)
    run = opened(folder, clock)
    first, last = options.steps or (1, len(run.steps))
    if options.steps and first > len(run.steps):
        raise BadInputError(
            f"the run has {units.counted(len(run.steps), 'step')}, none from {first} on"
        )
    recording = Recording(RunFolder(folder), run, options.steps)
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
    from tfwatch.report.exports.perfetto import write_trace

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
    """Remove the files of an export that fails or is stopped: half of a table looks like a whole
    one."""
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
