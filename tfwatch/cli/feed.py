"""`tfwatch feed`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.cli import options

if TYPE_CHECKING:
    import argparse


def add(commands: Any) -> None:
    """Add the command's parser."""
    text = "prepare batches for trainings: a tf.data service with workers on this machine, until Ctrl-C"
    more = (
        "Trainings use it with tfwatch run --feed HOST:PORT. The service has no authentication: who reaches its port "
        "runs graphs of TensorFlow here. Without --host no other machine reaches it."
    )
    own = commands.add_parser("feed", help=text, description=f"{options.sentence(text)} {more}", allow_abbrev=False)
    own.set_defaults(run=_run)
    _add_arguments(own)


def _add_arguments(own: argparse.ArgumentParser) -> None:
    own.add_argument("--workers", metavar="N", type=options.feed_workers, default=1, help="how many workers (1)")
    text = "no dispatcher: add the workers to the one that runs there"
    one = own.add_mutually_exclusive_group()
    one.add_argument("--join", metavar="HOST:PORT", type=options.typed(options.address), help=text)
    text = "the dispatcher's port (a free one)"
    one.add_argument("--port", metavar="PORT", type=options.whole(1, 2**16 - 1), default=0, help=text)
    text = "the name by which other machines reach this one: opens the ports to all of them"
    own.add_argument("--host", metavar="HOST", default="localhost", help=text)


def _run(args: argparse.Namespace) -> int:
    from tfwatch.commands.feed import serve

    return serve(args.workers, args.join, args.host, args.port)
