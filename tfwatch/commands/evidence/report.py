"""`tfwatch report`: a recorded run as one HTML page, or as markdown."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tfwatch.commands.evidence.output import STANDARD_OUTPUT, write_text
from tfwatch.commands.evidence.recorded import find, opened, readable
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import printable
from tfwatch.live.groups.history import read_steps
from tfwatch.live.groups.judged_group import JudgedGroup
from tfwatch.live.judged_run import JudgedRun
from tfwatch.report.groups.group_markdown import as_group_markdown
from tfwatch.report.groups.group_page import as_group_html
from tfwatch.report.groups.group_sections import make_rank_section, ranks_with_figures
from tfwatch.report.html.page import as_html
from tfwatch.report.html.redaction import redaction_of, redaction_of_group
from tfwatch.report.markdown import as_markdown
from tfwatch.runs.groups.group_file import is_group
from tfwatch.runs.groups.reading import open_group
from tfwatch.runs.library.labels import read_labels
from tfwatch.terminal.output import write
from tfwatch.workloads.registry import WORKLOADS

if TYPE_CHECKING:
    from tfwatch.report.html.redaction import Redaction


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The options of `tfwatch report`. which: None is the newest. output: None is the usual place."""

    which: str | None
    runs_dir: Path
    output: Path | None = None
    is_markdown: bool = False
    is_redacted: bool = False


def report(options: ReportOptions, clock: Clock = SYSTEM) -> int:
    """Write the report of a run and return the exit code.

    Raises:
        BadInputError: there is no such run, or the place cannot be written.
    """
    folder = find(options.which, options.runs_dir)
    if is_group(folder):
        return _report_group(options, folder, clock)
    run, labels = opened(folder, clock), read_labels(folder)
    redaction = redaction_of(run, labels, Path.home(), WORKLOADS) if options.is_redacted else None
    if options.is_markdown:
        return write_text(options.output or STANDARD_OUTPUT, as_markdown(JudgedRun(run), labels, redaction))
    judged = JudgedRun(run)
    _judge(judged)
    return _write_page(options.output or _usual_place(folder, redaction), as_html(judged, labels, redaction))


def _report_group(options: ReportOptions, folder: Path, clock: Clock) -> int:
    with readable(folder):
        group = open_group(folder, clock)
        judged, labels = JudgedGroup(group), read_labels(folder)
        steps = read_steps(judged)
    redaction = redaction_of_group(group, labels, Path.home(), WORKLOADS) if options.is_redacted else None
    if options.is_markdown:
        return write_text(options.output or STANDARD_OUTPUT, as_group_markdown(judged, steps, labels, redaction))
    runs = ((rank, group.ranks[rank]) for rank in ranks_with_figures(judged))
    whole = ((rank, opened(run.path, clock) if run.path else run) for rank, run in runs)
    sections = [make_rank_section(rank, JudgedRun(run), options.is_redacted) for rank, run in whole]
    page = as_group_html(judged, steps, sections, labels, redaction)
    return _write_page(options.output or _usual_place(folder, redaction), page)


def _write_page(place: Path, page: str) -> int:
    failed = write_text(place, page)
    return failed if failed or place == STANDARD_OUTPUT else write(sys.stdout, f"{printable(str(place))}\n")


def _judge(judged: JudgedRun) -> None:
    """Judge the steps while a thread sums them up: each takes seconds for ten million, mostly outside of Python."""

    def sum_up() -> None:
        _ = judged.hardware, judged.time_breakdown, judged.run.pyramid

    with ThreadPoolExecutor(1) as pool:
        summing = pool.submit(sum_up)
        _ = judged.summary
        summing.result()


def _usual_place(folder: Path, redaction: Redaction | None) -> Path:
    return Path("tfwatch-report.html" if redaction else f"tfwatch-{folder.absolute().name}.html")
