"""The banner: a word, a sentence and a piece of advice, also about a disk that does not respond."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.reactive import reactive

from tfwatch.core import units
from tfwatch.judge.findings.finding import Finding, Tone
from tfwatch.runs.folder import SLOW_S
from tfwatch.runs.library import short_path
from tfwatch.screens.basics.pane import Pane
from tfwatch.screens.basics.text import row, shorten_clauses

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from textual.content import Content

    from tfwatch.runs.folder import RunFolder

EMPTY = Finding("moment", "STARTING", "", tone=Tone.BUSY)


class BannerPane(Pane):
    """Shows a `Finding`; the tone sets the colour."""

    DEFAULT_CSS = """
    BannerPane {
        height: 3; padding: 0 1; color: $foreground;
        &.-calm, &.-busy { background: $primary-muted; }
        &.-good { background: $success-muted; }
        &.-warn { background: $warning-muted; }
        &.-bad { background: $error-darken-1; color: #ffffff; }
    }
    """

    banner: reactive[Finding] = reactive(EMPTY, repaint=False)

    def watch_banner(self, banner: Finding) -> None:
        self.update_classes({f"-{tone.value}": tone is banner.tone for tone in Tone})
        self.repaint_rows()

    def rows(self, width: int, height: int) -> Sequence[Content]:
        banner = self.banner
        word = row((f" {banner.word} ", "bold reverse"))
        remark = shorten_clauses(banner.remark, width - word.cell_length - 2)
        sentence = row((banner.sentence, "bold"))
        if banner.brief and sentence.cell_length > width:
            sentence = row((banner.brief, "bold"))
        advice = row(shorten_clauses(banner.advice, width))
        return [word + row((f"  {remark}", "bold")), sentence, advice]


def silence_of(folder: Path | None, silent_s: float) -> str:
    """Return for how long a disk has not responded; empty where it responds in time.

    Its folder comes last: its end is what a narrow window cuts.
    """
    if silent_s < SLOW_S:
        return ""
    place = f": {short_path(folder)}" if folder else ""
    return f"the disk has not responded for {units.seconds(silent_s)}{place}"


def silent_disk(disk: RunFolder) -> Finding | None:
    """Return the finding about the disk of a run that cannot be read now; None where the disk
    responds in time."""
    silence = silence_of(disk.folder, disk.silent_s) if disk.folder else ""
    advice = (
        "the figures are those of the last answer; the training goes on by itself, and the keys of"
        " this screen work"
    )
    return (
        Finding("moment", "DISK NOT RESPONDING", silence, advice, tone=Tone.WARN)
        if silence
        else None
    )
