"""A shell completes commands, options, workloads and the names of runs, by argcomplete."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping

#: The newest runs that are completed.
_MOST = 200


def complete(parser: argparse.ArgumentParser) -> None:
    """Print the completions that a shell asks for, and end the process."""
    import argcomplete

    _add_completers(parser)
    argcomplete.autocomplete(parser, always_complete_options=False, exit_method=sys.exit)


def _add_completers(parser: argparse.ArgumentParser) -> None:
    """Give each run and workload its completer, in this parser and those of its commands."""
    for action in parser._actions:
        if isinstance(action.choices, dict):
            for command in action.choices.values():
                _add_completers(command)
        elif action.dest in ("which", "sides", "words", "workload"):
            completer = _workloads if action.dest == "workload" else _runs
            setattr(action, "completer", completer)  # noqa: B010  argcomplete's own attribute


def _runs(parsed_args: argparse.Namespace, **_: object) -> Iterable[str]:
    """Return the names of the newest runs."""
    from tfwatch.runs.library import default_runs_dir, list_runs

    folders = list_runs(parsed_args.runs_dir or default_runs_dir())
    return [folder.name for folder in folders[:_MOST]]


def _workloads(**_: object) -> Mapping[str, str]:
    """Return the workloads, each with its line."""
    from tfwatch.workloads import list_workloads

    return list_workloads()
