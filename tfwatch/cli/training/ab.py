"""`tfwatch ab`."""

from __future__ import annotations

import argparse
from typing import Any

from tfwatch.cli import options
from tfwatch.cli.training import train

_EPILOG = """\
The run alternates between the settings in short blocks of random order and ends when it is clear which one is faster,
or that none is. With --epochs it then trains on with the faster one. The training result is the same either way.
exit codes: 0 it ran, whatever the answer; 1 training failed; 2 bad input; 130 stopped by ctrl+c, with the result
so far.
"""


def add(commands: Any) -> None:
    """Add the command's parser."""
    text = "A/B test: alternate between settings of a knob while a workload trains; which is faster?"
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
    own.add_argument("workload", metavar="WORKLOAD", action=options.WorkloadAction, help="what to train, as for train")
    text = "two or more settings of one knob (prefetch=off,4): the others are compared with the first"
    own.add_argument("--knob", metavar="KNOB=A,B", type=options.typed(options.settings), required=True, help=text)
    train.add_knobs(own.add_argument_group("input pipeline, at the start"))
    text = "steps after which it gives up; without it, after 600 steps and 30 s"
    train.add_training(own.add_argument_group("training"), steps=text)
    train.add_computing(own.add_argument_group("computation of a step"))
    train.add_gpu_sensor(own)
    showing = own.add_argument_group("output")
    options.add_runs_dir(showing)
    options.add_notify(showing)
    showing.add_argument("--json", action="store_true", help="the summary as one JSON object, as train prints it")


def _run(args: argparse.Namespace) -> int:
    from tfwatch.commands.training.ab import ExperimentOptions, ab

    knob, settings = args.knob
    request = ExperimentOptions(
        args.workload, train.settings_of(args), train.knobs_of(args), knob, settings, args.epochs is not None
    )
    return ab(
        request,
        options.runs_dir(args),
        as_json=args.json,
        keep_awake=args.keep_awake,
        gpu_sensor=args.gpu_sensor,
        notify=options.notify(args),
    )
