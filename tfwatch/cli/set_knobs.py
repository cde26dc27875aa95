"""`tfwatch set`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.cli import attach, options

if TYPE_CHECKING:
    import argparse

_EPILOG = (
    "exit codes: 0 in effect, or requested with --no-wait; 1 refused by the training, or not in effect in time; "
    "2 bad input"
)
_WAIT_S = 30
_LONGEST_S = 86_400


def add(commands: Any) -> None:
    """Add the command's parser."""
    text = "switch the input pipeline of a training that runs in another terminal: tfwatch set cnn prefetch=4"
    own = options.add_command(commands, "set", text, _run, epilog=_EPILOG)
    own.add_argument("words", metavar="[RUN|PID] KNOB=VALUE", nargs="+", help=f"{attach.RUN_HELP}. The knobs: --switch")
    waiting = own.add_mutually_exclusive_group()
    waiting.add_argument("--no-wait", action="store_true", help="do not wait until the switch is in effect")
    waiting.add_argument(
        "--wait",
        metavar="SECONDS",
        type=options.whole(1, _LONGEST_S),
        default=_WAIT_S,
        help=f"the longest wait; default: {_WAIT_S}",
    )
    options.add_runs_dir(own)


def _run(args: argparse.Namespace) -> int:
    from tfwatch.commands.set_knobs import SetOptions, set_knobs
    from tfwatch.workloads.workload import BadInputError

    run, *changes = args.words if "=" not in args.words[0] else (None, *args.words)
    if not changes:
        raise BadInputError("set needs a setting: tfwatch set RUN KNOB=VALUE, e.g. prefetch=4")
    try:
        read = tuple(options.change(text) for text in changes)
    except ValueError as error:
        raise BadInputError(str(error)) from error
    return set_knobs(SetOptions(run, options.runs_dir(args), read, 0 if args.no_wait else args.wait))
