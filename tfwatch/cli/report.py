"""`tfwatch report`: a recorded run as a page, as Markdown or as JSON."""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tfwatch.cli import options
from tfwatch.cli.named_runs import find, opened, readable
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import BadInputError, printable
from tfwatch.runs.group import is_group, open_group
from tfwatch.terminal.output import STANDARD_OUTPUT, write, write_text
from tfwatch.workloads import list_workloads

if TYPE_CHECKING:
    from tfwatch.judge.judged_run import JudgedRun
    from tfwatch.report.html.templates import Redaction

_REPORT_EPILOG = """\
The page needs no network and no script, follows the reader's light or dark theme, and prints.
exit codes: 0 written; 1 it cannot be written; 2 bad input.
"""


def add_report(commands: Any, text: str) -> None:
    """Add the command's parser. text: its help."""
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
    form: Form = "json" if args.json else "markdown" if args.markdown else "html"
    is_redacted = bool(options.of_config(args, "redact")) and form != "json"
    if form == "json" and args.redact:
        raise BadInputError("--redact is for the page and Markdown: JSON holds all figures")
    return report(ReportOptions(args.which, options.runs_dir(args), args.output, form, is_redacted))


Form: TypeAlias = Literal["html", "markdown", "json"]


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The options of `tfwatch report`. which: None is the newest. output: None is the usual
    place."""

    which: str | None
    runs_dir: Path
    output: Path | None = None
    form: Form = "html"
    is_redacted: bool = False


def report(options: ReportOptions, clock: Clock = SYSTEM) -> int:
    """Write the report of a run or a group and return the exit code.

    Raises:
        BadInputError: there is no such run, or the place cannot be written.
    """
    folder = find(options.which, options.runs_dir)
    text, redaction = (_group_text if is_group(folder) else _run_text)(folder, options, clock)
    if options.form != "html":
        return write_text(options.output or STANDARD_OUTPUT, text)
    return _write_page(options.output or _usual_place(folder, redaction), text)


def _run_text(folder: Path, options: ReportOptions, clock: Clock) -> tuple[str, Redaction | None]:
    from tfwatch.judge.judged_run import JudgedRun
    from tfwatch.report.document import judged_json
    from tfwatch.report.html.page import as_html
    from tfwatch.report.html.templates import redaction_of
    from tfwatch.report.markdown import as_markdown

    run = opened(folder, clock)
    redaction = redaction_of(run, Path.home(), list_workloads()) if options.is_redacted else None
    judged = JudgedRun(run)
    match options.form:
        case "json":
            return _json_text(judged_json(judged)), redaction
        case "markdown":
            return as_markdown(judged, redaction), redaction
    _judge(judged)
    return as_html(judged, redaction), redaction


def _group_text(folder: Path, options: ReportOptions, clock: Clock) -> tuple[str, Redaction | None]:
    from tfwatch.judge.groups.judged_group import JudgedGroup
    from tfwatch.report.group_report import group_html, group_json, group_markdown
    from tfwatch.report.html.templates import redaction_of_group

    with readable(folder):
        judged = JudgedGroup(open_group(folder, clock))
    redaction = (
        redaction_of_group(judged.group, Path.home(), list_workloads())
        if options.is_redacted
        else None
    )
    match options.form:
        case "json":
            return _json_text(group_json(judged)), redaction
        case "markdown":
            return group_markdown(judged, redaction), redaction
    return group_html(judged, redaction), redaction


def _json_text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1) + "\n"


def _write_page(place: Path, page: str) -> int:
    failed = write_text(place, page)
    return (
        failed
        if failed or place == STANDARD_OUTPUT
        else write(sys.stdout, f"{printable(str(place))}\n")
    )


def _judge(judged: JudgedRun) -> None:
    """Judge the steps while a thread sums them up: each takes seconds for ten million, mostly
    outside of Python."""

    def sum_up() -> None:
        _ = judged.hardware, judged.time_breakdown, judged.run.pyramid

    with ThreadPoolExecutor(1) as pool:
        summing = pool.submit(sum_up)
        _ = judged.summary
        summing.result()


def _usual_place(folder: Path, redaction: Redaction | None) -> Path:
    return Path("tfwatch-report.html" if redaction else f"tfwatch-{folder.absolute().name}.html")
