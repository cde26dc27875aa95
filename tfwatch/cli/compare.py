"""`tfwatch compare` and `check`: runs side by side, and a run against limits, by the intervals of
their figures."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

from tfwatch.cli.named_runs import find_side
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import BadInputError
from tfwatch.judge.comparing.checked_run import CheckLimits, check_runs, worst
from tfwatch.judge.comparing.compared_runs import compare_runs
from tfwatch.judge.comparing.run_to_compare import NotComparableError
from tfwatch.report.check_report import (
    check_json,
    check_lines,
    github_annotations,
    junit_xml,
    step_summary,
)
from tfwatch.report.comparison_report import (
    SIDES,
    comparison_json,
    comparison_lines,
    comparison_markdown,
)
from tfwatch.terminal.output import write

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tfwatch.judge.comparing.checked_run import CheckedFigure

#: The exit codes of the outcomes.
EXIT_CODES = {"passed": 0, "failed": 4, "inconclusive": 3}


def compare(args: argparse.Namespace, clock: Clock = SYSTEM) -> int:
    """Print the comparison of the first side with each of the others, and return the exit code.

    Raises:
        BadInputError: there is no such run, or the runs cannot be compared.
    """
    if len(args.sides) > len(SIDES):
        raise BadInputError(f"give at most {len(SIDES)} sides")
    sides = [find_side(words, args.runs_dir, clock) for words in args.sides]
    try:
        comparisons = compare_runs(sides, args.by_example)
    except NotComparableError as error:
        raise BadInputError(str(error)) from error
    if args.json:
        text = json.dumps(comparison_json(sides, comparisons), indent=1) + "\n"
    elif args.markdown:
        text = comparison_markdown(sides, comparisons)
    else:
        text = "\n".join(comparison_lines(sides, comparisons)) + "\n"
    return write(sys.stdout, text)


def check(args: argparse.Namespace, clock: Clock = SYSTEM) -> int:
    """Print the figures of a run with their outcomes, and return the exit code.

    Raises:
        BadInputError: there is no such run, there is no limit, or a report cannot be written.
    """
    limits = _limits(args)
    runs = find_side(args.which, args.runs_dir, clock)
    baseline = find_side(args.baseline, args.runs_dir, clock) if args.baseline else []
    try:
        figures = check_runs(runs, limits, baseline)
    except NotComparableError as error:
        raise BadInputError(str(error)) from error
    names = [one.name for one in runs]
    _write_reports(args.junit, os.environ, names, figures)
    if args.json:
        text = json.dumps(check_json(names, [one.name for one in baseline], figures), indent=1)
    else:
        text = "\n".join(check_lines(figures))
    return write(sys.stdout, text + "\n") or EXIT_CODES[worst([one.outcome for one in figures])]


def _limits(args: argparse.Namespace) -> CheckLimits:
    """Return the limits.

    Raises:
        BadInputError: there is none, or one of a baseline and its limit is missing.
    """
    shares = (args.max_wait_share, args.max_slower)
    wait, slower = (None if share is None else share / 100 for share in shares)
    limits = CheckLimits(wait, args.max_step_ms, args.max_memory, args.max_loss, slower)
    if limits == CheckLimits():
        raise BadInputError(
            "give a limit: --max-wait-share, --max-step-ms, --max-memory, --max-loss, "
            "or --baseline with --max-slower"
        )
    if bool(args.baseline) != (slower is not None):
        missing = "--max-slower PERCENT" if args.baseline else "--baseline RUN"
        raise BadInputError(
            f"give {missing} too: a run is checked against the baseline's step time"
        )
    return limits


def _write_reports(
    junit: Path | None,
    environment: Mapping[str, str],
    names: Sequence[str],
    figures: Sequence[CheckedFigure],
) -> None:
    """Write the JUnit file, and, on GitHub, annotations to stderr and the step summary."""
    if junit:
        _write(junit, junit_xml(names, figures), "w")
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
