"""`tfwatch doctor`: is TensorFlow slow because the installation is wrong? A table, JSON, or a screen."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from tfwatch.commands.factories import check_up, make_checkup, scope_of
from tfwatch.core.errors import BadInputError
from tfwatch.doctor.check import Status, counted, worst
from tfwatch.doctor.checkup import collect_facts
from tfwatch.terminal.capture import has_unicode, why_no_screen
from tfwatch.terminal.output import render, write

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rich.console import RenderableType

    from tfwatch.commands.factories import Checking, Factories, Screen
    from tfwatch.doctor.check import Check, CheckUp
    from tfwatch.doctor.checkup import Scope
    from tfwatch.doctor.facts import Facts

_STYLES = {
    Status.FAIL: "bold red",
    Status.WARN: "bold yellow",
    Status.OK: "green",
    Status.NA: "dim",
}
#: Columns below which a check's sentence is printed below its name.
_NARROW = 56
_CLEAR = "\r\x1b[K"


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    """The options of `tfwatch doctor`. data: the folder whose disk is read; None is the folder of tfwatch's images."""

    runs_dir: Path
    data: Path | None = None
    as_json: bool = False
    theme: str | None = None


def doctor(
    options: DoctorOptions, collect: Callable[[Scope, Callable[[str], None]], Facts] = collect_facts
) -> int:
    """Check everything and print it. 1 where a check fails or printing does; 130 where the user presses ctrl+c.

    Raises:
        BadInputError: the data folder is not there.
    """
    scope = scope_of(options.runs_dir, options.data)
    progress = _Progress(sys.stderr)
    try:
        found = check_up(collect(scope, progress.show))
    except KeyboardInterrupt:
        return 130
    finally:
        progress.end()
    unwritten = write(sys.stdout, as_json(found) if options.as_json else as_text(found, sys.stdout))
    return 1 if worst(found.checks) is Status.FAIL else unwritten


def show_doctor(options: DoctorOptions, factories: Factories | None = None) -> int:
    """Show the check-up on a screen until the user leaves. 1 where a check fails or the screen died, else 0.

    Raises:
        BadInputError: the data folder is not there, or there is no screen to show it on.
    """
    from tfwatch.commands.factories import Factories
    from tfwatch.commands.screen_host import show_app

    scope_of(options.runs_dir, options.data)
    if obstacle := why_no_screen(os.environ):
        raise BadInputError(obstacle.replace("use --headless", "leave --screen out"))
    apps: list[Checking] = []

    def make_app(**terminal: Any) -> Screen:
        apps.append(
            (factories or Factories()).doctor(
                make_checkup(options.runs_dir, options.data), theme=options.theme, **terminal
            )
        )
        return apps[0]

    code = show_app(make_app)
    fails = any(app.found and worst(app.found.checks) is Status.FAIL for app in apps)
    return code or int(fails)


def print_sudoers() -> int:
    """Print the sudoers line that permits powermetrics to this user. Returns 1 where printing fails."""
    from tfwatch.sensors.gpu.powermetrics import sudoers

    uid = os.getuid()
    if (
        uid == 0
        and os.environ.get("SUDO_UID", "").isascii()
        and os.environ.get("SUDO_UID", "").isdigit()
    ):
        uid = int(os.environ["SUDO_UID"])
    if sys.platform != "darwin":
        sys.stderr.write(
            "tfwatch: powermetrics is a tool of macOS: this machine needs no such line\n"
        )
    elif uid == 0:
        sys.stderr.write("tfwatch: root needs no such line: run this as the user who trains\n")
    return write(sys.stdout, sudoers(_user_name(uid), uid))


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""


# -- what is printed ----------------------------------------------------------------------------------


def as_json(found: CheckUp) -> str:
    """Return one JSON object. `id` and `status` are stable between versions; the sentences may change."""
    checks = [
        {"id": check.id, "status": check.status.value, "found": check.found, "todo": check.todo}
        for check in found.checks
    ]
    return (
        json.dumps(
            {"worst": worst(found.checks).value, "machine": found.machine, "checks": checks},
            indent=1,
        )
        + "\n"
    )


def as_text(found: CheckUp, out: TextIO) -> str:
    """Return the table, in the columns and colours of `out`."""
    from rich.text import Text

    to = "→" if has_unicode(os.environ) else ">"
    table = _table(found.checks, to, is_narrow=shutil.get_terminal_size().columns < _NARROW)
    return render(out, Text(found.machine, "bold"), "", table, "", counted(found.checks))


def _table(checks: Sequence[Check], to: str, is_narrow: bool) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    if not is_narrow:
        table.add_column(no_wrap=True)
    for check in checks:
        word = Text(check.status.word, _STYLES[check.status])
        sentence = Text(check.found)
        if check.todo:
            sentence.append(
                f"\n{to} {check.todo}", "bold" if check.status in (Status.FAIL, Status.WARN) else ""
            )
        if is_narrow:
            table.add_row(word, Text.assemble((check.id, "bold"), "\n", sentence))
        else:
            table.add_row(word, Text(check.id), sentence)
    return table


class _Progress:
    """The check that runs now, on a terminal, in a line that is erased at the end."""

    def __init__(self, err: TextIO) -> None:
        self._err = err if err.isatty() and os.environ.get("TERM", "dumb") != "dumb" else None

    def show(self, what: str) -> None:
        if self._err:
            self._err.write(f"{_CLEAR}looking at {what}")
            self._err.flush()

    def end(self) -> None:
        if self._err:
            self._err.write(_CLEAR)
            self._err.flush()
