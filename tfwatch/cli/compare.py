"""`tfwatch compare` and `tfwatch check`: runs side by side, or against limits, with the intervals of their figures."""

from __future__ import annotations

import functools
import json
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from tfwatch.cli.named_runs import find_past, find_side
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import BadInputError
from tfwatch.judge.comparing.checked_run import CheckLimits, check_runs, worst
from tfwatch.judge.comparing.comparability import NotComparableError
from tfwatch.judge.comparing.compared_runs import compare_runs
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
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tfwatch.judge.comparing.checked_run import CheckedFigure

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
    if len(options.sides) > len(SIDES):
        raise BadInputError(f"give at most {len(SIDES)} sides")
    sides = [find_side(words, options.runs_dir, clock) for words in options.sides]
    past = functools.partial(find_past, runs_dir=options.runs_dir, clock=clock)
    try:
        comparisons = compare_runs(sides, past, options.by_example)
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


#: The exit codes of the outcomes.
EXIT_CODES = {"passed": 0, "failed": 4, "inconclusive": 3}


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """The options of `tfwatch check`. run, baseline: a run, or several separated by commas. junit: a file."""

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
    _check_options(options)
    runs = find_side(options.run, options.runs_dir, clock)
    baseline = find_side(options.baseline, options.runs_dir, clock) if options.baseline else []
    past = functools.partial(find_past, runs_dir=options.runs_dir, clock=clock)
    try:
        figures = check_runs(runs, options.limits, baseline, past)
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
