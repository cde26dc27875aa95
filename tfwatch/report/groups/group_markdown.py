"""A group as a short summary in markdown, for a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core import units
from tfwatch.live.groups.rank_lines import state_lines
from tfwatch.report.groups.group_sections import (
    make_group_figures,
    make_group_verdict,
    make_hold_ups,
    make_rank_rows,
)
from tfwatch.report.markdown import MarkdownPage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tfwatch.analysis.groups.step_sums import GroupSteps
    from tfwatch.live.groups.judged_group import JudgedGroup
    from tfwatch.report.html.redaction import Redaction
    from tfwatch.runs.library.labels import Labels


def as_group_markdown(
    judged: JudgedGroup, steps: GroupSteps | None, labels: Labels, redaction: Redaction | None = None
) -> str:
    """Return the summary of a group.

    steps: those whose long ones are listed. redaction: replaces paths, names and the hosts.
    """
    return _GroupPage(judged, steps, labels, redaction).text()


class _GroupPage(MarkdownPage):
    """The summary of a group."""

    def __init__(
        self, judged: JudgedGroup, steps: GroupSteps | None, labels: Labels, redaction: Redaction | None
    ) -> None:
        super().__init__(redaction)
        self._judged, self._steps = judged, steps
        self._labels = labels

    def text(self) -> str:
        """Return the whole summary."""
        return "\n".join(line for part in (self._head(), self._figures(), self._ranks()) for line in part)

    def _head(self) -> Iterator[str]:
        judged = self._judged
        verdict, ranks = make_group_verdict(judged), judged.group.ranks
        title, count = self._labels.name or next(iter(ranks.values())).manifest.title, units.counted(len(ranks), "rank")
        yield f"### {self._plain(f'{title}, {count}')}"
        yield ""
        yield f"**{self._plain(verdict.word)}**: {self._plain('; '.join(verdict.sentences))}"
        steps = units.counted(min(one.step for one in judged.ranks), "step")
        yield f"\nGroup: {self._plain('; '.join((judged.state, steps, *state_lines(judged))))}\n"
        if verdict.advice:
            yield f"**Next:** {self._plain(verdict.advice)}\n"

    def _figures(self) -> Iterator[str]:
        rows = [(one.name, one.value, one.note) for one in make_group_figures(self._judged)]
        yield from self._table(("figure", "value", ""), rows)

    def _ranks(self) -> Iterator[str]:
        head = ("rank", "step", "ms/step", "data wait", "compute", "host", "late by", "machine", "state")
        rows = [
            (one.rank, *one.figures, one.machine or units.MISSING, one.state) for one in make_rank_rows(self._judged)
        ]
        yield from self._table(head, rows)
        if hold_ups := make_hold_ups(self._steps):
            cells = [(one.step, one.rank, one.cause, one.lost) for one in hold_ups]
            yield from self._folded("Steps that one rank held up", ("step", "rank", "cause", "lost"), cells)
