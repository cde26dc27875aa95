"""`tfwatch compare`: runs side by side, with the intervals of their differences."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tfwatch.cli import options
from tfwatch.cli.named_runs import find_side
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import BadInputError
from tfwatch.terminal.output import write

if TYPE_CHECKING:
    import argparse
    from pathlib import Path


def add_compare(commands: Any, text: str) -> None:
    """Add the command's parser. text: its help."""
    compare = options.add_command(commands, "compare", text, _run_compare, epilog=_COMPARE_EPILOG)
    compare.add_argument(
        "sides",
        metavar="RUN[,RUN2,...]",
        nargs="+",
        help=f"{options.RUN}; commas join several runs of one side",
    )
    compare.add_argument(
        "--by-example",
        action="store_true",
        help="compare the time per example: batch sizes may differ",
    )
    form = compare.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON object instead of the text")
    form.add_argument(
        "--markdown", action="store_true", help="a table in Markdown, for a pull request"
    )
    options.add_runs_dir(compare)


_COMPARE_EPILOG = (
    "The first side is the baseline. One run of each side cannot show how much equal runs differ,"
    " so a difference of a few percent stays unclear; three runs of each side, made in turn (A B A"
    " B A B), measure it. exit codes: 0 compared, 2 bad input, or runs that cannot be compared."
)


def _run_compare(args: argparse.Namespace) -> int:
    form: Form = "json" if args.json else "markdown" if args.markdown else "text"
    return compare(CompareOptions(tuple(args.sides), options.runs_dir(args), args.by_example, form))


Form: TypeAlias = Literal["text", "markdown", "json"]


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """The options of `tfwatch compare`. sides: a run each, or several separated by commas."""

    sides: tuple[str, ...]
    runs_dir: Path
    by_example: bool = False
    form: Form = "text"


def compare(options: CompareOptions, clock: Clock = SYSTEM) -> int:
    """Print the comparison of the first side with each of the others, and return the exit code.

    Raises:
        BadInputError: there is no such run, or the runs cannot be compared.
    """
    from tfwatch.judge.comparing.compared_runs import compare_runs
    from tfwatch.judge.comparing.run_to_compare import NotComparableError
    from tfwatch.report.comparison_report import (
        SIDES,
        comparison_json,
        comparison_lines,
        comparison_markdown,
    )

    if len(options.sides) > len(SIDES):
        raise BadInputError(f"give at most {len(SIDES)} sides")
    sides = [find_side(words, options.runs_dir, clock) for words in options.sides]
    try:
        comparisons = compare_runs(sides, options.by_example)
    except NotComparableError as error:
        raise BadInputError(str(error)) from error
    match options.form:
        case "json":
            return write(
                sys.stdout, json.dumps(comparison_json(sides, comparisons), indent=1) + "\n"
            )
        case "markdown":
            return write(sys.stdout, comparison_markdown(sides, comparisons))
    return write(sys.stdout, "\n".join(comparison_lines(sides, comparisons)) + "\n")
