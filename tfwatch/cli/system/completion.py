"""`tfwatch completion`, and what a shell completes: commands, options, workloads and the names of runs."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from tfwatch.cli import options

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping

SHELLS = ("bash", "zsh", "fish")
_EPILOG = """\
bash, in ~/.bashrc:                    eval "$(tfwatch completion bash)"
zsh, in ~/.zshrc, after compinit:      eval "$(tfwatch completion zsh)"
fish, in ~/.config/fish/config.fish:   tfwatch completion fish | source
"""
#: Set by the shell while it completes.
_VARIABLE = "_ARGCOMPLETE"
#: The newest runs that are completed.
_MOST = 200


def add(commands: Any) -> None:
    """Add the command's parser."""

    text = "print the code that makes a shell complete commands, options and the names of runs"
    own = options.add_command(commands, "completion", text, _run, epilog=_EPILOG)
    own.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))


def complete(parser: argparse.ArgumentParser) -> None:
    """Print the completions and end the process, where a shell asks for them; else do nothing."""
    if _VARIABLE not in os.environ:
        return
    import argcomplete

    _add_completers(parser)
    argcomplete.autocomplete(parser, always_complete_options=False, exit_method=sys.exit)


def _add_completers(parser: argparse.ArgumentParser) -> None:
    """Give the arguments that name a run or a workload their words, in this parser and those of its commands."""
    for action in parser._actions:
        if isinstance(action.choices, dict):
            for command in action.choices.values():
                _add_completers(command)
        elif "RUN" in str(action.metavar):
            setattr(action, "completer", _runs)  # noqa: B010  argcomplete's own attribute
        elif action.metavar == "WORKLOAD":
            setattr(action, "completer", _workloads)  # noqa: B010


def _runs(parsed_args: argparse.Namespace, **_: object) -> Iterable[str]:
    """Return the names of the newest runs, and those that the user gave them."""
    from tfwatch.runs.library.finding import list_folders
    from tfwatch.runs.library.labels import read_labels

    folders = list_folders(options.runs_dir(parsed_args))[:_MOST]
    return filter(None, (name for folder in folders for name in (folder.name, read_labels(folder).name)))


def _workloads(**_: object) -> Mapping[str, str]:
    """Return the workloads, each with its line."""
    from tfwatch.workloads.registry import WORKLOADS

    return {name: entry.line for name, entry in WORKLOADS.items()}


def _run(args: argparse.Namespace) -> int:
    from argcomplete.shell_integration import shellcode

    from tfwatch.terminal.output import write

    return write(sys.stdout, shellcode(["tfwatch"], shell=args.shell))
