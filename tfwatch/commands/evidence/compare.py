"""`tfwatch compare`: runs side by side, with the intervals of their differences."""

from __future__ import annotations

import functools
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from tfwatch.analysis.comparing.comparability import NotComparableError
from tfwatch.commands.evidence.output import STANDARD_OUTPUT, write_text
from tfwatch.commands.evidence.sides import find_past, find_side
from tfwatch.commands.screen_host import show_app
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import printable
from tfwatch.live.evidence.compared_runs import compare_runs
from tfwatch.report.evidence.comparison_document import comparison_json
from tfwatch.report.evidence.comparison_text import SIDES, comparison_lines, sides_text
from tfwatch.report.html.comparison import comparison_html
from tfwatch.terminal.capture import why_no_screen
from tfwatch.terminal.output import write
from tfwatch.workloads.workload import BadInputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.live.evidence.compared_runs import ComparedRuns


Form: TypeAlias = Literal["text", "json", "html", "screen"]
#: Where the page is written.
USUAL_PLACE = Path("tfwatch-compare.html")


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """The options of `tfwatch compare`. sides: a run each, or several separated by commas. output: of the page."""

    sides: tuple[str, ...]
    runs_dir: Path
    by_image: bool = False
    form: Form = "text"
    theme: str | None = None
    output: Path = USUAL_PLACE


def compare(options: CompareOptions, clock: Clock = SYSTEM) -> int:
    """Print the comparison of the first side with each of the others, and return the exit code.

    Raises:
        BadInputError: there is no such run, or the runs cannot be compared.
    """
    if len(options.sides) > len(SIDES):
        raise BadInputError(f"give at most {len(SIDES)} sides")
    if options.form == "screen" and (obstacle := why_no_screen(os.environ)):
        raise BadInputError(obstacle.replace("use --headless", "leave out --screen"))
    sides = [find_side(words, options.runs_dir, clock) for words in options.sides]
    past = functools.partial(find_past, runs_dir=options.runs_dir, clock=clock)
    try:
        found = compare_runs(sides, past, options.by_image)
    except NotComparableError as error:
        raise BadInputError(str(error)) from error
    match options.form:
        case "screen":
            return _show(found, options.theme)
        case "html":
            return _write_page(options.output, comparison_html(sides, found))
        case "json":
            return write(sys.stdout, json.dumps(comparison_json(sides, found), indent=1) + "\n")
    lines = sides_text(sides)
    for letter, one in zip(SIDES[1:], found, strict=False):
        lines += ["", *comparison_lines(one, letter)]
    return write(sys.stdout, "\n".join(lines) + "\n")


def _write_page(place: Path, page: str) -> int:
    failed = write_text(place, page)
    return failed if failed or place == STANDARD_OUTPUT else write(sys.stdout, f"{printable(str(place))}\n")


def _show(found: Sequence[ComparedRuns], theme: str | None) -> int:
    from tfwatch.screens.comparison import ComparisonApp

    return show_app(lambda **terminal: ComparisonApp(found, theme=theme, **terminal))
