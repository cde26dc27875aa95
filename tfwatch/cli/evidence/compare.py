"""`tfwatch compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.cli import options

if TYPE_CHECKING:
    import argparse


def add(commands: Any) -> None:
    """Add the command's parser."""
    text = "compare runs: every figure with the interval of its difference, and the settings that differ"
    compare = commands.add_parser(
        "compare", help=text, description=options.sentence(text), epilog=_EPILOG, allow_abbrev=False
    )
    compare.set_defaults(run=_run)
    compare.add_argument(
        "sides", metavar="RUN[,RUN2,...]", nargs="+", help=f"{options.RUN}; commas join several runs of one side"
    )
    compare.add_argument("--by-image", action="store_true", help="compare the time per image: batch sizes may differ")
    form = compare.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON object instead of the text")
    form.add_argument("--html", action="store_true", help="one HTML page, to show or send")
    form.add_argument("--screen", action="store_true", help="both sides on one axis, in the terminal")
    text = "where to write the page of --html; - is standard output; default: tfwatch-compare.html here"
    compare.add_argument("-o", "--output", metavar="FILE", type=options.typed(options.path), help=text)
    options.add_runs_dir(compare)
    options.add_theme(compare)


_EPILOG = (
    "The first side is the baseline. One run of each side cannot show how much equal runs differ, so a difference of a "
    "few percent stays unclear; three runs of each side, made in turn (A B A B A B), measure it. "
    "exit codes: 0 compared, 2 bad input, or runs that cannot be compared."
)


def _run(args: argparse.Namespace) -> int:
    from tfwatch.commands.evidence.compare import USUAL_PLACE, CompareOptions, Form, compare
    from tfwatch.workloads.workload import BadInputError

    if args.output and not args.html:
        raise BadInputError("-o names the file of --html: add --html")
    form: Form = "json" if args.json else "html" if args.html else "screen" if args.screen else "text"
    runs_dir, sides = options.runs_dir(args), tuple(args.sides)
    return compare(CompareOptions(sides, runs_dir, args.by_image, form, args.theme, args.output or USUAL_PLACE))
