"""`tfwatch compare`: two runs side by side, and a limit on the slowdown for CI."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from tfwatch.cli.named_runs import find_side
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import BadInputError
from tfwatch.judge.comparing.compared_runs import compare_runs
from tfwatch.judge.comparing.run_to_compare import NotComparableError
from tfwatch.report.comparison_report import (
    comparison_json,
    comparison_lines,
    comparison_markdown,
)
from tfwatch.terminal.output import write

if TYPE_CHECKING:
    import argparse

#: The exit codes of the outcomes of `--max-slower`.
EXIT_CODES = {"passed": 0, "failed": 4, "inconclusive": 3}


def compare(args: argparse.Namespace, clock: Clock = SYSTEM) -> int:
    """Print the comparison of two sides of runs, and return the exit code.

    Raises:
        BadInputError: there is no such run, or the runs cannot be compared.
    """
    before, after = (find_side(words, args.runs_dir, clock) for words in (args.before, args.after))
    try:
        compared = compare_runs(before, after, args.by_example)
    except NotComparableError as error:
        raise BadInputError(str(error)) from error
    limit = None if args.max_slower is None else args.max_slower / 100
    if args.json:
        text = json.dumps(comparison_json(compared, limit), indent=1) + "\n"
    elif args.markdown:
        text = comparison_markdown(compared, limit)
    else:
        text = "\n".join(comparison_lines(compared, limit)) + "\n"
    return write(sys.stdout, text) or (0 if limit is None else EXIT_CODES[compared.outcome(limit)])
