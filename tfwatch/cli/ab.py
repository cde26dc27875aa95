"""`tfwatch ab`."""

from __future__ import annotations

import argparse
from typing import Any

from tfwatch.cli import options, train

_EPILOG = """\
The run alternates between the settings in short blocks of random order, until it is clear which is faster, or that
none is, and ends. With --epochs it trains on with the better one instead. What is trained is the same either way.
exit codes: 0 it ran, whatever the answer; 1 training failed; 2 bad input; 130 stopped by ctrl+c, which tells what is
known so far.
"""


def add(commands: Any) -> None:
    """Add the command's parser."""
    text = "try the settings of a knob in turn while a workload trains: which is faster?"
    own = commands.add_parser(
        "ab",
        help=text,
        description=options.sentence(text),
        epilog=_EPILOG,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    own.set_defaults(run=_run)
    own.hidden = train.options_of_others
    own.add_argument("workload", metavar="WORKLOAD", help="what to train, as for train")
    text = (
        "two or more settings of prefetch, workers, storage-latency or fast-form; the first is what others are held to"
    )
    own.add_argument("--knob", metavar="KNOB=A,B", type=options.typed(options.settings), required=True, help=text)
    train.add_knobs(own.add_argument_group("input pipeline, in the beginning"))
    text = "give up after so many steps; unless given, after 600 steps and 30 s"
    train.add_training(own.add_argument_group("training"), steps=text)
    train.add_computing(own.add_argument_group("how a step is computed"))
    train.add_gpu_sensor(own)
    showing = own.add_argument_group("how it is told")
    options.add_runs_dir(showing)
    showing.add_argument("--json", action="store_true", help="the summary as one JSON object, as train prints it")


def _run(args: argparse.Namespace) -> int:
    from tfwatch.commands.ab import Wish, ab

    knob, settings = args.knob
    wish = Wish(args.workload, train.settings_of(args), train.knobs_of(args), knob, settings, args.epochs is not None)
    return ab(wish, options.runs_dir(args), as_json=args.json, keep_awake=args.keep_awake, gpu_sensor=args.gpu_sensor)
