"""Options that several commands share, and readers of option values. A ValueError's message is for
the user."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from tfwatch import config
from tfwatch.core import units

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tfwatch.notices import NotifyOptions
    from tfwatch.runs.library.removal import RunsToKeep

THEMES, path = config.THEMES, config.path
#: The help of an argument that names a run.
RUN = "a run folder, part of a run's name, or latest"
#: Of one that names a training.
TRAINING = (
    "a run folder, part of a run's name, or a process id; default: the newest training that runs"
)


def sentence(text: str) -> str:
    """Return a command's help as its description: a capital first, and names such as GPU
    unchanged."""
    return text[:1].upper() + text[1:] + ("" if text.endswith("?") else ".")


def add_command(
    commands: Any,
    name: str,
    text: str,
    run: Callable[[argparse.Namespace], int],
    *,
    more: str = "",
    epilog: str = "",
    **parser: Any,
) -> Any:
    """Add a command's parser and return it.

    text: its help, in lower case; more: what the description adds. epilog: printed as it is where
    it has several lines.
    """
    has_lines = "\n" in epilog
    own = commands.add_parser(
        name,
        help=text,
        description=f"{sentence(text)} {more}".rstrip(),
        epilog=epilog,
        allow_abbrev=False,
        formatter_class=(
            argparse.RawDescriptionHelpFormatter if has_lines else argparse.HelpFormatter
        ),
        **parser,
    )
    own.set_defaults(run=run)
    return own


def add_runs_dir(group: Any, default: str | None = None) -> None:
    """`--runs-dir`."""
    group.add_argument(
        "--runs-dir", metavar="DIR", type=typed(path), default=default, help="folder of the runs"
    )


def add_theme(group: Any) -> None:
    """`--theme`."""
    text = (
        f"colours of the screen: {' or '.join(THEMES)}; remembered, as the choice in the palette"
        " (ctrl+p)"
    )
    group.add_argument("--theme", choices=THEMES, help=text)


def add_notify(group: Any) -> None:
    """Add the options of notices."""
    text = (
        "ring the bell, and notify the desktop where the terminal can: the end, a failure, no batch"
        " for 30 s"
    )
    group.add_argument("--notify", action=argparse.BooleanOptionalAction, help=text)
    text = "run this command for each notice, its last argument; no shell runs it"
    group.add_argument("--notify-command", metavar="COMMAND", type=typed(config.command), help=text)


def add_keep(group: Any) -> None:
    """Add the limits of the runs that are kept."""
    text = "remove older runs than the newest N in the runs folder; never one that runs"
    group.add_argument("--keep-runs", metavar="N", type=whole(1, config.MOST_RUNS), help=text)
    group.add_argument(
        "--keep-age",
        metavar="AGE",
        type=typed(units.parse_age),
        help="remove older runs: 12h, 30d, 8w",
    )
    text = "remove the oldest runs beyond so many gigabytes"
    group.add_argument("--keep-size", metavar="GB", type=typed(units.parse_gigabytes), help=text)


def add_group(group: Any) -> None:
    """Add `--group`."""
    text = (
        "this process is one of several that train together: record below the folder of this group"
    )
    group.add_argument("--group", metavar="NAME", type=typed(_group_name), help=text)


def _group_name(text: str) -> str:
    if not text.strip():
        raise ValueError("a group needs a name")
    return text.strip()


def join_group(args: argparse.Namespace) -> None:
    """Set the variable by which the runs of this process and of its child find their group."""
    if args.group:
        from tfwatch.runs.group_joining import GROUP

        os.environ[GROUP] = args.group


def add_feed(group: Any) -> None:
    """Add `--feed`."""
    text = "feed each fit from the tf.data service that runs there; the order of elements changes"
    group.add_argument("--feed", metavar="HOST:PORT", type=typed(_address), help=text)


def _address(text: str) -> str:
    """Return HOST:PORT.

    Raises:
        ValueError: it is none.
    """
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise ValueError(f"an address is HOST:PORT, as localhost:5000, not {text!r}")
    return text


def use_feed(args: argparse.Namespace) -> None:
    """Set the variable by which the script's process finds its feed."""
    from tfwatch.watch.script.keras_hook import FEED

    if args.feed:
        os.environ[FEED] = args.feed


def add_verbosity(group: Any, quiet: str) -> None:
    """Add `-q` and `-v`. quiet: the help of `-q`."""
    one = group.add_mutually_exclusive_group()
    one.add_argument("-q", "--quiet", action=argparse.BooleanOptionalAction, help=quiet)
    text = (
        "print on stderr which settings are in force, each from an option, the config file or by"
        " default"
    )
    one.add_argument("-v", "--verbose", action="store_true", help=text)


def runs_dir(args: argparse.Namespace) -> Path:
    """Return the folder of the runs."""
    from tfwatch.runs.library.finding import default_runs_dir

    return args.runs_dir or default_runs_dir()


def of_config(args: argparse.Namespace, name: str) -> Any:
    """Return the value of an option, else that of the config file; None without either."""
    from tfwatch.config import read_config

    given = getattr(args, name.replace("-", "_"), None)
    return read_config().values.get(name) if given is None else given


def notify(args: argparse.Namespace) -> NotifyOptions:
    """Return the notices that the user asks for. `--no-notify` turns the command of the config file
    off too."""
    from tfwatch.notices import NotifyOptions

    command = args.notify_command if args.notify is False else of_config(args, "notify-command")
    return NotifyOptions(bool(of_config(args, "notify")), command or ())


def limits(args: argparse.Namespace) -> RunsToKeep | None:
    """Return the limits of the runs that are kept, None without any; those of the config file hold
    for its own folder.

    A folder that is named beside the command may hold what another limit has to keep.
    """
    from tfwatch.runs.library.removal import RunsToKeep, configured_limits

    given = RunsToKeep(args.keep_age, args.keep_runs, args.keep_size)
    return given if given != RunsToKeep() else configured_limits(runs_dir(args))


#: A limit against typing errors. A size that does not fit into memory is reported and may be tried.
LARGEST_BATCH = 10_000_000


def typed(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a reader for argparse, which shows the message of an ArgumentTypeError only."""

    def typed(text: str) -> Any:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return typed


def whole(least: int, most: int) -> Callable[[str], int]:
    """Return a reader of whole numbers within limits."""

    return typed(lambda text: units.parse_whole(text, least, most))


def switch(text: str) -> Any:
    """Read a planned switch."""
    from tfwatch.runs.request_text import parse_switch

    return parse_switch(text)


def change(text: str) -> Any:
    """Read a knob and its value, see `request_text.parse_change`."""
    from tfwatch.runs.request_text import parse_change

    return parse_change(text)


def settings(text: str) -> Any:
    """Read a knob and its settings, see `request_text.parse_settings`."""
    from tfwatch.runs.request_text import parse_settings

    return parse_settings(text)


def words(text: str) -> list[str]:
    """Read words separated by commas, each once."""
    return list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def wholes(text: str) -> list[int]:
    """Read batch sizes separated by commas."""
    return [whole(1, LARGEST_BATCH)(word) for word in words(text)]
