"""`tfwatch check`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfwatch.cli import options
from tfwatch.core import parsing

if TYPE_CHECKING:
    import argparse

_MOST_PERCENT, _MOST_MS, _MOST_LOSS = 1e4, 1e9, 1e30


def add(commands: Any) -> None:
    """Add the command's parser."""
    text = "check a run against limits, for CI: each figure is decided by the end of its interval"
    check = commands.add_parser(
        "check", help=text, description=options.sentence(text), epilog=_EPILOG, allow_abbrev=False
    )
    check.set_defaults(run=_run)
    check.add_argument("which", metavar="RUN[,RUN2,...]", help=f"{options.RUN}; commas join several equal runs")
    for option, name, words in (
        ("--max-wait-share", "PERCENT", "largest data wait, of step time"),
        ("--max-step-ms", "MS", "largest step time"),
        ("--max-slower", "PERCENT", "largest step time over that of the baseline"),
        ("--max-straggler-share", "PERCENT", "largest wait of a group for one rank, of its step time"),
        ("--max-loss", "LOSS", "largest loss at the end of the run"),
    ):
        check.add_argument(option, metavar=name, type=options.typed(_reader(option)), help=words)
    check.add_argument(
        "--max-memory", metavar="GB", type=options.typed(parsing.gigabytes), help="largest memory of the process"
    )
    check.add_argument("--baseline", metavar="RUN", default="", help="the run, or runs, for --max-slower")
    check.add_argument("--junit", metavar="FILE", type=options.typed(options.path), help="write JUnit XML to a file")
    check.add_argument("--json", action="store_true", help="one JSON object instead of the text")
    options.add_runs_dir(check)


def _reader(option: str) -> Any:
    most = {"--max-step-ms": _MOST_MS, "--max-loss": _MOST_LOSS}.get(option, _MOST_PERCENT)
    return lambda text: parsing.number(text, most)


_EPILOG = (
    "exit codes: 0 all passed, 4 one failed, 3 inconclusive (a limit lies within an interval, or a figure is missing), "
    "2 bad input. On GitHub (GITHUB_ACTIONS, GITHUB_STEP_SUMMARY) it also writes annotations and a step summary."
)


def _run(args: argparse.Namespace) -> int:
    from tfwatch.analysis.comparing.limits import Limits
    from tfwatch.commands.evidence.check import CheckOptions, check

    shares = (args.max_wait_share, args.max_slower, args.max_straggler_share)
    wait, slower, straggler = (None if share is None else share / 100 for share in shares)
    limits = Limits(wait, args.max_step_ms, args.max_memory, args.max_loss, slower, straggler)
    return check(CheckOptions(args.which, options.runs_dir(args), limits, args.baseline, args.junit, args.json))
