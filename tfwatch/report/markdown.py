"""A run as a short summary in markdown, for a pull request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.report.effects import make_effects
from tfwatch.report.html.page import make_verdict
from tfwatch.report.html.sections import make_figures, make_parts, make_stalls
from tfwatch.report.html.templates import shown
from tfwatch.report.text import failure, lost_words, state_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tfwatch.judge.judged_run import JudgedRun
    from tfwatch.report.html.templates import Redaction

#: Characters that markdown or HTML reads as markup.
_MARKUP = re.compile(r"([\\`*_\[\]<>|~&$])")
#: Characters that make a link, a mention or a reference to an issue of what follows them.
_LINK = re.compile(r"(@|#|\bwww|:(?=//))(?=\S)")
_NO_BREAK = "\N{WORD JOINER}"
_MOST_EFFECTS = 20


def as_markdown(judged: JudgedRun, redaction: Redaction | None = None) -> str:
    """Return the summary of a run. redaction: replaces paths, names and the host."""
    return _RunPage(judged, redaction).text()


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


class MarkdownPage:
    """A text in parts; every text of a run goes through `plain`."""

    def __init__(self, redaction: Redaction | None) -> None:
        self._redaction = redaction

    def _plain(self, text: str) -> str:
        return plain(text, self._redaction)

    def _code(self, lines: Iterable[str]) -> Iterator[str]:
        shown_lines = [shown(line, self._redaction, 2000) for line in lines]
        longest = max(
            (len(ticks) for line in shown_lines for ticks in re.findall("`+", line)), default=0
        )
        fence = "`" * max(3, longest + 1)
        yield from (f"{fence}python", *shown_lines, fence, "")

    def _folded(
        self, title: str, head: Sequence[str], rows: Iterable[Sequence[str]]
    ) -> Iterator[str]:
        yield from (
            f"<details><summary>{title}</summary>",
            "",
            *self._table(head, rows),
            "</details>",
            "",
        )

    def _table(self, head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
        return table(head, rows, self._redaction)


class _RunPage(MarkdownPage):
    """The summary of a run."""

    def __init__(self, judged: JudgedRun, redaction: Redaction | None) -> None:
        super().__init__(redaction)
        self._judged = judged

    def text(self) -> str:
        """Return the whole summary."""
        parts = (self._head(), self._figures(), self._effects(), self._time(), self._stalls())
        return "\n".join(line for part in parts for line in part)

    def _head(self) -> Iterator[str]:
        judged, manifest = self._judged, self._judged.run.manifest
        verdict, run = make_verdict(judged), judged.run
        device = f" on {manifest.device}" if manifest.device else ""
        yield f"### {self._plain(f'{manifest.workload}{device}')}"
        yield ""
        where = f" ({verdict.where})" if verdict.where else ""
        yield f"**{self._plain(verdict.word)}**: {self._plain(verdict.sentence + where)}"
        steps = f"{units.counted(judged.summary.steps, 'step')} in {units.seconds(run.length_s)}"
        words = (state_text(run), steps, *failure(run), *lost_words(judged.lost))
        yield f"\nRun: {self._plain('; '.join(words))}\n"
        if verdict.advice:
            yield f"**Next:** {self._plain(verdict.advice)}\n"
        if verdict.code:
            yield from self._code(verdict.code)

    def _figures(self) -> Iterator[str]:
        rows = [(one.name, one.value, one.note) for one in make_figures(self._judged)]
        yield from self._table(("figure", "value", ""), rows)

    def _effects(self) -> Iterator[str]:
        effects, _ = make_effects(self._judged)
        if effects:
            rows = [
                (one.change, one.where, one.sides, one.result, one.forecast)
                for one in effects[:_MOST_EFFECTS]
            ]
            yield from self._table(("change", "at", "step time", "result", "forecast (90 %)"), rows)
        if len(effects) > _MOST_EFFECTS:
            yield f"and {len(effects) - _MOST_EFFECTS} more\n"

    def _time(self) -> Iterator[str]:
        rows = [
            (one.name, one.seconds, one.percent)
            for one in make_parts(self._judged.time_breakdown.total)
        ]
        yield from self._folded("Where each second went", ("part", "time", "of the run"), rows)

    def _stalls(self) -> Iterator[str]:
        rows = [(one.when, one.what, one.lost) for one in make_stalls(self._judged)]
        if rows:
            yield from self._folded("Worst stalls", ("at", "stall", "lost"), rows)
