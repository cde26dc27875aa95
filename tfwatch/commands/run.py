"""`tfwatch run`: somebody's training script in a child process, unmodified, and a summary of its runs on stderr."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import fails_open
from tfwatch.terminal.child import end_as, run_child
from tfwatch.workloads.workload import BadInputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_BOOTSTRAP = Path(__file__).parents[1] / "watch" / "script" / "bootstrap.py"
#: Earlier fits of a script with a line each; the others are counted.
_MOST_LINES = 20


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of `tfwatch run`.

    script: the script, or `-m` and a module, and its arguments. python: its interpreter; None is this one.
    """

    script: Sequence[str]
    runs_dir: Path
    headless: bool
    python: Path | None = None


def run(options: RunOptions, clock: Clock = SYSTEM) -> int:
    """Run the script to its end and return its exit code; die of the signal that it died of.

    Raises:
        BadInputError: there is no such script, or no terminal output that is the script's own.
    """
    _check(options)
    pids: list[int] = []
    began_ns = clock.wall_ns()
    command = [sys.executable, *_flags(), str(_BOOTSTRAP), str(options.runs_dir.absolute()), *options.script]
    try:
        code = run_child(command, pids.append)
    except OSError as error:
        raise BadInputError(f"{sys.executable} cannot be started: {error.strerror or error}") from error
    with fails_open(lambda why: _print(f"tfwatch: the runs of this script cannot be read: {why}\n")):
        _print(_summary(list(_runs_of(pids[0], options.runs_dir, began_ns)), options.runs_dir))
    return end_as(code)


def _check(options: RunOptions) -> None:
    if not options.headless and os.isatty(1):
        raise BadInputError("a script has no live screen yet: add --headless, and follow it with tfwatch replay")
    if options.script[0] != "-m":
        check_script(options.script[0])


def check_script(script: str) -> None:
    """Check that there is a script, or a folder that runs as one.

    Raises:
        BadInputError: there is neither.
    """
    try:
        mode = os.stat(script).st_mode
    except OSError as error:
        raise BadInputError(f"{script} cannot be run: {error.strerror or error}") from error
    except ValueError as error:
        raise BadInputError(f"{script} cannot be run: {error}") from error
    if not stat.S_ISREG(mode) and not os.path.isfile(os.path.join(script, "__main__.py")):
        raise BadInputError(f"{script} cannot be run: it is no file, and no folder with a __main__.py")


def _flags() -> list[str]:
    """Return the flags of this interpreter, for the script's."""
    flags: list[str] = getattr(subprocess, "_args_from_interpreter_flags")()  # noqa: B009  not among the typed names
    return [*flags, "-u"] if getattr(sys.stdout, "write_through", False) else flags


def _runs_of(pid: int, runs_dir: Path, began_ns: int) -> Iterator[Path]:
    """Yield the runs that a process has recorded since a moment, the newest first."""
    from tfwatch.runs.format import NotARunError
    from tfwatch.runs.library import list_runs
    from tfwatch.runs.streams import FolderSource

    for folder in list_runs(runs_dir):
        with suppress(NotARunError, OSError):
            manifest = FolderSource(folder).manifest()
            if manifest.origin_wall_ns < began_ns:
                return
            if manifest.pid == pid:
                yield folder


def _summary(runs: Sequence[Path], runs_dir: Path) -> str:
    """Return a line for each run, and the whole summary of the last one."""
    from tfwatch.report.text import as_text
    from tfwatch.runs.opened import open_run

    if not runs:
        return f"tfwatch: no step of this script is recorded in {runs_dir}\n"
    last, *earlier = (as_text(open_run(run), Path.home()) for run in runs[: _MOST_LINES + 1])
    lines = [text.partition("\n")[0] for text in reversed(earlier)]
    if len(runs) > len(earlier) + 1:
        lines.insert(0, f"{len(runs) - len(earlier) - 1} earlier fits: tfwatch replay opens each of them")
    return "".join(f"{line}\n" for line in lines) + last.rstrip("\n") + "\n"


def _print(text: str) -> None:
    from tfwatch.terminal.output import write

    if sys.stderr is not None:  # closed by the caller
        write(sys.stderr, text)
