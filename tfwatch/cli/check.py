"""`tfwatch check`: a run against limits, by the intervals of its figures."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tfwatch.cli import options
from tfwatch.cli.named_runs import find_side
from tfwatch.core import units
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import BadInputError
from tfwatch.terminal.output import write

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tfwatch.judge.comparing.checked_run import CheckedFigure, CheckLimits

_MOST_PERCENT, _MOST_MS, _MOST_LOSS = 1e4, 1e9, 1e30


def add_check(commands: Any, text: str) -> None:
    """Add the command's parser. text: its help."""
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
    "exit codes: 0 all passed, 4 one failed, 3 inconclusive (a limit lies within an interval, or a"
    " figure is missing), 2 bad input. On GitHub (GITHUB_ACTIONS, GITHUB_STEP_SUMMARY) it also"
    " writes annotations and a step summary."
)


def _run_check(args: argparse.Namespace) -> int:
    from tfwatch.judge.comparing.checked_run import CheckLimits

    shares = (args.max_wait_share, args.max_slower)
    wait, slower = (None if share is None else share / 100 for share in shares)
    limits = CheckLimits(wait, args.max_step_ms, args.max_memory, args.max_loss, slower)
    return check(
        CheckOptions(
            args.which, options.runs_dir(args), limits, args.baseline, args.junit, args.json
        )
    )


#: The exit codes of the outcomes.
EXIT_CODES = {"passed": 0, "failed": 4, "inconclusive": 3}


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """The options of `tfwatch check`. run, baseline: a run, or several separated by commas. junit:
    a file."""

    run: str
    runs_dir: Path
    limits: CheckLimits
    baseline: str = ""
    junit: Path | None = None
    as_json: bool = False


def check(
    options: CheckOptions, environment: Mapping[str, str] = os.environ, clock: Clock = SYSTEM
) -> int:
    """Print the figures with their outcomes, and return the exit code.

    Raises:
        BadInputError: there is no such run, there is no limit, or a report cannot be written.
    """
    from tfwatch.judge.comparing.checked_run import check_runs, worst
    from tfwatch.judge.comparing.run_to_compare import NotComparableError
    from tfwatch.report.check_report import check_json, check_lines

    _check_options(options)
    runs = find_side(options.run, options.runs_dir, clock)
    baseline = find_side(options.baseline, options.runs_dir, clock) if options.baseline else []
    try:
        figures = check_runs(runs, options.limits, baseline)
    except NotComparableError as error:
        raise BadInputError(str(error)) from error
    names = [one.name for one in runs]
    _write_reports(options, environment, names, figures)
    if options.as_json:
        text = json.dumps(check_json(names, [one.name for one in baseline], figures), indent=1)
    else:
        text = "\n".join(check_lines(figures))
    return write(sys.stdout, text + "\n") or EXIT_CODES[worst([one.outcome for one in figures])]


def _check_options(options: CheckOptions) -> None:
    from tfwatch.judge.comparing.checked_run import CheckLimits

    if options.limits == CheckLimits():
        raise BadInputError(
            "give a limit: --max-wait-share, --max-step-ms, --max-memory, --max-loss, "
            "or --baseline with --max-slower"
        )
    if bool(options.baseline) != (options.limits.slower_share is not None):
        missing = "--max-slower PERCENT" if options.baseline else "--baseline RUN"
        raise BadInputError(
            f"give {missing} too: a run is checked against the baseline's step time"
        )


def _write_reports(
    options: CheckOptions,
    environment: Mapping[str, str],
    names: Sequence[str],
    figures: Sequence[CheckedFigure],
) -> None:
    """Write the JUnit file, and, on GitHub, annotations to stderr and the step summary."""
    from tfwatch.report.check_report import github_annotations, junit_xml, step_summary

    if options.junit:
        _write(options.junit, junit_xml(names, figures), "w")
    if environment.get("GITHUB_ACTIONS") == "true":
        sys.stderr.write("".join(f"{line}\n" for line in github_annotations(names, figures)))
    if summary := environment.get("GITHUB_STEP_SUMMARY"):
        _write(summary, step_summary(names, figures), "a")


def _write(path: Path | str, text: str, mode: str) -> None:
    try:
        with open(path, mode, encoding="utf-8", errors="replace") as file:
            file.write(text)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise BadInputError(f"{path} cannot be written: {reason or error}") from error
