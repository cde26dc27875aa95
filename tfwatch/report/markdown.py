"""A run as a short summary in Markdown, for a pull request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.report.effects import make_effects, most_informative
from tfwatch.report.facts import known
from tfwatch.report.page import make_findings, slow_steps
from tfwatch.report.redaction import shown
from tfwatch.report.run_facts import FIGURES
from tfwatch.report.text import failure, outcome_text, time_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tfwatch.judge.judged_run import JudgedRun
    from tfwatch.report.redaction import Redaction

#: Characters that markdown or HTML reads as markup.
_MARKUP = re.compile(r"([\\`*_\[\]<>|~&$])")
#: Characters that make a link, a mention or a reference to an issue of what follows them.
_LINK = re.compile(r"(@|#|\bwww|:(?=//))(?=\S)")
_NO_BREAK = "\N{WORD JOINER}"
_LONGEST_CODE = 2000


def as_markdown(judged: JudgedRun, redaction: Redaction | None = None) -> str:
    """Return the summary of a run. redaction: replaces paths, names and the host."""
    parts = (
        _head(judged, redaction),
        _findings(judged, redaction),
        table(("figure", "value", ""), _figures(judged), redaction),
        _effects(judged, redaction),
        _folded("Where each second went", ("part", "time", "of the run"), _time(judged), redaction),
        _folded("Stalls and slow steps", *slow_steps(judged), redaction),
    )
    return "\n".join(line for part in parts for line in part)


def plain(text: str, redaction: Redaction | None = None) -> str:
    """Return a text in which nothing is markup."""
    text = _LINK.sub(rf"\1{_NO_BREAK}", shown(text, redaction))
    return _MARKUP.sub(r"\\\1", text)


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], redaction: Redaction | None = None
) -> Iterator[str]:
    """Yield the lines of a table; nothing in its cells is markup."""
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    yield from (f"| {' | '.join(plain(cell, redaction) for cell in row)} |" for row in rows)
    yield ""


def _head(judged: JudgedRun, redaction: Redaction | None) -> Iterator[str]:
    yield from (f"### {plain(outcome_text(judged), redaction)}", "")
    for sentence in failure(judged.run):
        yield from (f"**{plain(sentence, redaction)}**", "")


def _findings(judged: JudgedRun, redaction: Redaction | None) -> Iterator[str]:
    for one in make_findings(judged):
        yield from (f"**{plain(one.word, redaction)}**: {plain(one.sentence, redaction)}", "")
        if one.advice:
            yield from (f"**Next:** {plain(one.advice, redaction)}", "")
        if one.code:
            yield from _code(one.code, redaction)


def _code(lines: Iterable[str], redaction: Redaction | None) -> Iterator[str]:
    code = [shown(line, redaction, _LONGEST_CODE) for line in lines]
    ticks = (len(found) for line in code for found in re.findall("`+", line))
    fence = "`" * max(3, max(ticks, default=0) + 1)
    yield from (f"{fence}python", *code, fence, "")


def _figures(judged: JudgedRun) -> Iterator[tuple[str, ...]]:
    return ((fact.name, words, fact.meaning) for fact, words in known(FIGURES, judged))


def _effects(judged: JudgedRun, redaction: Redaction | None) -> Iterator[str]:
    effects = make_effects(judged)
    chosen = most_informative(effects)
    rows = [(one.change, one.where, one.sides, one.result) for one in chosen]
    if rows:
        head = ("change", "at", "step time", "result")
        yield from table(head, rows, redaction)
    if len(effects) > len(rows):
        yield f"and {len(effects) - len(rows)} more\n"


def _time(judged: JudgedRun) -> list[tuple[str, ...]]:
    parts = time_parts(judged.time_breakdown.total)
    return [(one.name, units.seconds(one.seconds), units.percent(one.share)) for one in parts]


def _folded(
    title: str, head: Sequence[str], rows: Sequence[Sequence[str]], redaction: Redaction | None
) -> Iterator[str]:
    if rows:
        yield from (f"<details><summary>{title}</summary>", "", *table(head, rows, redaction))
        yield from ("</details>", "")
