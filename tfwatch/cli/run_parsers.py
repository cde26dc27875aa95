"""`tfwatch runs`, `replay`, `attach` and `set`: recorded runs, and trainings of other processes."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from tfwatch.cli import options
from tfwatch.core import units

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST = 1_000_000


def add_runs(commands: Any) -> None:
    """Add the command's parser and those of its actions."""
    text = "list the recorded runs, and remove them"
    runs = options.add_command(commands, "runs", text, _list)
    runs.add_argument(
        "--filter", metavar="TEXT", default="", help="those with the text in name or state"
    )
    runs.add_argument("--last", metavar="N", type=options.whole(1, _MOST), help="the newest N")
    runs.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    options.add_runs_dir(runs)
    actions = runs.add_subparsers(title="actions", metavar="ACTION")
    _add_removals(actions)
    runs.commands = tuple(actions.choices)


def _action(actions: Any, name: str, text: str, run: Callable[[argparse.Namespace], int]) -> Any:
    action = options.add_command(actions, name, text, run)
    options.add_runs_dir(
        action, default=argparse.SUPPRESS
    )  # keeps DIR of `tfwatch runs --runs-dir DIR ACTION`
    return action


def _add_removals(actions: Any) -> None:
    remove = _action(actions, "remove", "remove runs with all their files", _remove)
    remove.add_argument("which", metavar="RUN", nargs="+", help=options.RUN)
    prune = _action(
        actions,
        "prune",
        "remove runs beyond a limit; never one that still runs",
        _prune,
    )
    prune.add_argument(
        "--older-than", metavar="AGE", type=options.typed(units.parse_age), help="as 12h, 30d, 8w"
    )
    prune.add_argument(
        "--keep", metavar="N", type=options.whole(0, _MOST), help="all but the newest N"
    )
    prune.add_argument(
        "--max-size",
        metavar="GB",
        type=options.typed(units.parse_gigabytes),
        help="all but the newest GB",
    )
    for action in (remove, prune):
        action.add_argument("--yes", action="store_true", help="do not ask")
        action.add_argument(
            "--dry-run", action="store_true", help="only list what would be removed"
        )


def _list(args: argparse.Namespace) -> int:
    from tfwatch.cli.runs import Listing, list_past_runs

    return list_past_runs(Listing(options.runs_dir(args), args.filter, args.last, args.json))


def _remove(args: argparse.Namespace) -> int:
    from tfwatch.cli.runs import remove_runs

    return remove_runs(_removal(args), args.which)


def _prune(args: argparse.Namespace) -> int:
    from tfwatch.cli.runs import prune_runs
    from tfwatch.core.errors import BadInputError
    from tfwatch.runs.library.removal import RunsToKeep

    limits = RunsToKeep(args.older_than, args.keep, args.max_size)
    if limits == RunsToKeep():
        raise BadInputError("give a limit: --older-than, --keep or --max-size")
    return prune_runs(_removal(args), limits)


def _removal(args: argparse.Namespace) -> Any:
    from tfwatch.cli.runs import Removal

    return Removal(options.runs_dir(args), args.yes, args.dry_run)


def add_replay(commands: Any) -> None:
    """Add the command's parser."""
    text = "open a recorded run in the same screen; a run that still trains is followed, read only"
    replay = options.add_command(commands, "replay", text, _run_replay)
    replay.add_argument("which", metavar="RUN", nargs="?", help=f"{options.RUN} (the default)")
    replay.add_argument(
        "--goes-back", action="store_true", help=argparse.SUPPRESS
    )  # for the launcher
    options.add_runs_dir(replay)
    options.add_theme(replay)
    options.add_notify(replay)


def _run_replay(args: argparse.Namespace) -> int:
    from tfwatch.cli.replay import ReplayOptions, replay

    theme, notices = options.of_config(args, "theme"), options.notify(args)
    return replay(ReplayOptions(args.which, options.runs_dir(args), theme, notices, args.goes_back))


RUN_HELP = (
    "a run folder, part of a run's name, or a process id; default: the newest training that runs"
)


def add_attach(commands: Any) -> None:
    """Add the command's parser."""
    text = "the live screen, with its keys, on a training that runs in another terminal; d leaves it again"
    attach = options.add_command(commands, "attach", text, _run_attach)
    attach.add_argument("which", metavar="RUN|PID", nargs="?", help=RUN_HELP)
    options.add_runs_dir(attach)
    options.add_theme(attach)
    options.add_notify(attach)


def _run_attach(args: argparse.Namespace) -> int:
    from tfwatch.cli.attach import attach
    from tfwatch.cli.replay import ReplayOptions

    theme = options.of_config(args, "theme")
    return attach(
        ReplayOptions(args.which, options.runs_dir(args), theme, notify=options.notify(args))
    )


_SET_EPILOG = (
    "exit codes: 0 in effect, or requested with --no-wait; 1 refused by the training, or not in effect in time; "
    "2 bad input"
)
_SET_WAIT_S = 30
_LONGEST_WAIT_S = 86_400


def add_set(commands: Any) -> None:
    """Add the command's parser."""
    text = "switch the input pipeline of a training that runs in another terminal: tfwatch set cnn prefetch=4"
    own = options.add_command(commands, "set", text, _run_set, epilog=_SET_EPILOG)
    own.add_argument(
        "words", metavar="[RUN|PID] KNOB=VALUE", nargs="+", help=f"{RUN_HELP}. The knobs: --switch"
    )
    waiting = own.add_mutually_exclusive_group()
    waiting.add_argument(
        "--no-wait", action="store_true", help="do not wait until the switch is in effect"
    )
    waiting.add_argument(
        "--wait",
        metavar="SECONDS",
        type=options.whole(1, _LONGEST_WAIT_S),
        default=_SET_WAIT_S,
        help=f"the longest wait; default: {_SET_WAIT_S}",
    )
    options.add_runs_dir(own)


def _run_set(args: argparse.Namespace) -> int:
    from tfwatch.cli.attach import set_knobs
    from tfwatch.core.errors import BadInputError

    run, *changes = args.words if "=" not in args.words[0] else (None, *args.words)
    if not changes:
        raise BadInputError("set needs a setting: tfwatch set RUN KNOB=VALUE, e.g. prefetch=4")
    try:
        read = tuple(options.change(text) for text in changes)
    except ValueError as error:
        raise BadInputError(str(error)) from error
    return set_knobs(run, options.runs_dir(args), read, 0 if args.no_wait else args.wait)
