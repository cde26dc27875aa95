"""`tfwatch completion`: a shell completes commands, options, workloads, values of knobs and the
names of runs."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

from tfwatch.cli import options

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import TypeAlias

    _Completer: TypeAlias = Callable[..., Iterable[str]]

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
#: The values of knobs that are completed, where the knob takes them.
_VALUES = ("off", "on", "default", "auto", "2", "4", "8")


def add_completion(commands: Any, text: str) -> None:
    """Add the command's parser. text: its help."""
    own = options.add_command(commands, "completion", text, _run, epilog=_EPILOG)
    own.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))


def typed_words() -> list[str]:
    """Return the words after `tfwatch` of the line that a shell completes; empty where none
    does."""
    return os.environ.get("COMP_LINE", "").split()[1:] if _VARIABLE in os.environ else []


def complete(parser: argparse.ArgumentParser) -> None:
    """Print the completions and end the process, where a shell asks for them; else do nothing."""
    if _VARIABLE not in os.environ:
        return
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
        elif action.choices is None and (completer := _completer_of(action)):
            setattr(action, "completer", completer)  # noqa: B010  argcomplete's own attribute


def _completer_of(action: argparse.Action) -> _Completer | None:
    """Return what completes an argument; None for files, numbers, and where argparse knows the
    choices."""
    place = str(action.metavar)
    if "RUN" in place:
        return _runs_and_changes if "=" in place else _runs
    by_place: dict[str, _Completer] = {
        "WORKLOAD": _workloads,
        "KNOB=A,B": _knob_settings,
        "STEP:KNOB=VALUE": _switches,
    }
    by_name: dict[str, _Completer] = {"gpu_sensor": _gpu_sensors}
    return by_place.get(place) or by_name.get(action.dest)


def _runs(parsed_args: argparse.Namespace, prefix: str, **_: object) -> Iterable[str]:
    """Return the names of the newest runs, also after a comma."""
    from tfwatch.runs.library.finding import list_folders

    folders = list_folders(options.runs_dir(parsed_args))[:_MOST]
    return _after(prefix, ",", (folder.name for folder in folders))


def _runs_and_changes(parsed_args: argparse.Namespace, prefix: str, **_: object) -> Iterable[str]:
    """Return the runs, and each knob with its values."""
    from tfwatch.core.knobs import KNOBS

    return [*_runs(parsed_args, prefix), *_changes(KNOBS)]


def _switches(prefix: str, **_: object) -> Iterable[str]:
    """Return each knob with its values, after the step."""
    from tfwatch.core.knobs import KNOBS

    return _after(prefix, ":", _changes(KNOBS))


def _knob_settings(prefix: str, **_: object) -> Iterable[str]:
    """Return each knob with its values; after the first one of a knob, its values alone."""
    from tfwatch.runs.request_text import LIVE_KNOBS

    knob, _equals, values = prefix.partition("=")
    return (
        [f"{knob}={one}" for one in _after(values, ",", _values(knob))]
        if "," in values
        else _changes(LIVE_KNOBS)
    )


def _after(prefix: str, mark: str, words: Iterable[str]) -> Iterable[str]:
    """Return the words behind what stands before the last mark."""
    before, comma, _ = prefix.rpartition(mark)
    return [f"{before}{comma}{word}" for word in words]


def _changes(knobs: Iterable[str]) -> Iterable[str]:
    from tfwatch.core.knobs import option_name

    return [
        f"{option_name(knob)}={value}" for knob in knobs for value in _values(option_name(knob))
    ]


def _values(name: str) -> Iterator[str]:
    """Yield the values of a knob that its reader takes; none where there is no such knob."""
    from tfwatch.core.knobs import KNOBS, check_value, option_name

    for knob in KNOBS:
        for value in _VALUES if option_name(knob) == name.replace("_", "-") else ():
            with contextlib.suppress(ValueError):
                check_value(knob, value)
                yield value


def _gpu_sensors(**_: object) -> Iterable[str]:
    from tfwatch.config import GPU_SENSORS

    return GPU_SENSORS


def _workloads(**_: object) -> Mapping[str, str]:
    """Return the workloads, each with its line."""
    from tfwatch.workloads import list_workloads

    return list_workloads()


def _run(args: argparse.Namespace) -> int:
    from argcomplete.shell_integration import shellcode

    from tfwatch.terminal.output import write

    return write(sys.stdout, shellcode(["tfwatch"], shell=args.shell))
