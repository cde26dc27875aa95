"""A run as a short summary in Markdown, for a pull request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tfwatch.report.facts import known
from tfwatch.report.run_facts import FIGURES
from tfwatch.report.sections import changes_section, step_section
from tfwatch.report.text import LONGEST_CODE, failure, loss_text, outcome_text, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tfwatch.judge.findings.finding import Finding
    from tfwatch.judge.judged_run import JudgedRun
    from tfwatch.report.sections import Section

#: Characters that markdown or HTML reads as markup.
_MARKUP = re.compile(r"([\\`*_\[\]<>|~&$])")
#: Characters that make a link, a mention or a reference to an issue of what follows them.
_LINK = re.compile(r"(@|#|\bwww|:(?=//))(?=\S)")
_NO_BREAK = "\N{WORD JOINER}"


def as_markdown(judged: JudgedRun) -> str:
    """Return the summary of a run."""
    figures = ((fact.name, words, fact.meaning) for fact, words in known(FIGURES, judged))
    lines = [f"### {plain(outcome_text(judged))}", ""]
    for sentence in failure(judged.run):
        lines += [f"**{plain(sentence)}**", ""]
    for finding in judged.findings:
        lines += _finding(finding)
    lines += table(("figure", "value", ""), figures)
    for section in (step_section(judged), changes_section(judged)):
        lines += _section(section)
    return "\n".join(lines)


def plain(text: str) -> str:
    """Return a text in which nothing is markup."""
    text = _LINK.sub(rf"\1{_NO_BREAK}", shown(text))
    return _MARKUP.sub(r"\\\1", text)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table; nothing in its cells is markup."""
    yield f"| {' | '.join(plain(cell) for cell in head)} |"
    yield f"|{' --- |' * len(head)}"
    yield from (f"| {' | '.join(plain(cell) for cell in row)} |" for row in rows)
    yield ""


def _section(section: Section) -> Iterator[str]:
    if section.rows or section.note:
        yield from (f"**{section.title}**", "")
    if section.note:
        yield from (plain(section.note), "")
    if section.rows:
        yield from table(section.head, section.rows)


def _finding(finding: Finding) -> Iterator[str]:
    word = plain(finding.word)
    yield from (f"**{word}**: {plain(loss_text(finding))}", "")
    if finding.advice:
        yield from (f"**Next:** {plain(finding.advice)}", "")
    if finding.code:
        yield from code_block(finding.code.split("\n"))


def code_block(lines: Iterable[str], language: str = "python") -> Iterator[str]:
    """Yield lines of code between fences; empty ones are left out."""
    code = [shown(line, LONGEST_CODE) for line in lines if line]
    ticks = (len(found) for line in code for found in re.findall("`+", line))
    fence = "`" * max(3, max(ticks, default=0) + 1)
    yield from (f"{fence}{language}", *code, fence, "")
