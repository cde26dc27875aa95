"""The banner: one word, one sentence, one piece of advice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.reactive import reactive

from tfwatch.analysis.findings.situation import Banner, Tone
from tfwatch.widgets.basics.pane import Pane
from tfwatch.widgets.basics.text import clauses, row, spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.content import Content

EMPTY = Banner("STARTING", "", "", Tone.BUSY)


class FindingPane(Pane):
    """Shows a `Banner`; its tone is a colour and its word is in the text.

    Attributes:
        note: what stands at the right of the word and the remark, e.g. a key that helps now.
    """

    DEFAULT_CSS = """
    FindingPane {
        height: 3; padding: 0 1; color: $foreground;
        &.-calm, &.-busy { background: $primary-muted; }
        &.-good { background: $success-muted; }
        &.-warn { background: $warning-muted; }
        &.-bad { background: $error-darken-1; color: #ffffff; }
    }
    """

    finding: reactive[Banner] = reactive(EMPTY, repaint=False)
    note: reactive[str] = reactive("", repaint=False)

    watch_note = Pane.repaint_rows

    def watch_finding(self, finding: Banner) -> None:
        for tone in Tone:
            self.set_class(tone is finding.tone, f"-{tone.value}")
        self.repaint_rows()

    def rows(self, width: int, height: int) -> Sequence[Content]:
        found = self.finding
        word = row((f" {found.word} ", "bold reverse"))
        note = row(self.note)
        remark = (
            f"  {_beside(found.remark, width - word.cell_length - 2, note.cell_length + 1)}" if found.remark else ""
        )
        first = spread(word + row((remark, "bold")), note, width)
        sentence = row((found.sentence, "bold"))
        if found.brief and sentence.cell_length > width:
            sentence = row((found.brief, "bold"))
        return [first, sentence, row(clauses(found.advice, width))]


def _beside(remark: str, width: int, note: int) -> str:
    """The remark in the room that a note leaves, where no more than its brackets go for that; else in all of it."""
    told = clauses(remark, width - note)
    return told if told.count("; ") == remark.count("; ") else clauses(remark, width)
