"""`tfwatch report`, `compare`, `check` and `export`: a recorded run for people and for other programs."""

from __future__ import annotations

import argparse
from typing import Any

from tfwatch.cli import options
from tfwatch.core import units

_REPORT_EPILOG = """\
The page needs no network and no script, follows the reader's light or dark theme, and prints.
exit codes: 0 written; 1 it cannot be written; 2 bad input.
"""


def add_report(commands: Any) -> None:
    """Add the command's parser."""
    text = "a recorded run as one HTML page, as Markdown for a pull request, or as JSON"
    own = options.add_command(commands, "report", text, _run_report, epilog=_REPORT_EPILOG)
    own.add_argument("which", metavar="RUN", nargs="?", help=f"{options.RUN} (the default)")
    text = "where to write it; - is standard output, the default but for the page: tfwatch-RUN.html"
    own.add_argument("-o", "--output", metavar="FILE", type=options.typed(options.path), help=text)
    form = own.add_mutually_exclusive_group()
    text = "a short summary in Markdown instead of the page"
    form.add_argument("--markdown", action="store_true", help=text)
    text = "all figures and findings as one JSON object instead of the page"
    form.add_argument("--json", action="store_true", help=text)
    text = "leave out paths, names and the host"
    own.add_argument("--redact", action=argparse.BooleanOptionalAction, help=text)
    options.add_runs_dir(own)


def _run_report(args: argparse.Namespace) -> int:
    from tfwatch.cli.report import Form, ReportOptions, report
    from tfwatch.core.errors import BadInputError

    form: Form = "json" if args.json else "markdown" if args.markdown else "html"
    is_redacted = bool(options.of_config(args, "redact")) and form != "json"
    if form == "json" and args.redact:
        raise BadInputError("--redact is for the page and Markdown: JSON holds all figures")
    return report(ReportOptions(args.which, options.runs_dir(args), args.output, form, is_redacted))


def add_compare(commands: Any) -> None:
    """Add the command's parser."""
    text = "compare runs: every figure with the interval of its difference, and the settings that differ"
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
    "The first side is the baseline. One run of each side cannot show how much equal runs differ, so a difference of a "
    "few percent stays unclear; three runs of each side, made in turn (A B A B A B), measure it. "
    "exit codes: 0 compared, 2 bad input, or runs that cannot be compared."
)


def _run_compare(args: argparse.Namespace) -> int:
    from tfwatch.cli.compare import CompareOptions, Form, compare

    form: Form = "json" if args.json else "markdown" if args.markdown else "text"
    return compare(CompareOptions(tuple(args.sides), options.runs_dir(args), args.by_example, form))


_MOST_PERCENT, _MOST_MS, _MOST_LOSS = 1e4, 1e9, 1e30


def add_check(commands: Any) -> None:
    """Add the command's parser."""
    text = "check a run against limits, for CI: each figure is decided by the end of its interval"
    check = options.add_command(commands, "check", text, _run_check, epilog=_CHECK_EPILOG)
    check.add_argument(
        "which", metavar="RUN[,RUN2,...]", help=f"{options.RUN}; commas join several equal runs"
    )
    for option, name, words in (
        ("--max-wait-share", "PERCENT", "largest data wait, of step time"),
        ("--max-step-ms", "MS", "largest step time"),
        ("--max-slower", "PERCENT", "largest step time over that of the baseline"),
        ("--max-loss", "LOSS", "largest loss at the end of the run"),
    ):
        check.add_argument(option, metavar=name, type=options.typed(_reader(option)), help=words)
    check.add_argument(
        "--max-memory",
        metavar="GB",
        type=options.typed(units.parse_gigabytes),
        help="largest memory of the process",
    )
    check.add_argument(
        "--baseline", metavar="RUN", default="", help="the run, or runs, for --max-slower"
    )
    check.add_argument(
        "--junit",
        metavar="FILE",
        type=options.typed(options.path),
        help="write JUnit XML to a file",
    )
    check.add_argument("--json", action="store_true", help="one JSON object instead of the text")
    options.add_runs_dir(check)


def _reader(option: str) -> Any:
    most = {"--max-step-ms": _MOST_MS, "--max-loss": _MOST_LOSS}.get(option, _MOST_PERCENT)
    return lambda text: units.parse_number(text, most)


_CHECK_EPILOG = (
    "exit codes: 0 all passed, 4 one failed, 3 inconclusive (a limit lies within an interval, or a figure is missing), "
    "2 bad input. On GitHub (GITHUB_ACTIONS, GITHUB_STEP_SUMMARY) it also writes annotations and a step summary."
)


def _run_check(args: argparse.Namespace) -> int:
    from tfwatch.cli.compare import CheckOptions, check
    from tfwatch.judge.comparing.checked_run import CheckLimits

    shares = (args.max_wait_share, args.max_slower)
    wait, slower = (None if share is None else share / 100 for share in shares)
    limits = CheckLimits(wait, args.max_step_ms, args.max_memory, args.max_loss, slower)
    return check(
        CheckOptions(
            args.which, options.runs_dir(args), limits, args.baseline, args.junit, args.json
        )
    )


#: As in `tfwatch.cli.report`, which loads numpy.
FORMATS = ("perfetto", "csv", "parquet", "tensorboard")
_EXPORT_EPILOG = """\
perfetto     one JSON file for ui.perfetto.dev or chrome://tracing: steps, their parts, stages, machine, events
csv          a folder with a plain CSV file a table: steps, samples, progress, stages, epochs, events
parquet      the same tables as Parquet files; needs pyarrow
tensorboard  a folder of scalars for tensorboard --logdir; needs tensorboard
exit codes: 0 written; 1 it cannot be written; 2 bad input.
"""


def add_export(commands: Any) -> None:
    """Add the command's parser."""
    text = "a recorded run for other tools: Perfetto, CSV, Parquet, TensorBoard"
    own = options.add_command(commands, "export", text, _run_export, epilog=_EXPORT_EPILOG)
    own.add_argument("which", metavar="RUN", nargs="?", help=f"{options.RUN} (the default)")
    own.add_argument("--to", choices=FORMATS, required=True, help="the format")
    text = "the file (perfetto) or the new folder (others); default: named after the run, here"
    own.add_argument("-o", "--output", metavar="PLACE", type=options.typed(options.path), help=text)
    text = "only the steps from FIRST to LAST, and what was recorded meanwhile"
    own.add_argument("--steps", metavar="FIRST:LAST", type=options.typed(_steps), help=text)
    options.add_runs_dir(own)


def _steps(text: str) -> tuple[int, int]:
    """Read the first and the last step.

    Raises:
        ValueError: it is no range; the message is for the user.
    """
    first, colon, last = text.partition(":")
    if not (colon and first.isdecimal() and last.isdecimal() and 0 < int(first) <= int(last)):
        raise ValueError(f"{text!r} is not a range of steps: give FIRST:LAST, e.g. 1000:2000")
    return int(first), int(last)


def _run_export(args: argparse.Namespace) -> int:
    from tfwatch.cli.report import ExportOptions, export

    return export(
        ExportOptions(args.which, options.runs_dir(args), args.to, args.output, args.steps)
    )
