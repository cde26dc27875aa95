"""`tfwatch report` and `compare`: a recorded run as a page, as Markdown or JSON, and two runs
side by side, with a limit on the slowdown for CI."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfwatch.cli.named_runs import find, find_side, last_two, opened, readable
from tfwatch.core.errors import BadInputError, printable
from tfwatch.runs.group import is_group, open_group, without_group
from tfwatch.terminal.output import STANDARD_OUTPUT, write, write_text

if TYPE_CHECKING:
    import argparse

#: The exit codes of the outcomes of `--max-slower`.
EXIT_CODES = {"passed": 0, "failed": 4, "inconclusive": 3}


def report(args: argparse.Namespace) -> int:
    """Write the report of a run or a group and return the exit code.

    Raises:
        BadInputError: there is no such run, or the place cannot be written.
    """
    with readable(args.runs_dir):
        folder = without_group(find(args.which, args.runs_dir))
    if is_group(folder):
        return write_text(args.output or STANDARD_OUTPUT, _group_text(folder, args))
    text = _run_text(folder, args)
    if args.json or args.markdown:
        return write_text(args.output or STANDARD_OUTPUT, text)
    place = args.output or Path(f"tfwatch-{folder.absolute().name}.html")
    failed = write_text(place, text)
    if failed or place == STANDARD_OUTPUT:
        return failed
    return write(sys.stdout, f"{printable(str(place))}\n")


def _run_text(folder: Path, args: argparse.Namespace) -> str:
    from tfwatch.judge.judged_run import JudgedRun
    from tfwatch.report.markdown import as_markdown
    from tfwatch.report.page import as_html
    from tfwatch.report.run_facts import judged_json

    judged = JudgedRun(opened(folder))
    if args.json:
        return _json_text(judged_json(judged))
    if args.markdown:
        return as_markdown(judged)
    return as_html(judged)


def _group_text(folder: Path, args: argparse.Namespace) -> str:
    """Return the table of a group in Markdown, or as JSON."""
    from tfwatch.judge.groups.judged_group import judge_group
    from tfwatch.report.group_report import group_json, group_markdown

    with readable(folder):
        judged = judge_group(open_group(folder))
    if args.json:
        return _json_text(group_json(judged))
    return group_markdown(judged)


def _json_text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1) + "\n"


def compare(args: argparse.Namespace) -> int:
    """Print the comparison of two sides of runs, and return the exit code.

    Raises:
        BadInputError: there is no such run, or the runs cannot be compared.
    """
    from tfwatch.judge.comparing.compared_runs import compare_runs
    from tfwatch.judge.comparing.run_to_compare import NotComparableError
    from tfwatch.report.comparison_report import (
        comparison_json,
        comparison_lines,
        comparison_markdown,
    )

    words = (args.before, args.after) if args.after else last_two(args.before, args.runs_dir)
    before, after = (find_side(one, args.runs_dir) for one in words)
    try:
        compared = compare_runs(before, after)
    except NotComparableError as error:
        raise BadInputError(str(error)) from error
    limit = None if args.max_slower is None else args.max_slower / 100
    if args.json:
        text = _json_text(comparison_json(compared, limit))
    elif args.markdown:
        text = comparison_markdown(compared, limit)
    else:
        text = "\n".join(comparison_lines(compared, limit)) + "\n"
    return write(sys.stdout, text) or (0 if limit is None else EXIT_CODES[compared.outcome(limit)])
