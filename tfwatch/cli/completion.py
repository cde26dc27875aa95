"""`tfwatch completion`: a shell completes commands, options, workloads, values of knobs and the
names of runs."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping

#: The newest runs that are completed.
_MOST = 200
#: The values of knobs that are completed, where the knob takes them.
_VALUES = ("off", "on", "default", "auto", "2", "4", "8")


def complete(parser: argparse.ArgumentParser) -> None:
    """Print the completions that a shell asks for, and end the process."""
    import argcomplete

    _add_completers(parser)
    argcomplete.autocomplete(parser, always_complete_options=False, exit_method=sys.exit)


def _add_completers(parser: argparse.ArgumentParser) -> None:
    """Give each argument without fixed choices its completer, in this parser and those of its
    commands."""
    for action in parser._actions:
        if isinstance(action.choices, dict):
            for command in action.choices.values():
                _add_completers(command)
        elif completer := _completer_of(str(action.metavar)):
            setattr(action, "completer", completer)  # noqa: B010  argcomplete's own attribute


def _completer_of(place: str) -> Any:
    """Return what completes an argument; None for files, numbers, and where argparse knows the
    choices."""
    if "RUN" in place:
        return _runs_and_changes if "=" in place else _runs
    return {"WORKLOAD": _workloads, "STEP:KNOB=VALUE": _switches}.get(place)


def _runs(parsed_args: argparse.Namespace, prefix: str, **_: object) -> Iterable[str]:
    """Return the names of the newest runs, also after a comma."""
    from tfwatch.runs.library import default_runs_dir, list_folders

    folders = list_folders(parsed_args.runs_dir or default_runs_dir())[:_MOST]
    return _after(prefix, ",", (folder.name for folder in folders))


def _runs_and_changes(parsed_args: argparse.Namespace, prefix: str, **_: object) -> Iterable[str]:
    """Return the runs, and each knob with its values."""
    return [*_runs(parsed_args, prefix), *_changes()]


def _switches(prefix: str, **_: object) -> Iterable[str]:
    """Return each knob with its values, after the step."""
    return _after(prefix, ":", _changes())


def _after(prefix: str, mark: str, words: Iterable[str]) -> Iterable[str]:
    """Return the words behind what stands before the last mark."""
    before, comma, _ = prefix.rpartition(mark)
    return [f"{before}{comma}{word}" for word in words]


def _changes() -> Iterable[str]:
    """Yield each knob with the values that it takes."""
    from tfwatch.core.knobs import KNOBS, check_value, option_name

    for knob in KNOBS:
        for value in _VALUES:
            with contextlib.suppress(ValueError):
                check_value(knob, value)
                yield f"{option_name(knob)}={value}"


def _workloads(**_: object) -> Mapping[str, str]:
    """Return the workloads, each with its line."""
    from tfwatch.workloads import list_workloads

    return list_workloads()


def print_code(args: argparse.Namespace) -> int:
    """Print a shell's code, and return the exit code."""
    from argcomplete.shell_integration import shellcode

    from tfwatch.terminal.output import write

    return write(sys.stdout, shellcode(["tfwatch"], shell=args.shell))
