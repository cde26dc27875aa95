"""The banner: a word, a sentence and a piece of advice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.reactive import reactive

from tfwatch.judge.findings.finding import Tone
from tfwatch.judge.findings.situation import Banner
from tfwatch.screens.basics.pane import Pane
from tfwatch.screens.basics.text import row, shorten_clauses, spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.content import Content

EMPTY = Banner("STARTING", "", "", Tone.BUSY)


class BannerPane(Pane):
    """Shows a `Banner`; the tone sets the colour."""

    DEFAULT_CSS = """
    BannerPane {
        height: 3; padding: 0 1; color: $foreground;
        &.-calm, &.-busy { background: $primary-muted; }
        &.-good { background: $success-muted; }
        &.-warn { background: $warning-muted; }
        &.-bad { background: $error-darken-1; color: #ffffff; }
    }
    """

    banner: reactive[Banner] = reactive(EMPTY, repaint=False)
    #: The text at the right of the first row, e.g. a key that helps now.
    note: reactive[str] = reactive("", repaint=False)

    watch_note = Pane.repaint_rows

    def watch_banner(self, banner: Banner) -> None:
        self.update_classes({f"-{tone.value}": tone is banner.tone for tone in Tone})
        self.repaint_rows()

    def rows(self, width: int, height: int) -> Sequence[Content]:
        banner = self.banner
        word = row((f" {banner.word} ", "bold reverse"))
        note = row(self.note)
        remark = (
            f"  {_beside(banner.remark, width - word.cell_length - 2, note.cell_length + 1)}"
            if banner.remark
            else ""
        )
        first = spread(word + row((remark, "bold")), note, width)
        sentence = row((banner.sentence, "bold"))
        if banner.brief and sentence.cell_length > width:
            sentence = row((banner.brief, "bold"))
        return [first, sentence, row(shorten_clauses(banner.advice, width))]


def _beside(remark: str, width: int, note: int) -> str:
    """Return the remark, shortened to fit beside the note, or to the whole width where it would
    lose a clause."""
    shown = shorten_clauses(remark, width - note)
    return shown if shown.count("; ") == remark.count("; ") else shorten_clauses(remark, width)
