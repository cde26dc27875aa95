"""`tfwatch` without a command: a screen of your script, the recorded runs and the workloads."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import sys
from dataclasses import replace
from glob import escape, glob
from itertools import islice
from typing import TYPE_CHECKING, Any

from tfwatch import workloads
from tfwatch.cli.screen_host import show_app
from tfwatch.cli.script.request import check_script
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import BadInputError
from tfwatch.judge.past_run import PastRun, past_entry
from tfwatch.runs.library import list_runs
from tfwatch.workloads import list_workloads

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from tfwatch.screens.launcher import LauncherApp

#: The number of runs listed.
_LISTED = 50
#: The demo that shows most of the screen; the folder of all.
_FIRST, _DEMOS = "cnn", os.path.join(os.path.dirname(workloads.__file__), "")
#: The last of the standard descriptors.
_STANDARD = 2


def launch(runs_dir: Path, theme: str | None = None, clock: Clock = SYSTEM) -> int:
    """Show the launcher until the user leaves or chooses a command, which then replaces this
    process.

    A new program is started instead of a call: the launcher has threads, and a run must start
    without any.
    """
    from tfwatch.screens.launcher import LauncherApp, LauncherContent

    offer = LauncherContent(
        workloads=tuple(sorted(list_workloads().items(), key=lambda one: one[0] != _FIRST)),
        run_script=run_script,
        complete=complete,
        runs=lambda: past_runs(runs_dir, clock),
    )
    apps: list[LauncherApp] = []

    def make(**terminal: Any) -> LauncherApp:
        apps.append(LauncherApp(offer, theme=theme, **terminal))
        return apps[0]

    code = show_app(make)
    words = apps[0].words if apps and not code else ()
    if not words:
        return code
    sys.stderr.write(f"{shlex.join(('tfwatch', *words))}\n")
    sys.stderr.flush()
    try:
        exec_command(words)
    except OSError as error:
        sys.stderr.write(f"tfwatch: the command cannot start: {error.strerror or error}\n")
        return 1
    return 0


def exec_command(words: Sequence[str]) -> None:
    """Replace the process by `tfwatch` with these words. A driver's files that stayed open would
    keep the GPU's memory."""
    for name in os.listdir("/dev/fd"):
        with contextlib.suppress(OSError):
            os.set_inheritable(int(name), int(name) <= _STANDARD)
    own = len(sys.orig_argv) - len(sys.argv[1:])
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:own], *words])


def run_script(line: str) -> tuple[str, ...]:
    """Return the command that runs a script. line: a path alone, or a path and arguments as in a
    shell.

    Raises:
        ValueError: there is no such script; the message is for the user.
    """
    path = line.strip()
    words = [path] if os.path.isfile(os.path.expanduser(path)) else shlex.split(line)
    if not words:
        raise BadInputError("give the path of a script")
    script, *arguments = words
    script = os.path.expanduser(script)
    check_script(script)
    return ("run", script, *arguments)


def complete(line: str) -> str | None:
    """Return the line with its last word completed to the first path that begins like it: a script
    or a folder for the first word, any file for an argument; None where there is none."""
    start = re.search(r"(?:\\.|\S)*$", line)
    assert start
    folder, part = os.path.split(start[0].replace("\\ ", " "))
    place = os.path.join(os.path.expanduser(folder), part)
    named = map(_name, sorted(glob(f"{escape(place)}*")))
    ends = "" if line[: start.start()].strip() else (os.sep, ".py")
    names = (name for name in named if name.isprintable() and name.endswith(ends))
    first = next(names, "")
    return line + first[len(part) :].replace(" ", "\\ ") if first else None


def _name(path: str) -> str:
    """Return the name of a file; that of a folder ends with a slash."""
    return os.path.basename(path) + (os.sep if os.path.isdir(path) else "")


def past_runs(runs_dir: Path, clock: Clock = SYSTEM) -> Iterable[PastRun]:
    """Yield the runs of a folder, newest first, without those that cannot be read; a script that
    is gone, and a demo, is none.

    Raises:
        OSError: the folder cannot be read.
    """
    folders = list_runs(runs_dir)
    names = [folder.name for folder in folders]
    for folder in islice(folders, _LISTED):
        is_named = sum(folder.name in name for name in names) == 1
        if run := past_entry(folder, folder.name if is_named else str(folder), clock):
            is_users = os.path.isfile(run.script) and not run.script.startswith(_DEMOS)
            yield run if is_users else replace(run, script="")
