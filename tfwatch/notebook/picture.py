"""The summary of a run as HTML: a bar of the step's parts, the finding with its lines of code, and the whole text."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from tfwatch.core import units

if TYPE_CHECKING:
    from tfwatch.analysis.findings.situation import Banner
    from tfwatch.analysis.steps.verdict import Breakdown
    from tfwatch.live.judged_run import JudgedRun

_WIDTH, _HEIGHT, _LEGEND = 640, 22, 22
_COLORS = {"data wait": "#d9534f", "copy": "#3c9a5f", "compute": "#3a76c4", "host": "#8a8f98"}
_STYLE = "font-family:sans-serif;font-size:13px;max-width:44em"


def as_html(judged: JudgedRun, text: str) -> str:
    """Return the summary of a run, whose text is `text`. All text is escaped."""
    split = judged.setting.judgement.breakdown
    bar = _bar(split) if split else ""
    found = _finding(judged.finding) if judged.finding else ""
    whole = f"<details><summary>{escape(text.partition(chr(10))[0])}</summary><pre>{escape(text)}</pre></details>"
    return f'<div style="{_STYLE}">{bar}{found}{whole}</div>'


def _finding(found: Banner) -> str:
    code = f"<pre>{escape(found.edit)}</pre>" if found.edit else ""
    return f"<p><b>{escape(found.word)}</b> {escape(found.sentence)}</p><p>{escape(found.advice)}</p>{code}"


def _parts(split: Breakdown) -> dict[str, float]:
    """Return the parts of the mean steady step that last any time, milliseconds."""
    copy_ms = split.copy.mean if split.copy else 0.0
    parts = {
        "data wait": split.wait.mean,
        "copy": copy_ms,
        "compute": split.compute.mean,
        "host": split.host.mean,
    }
    return {name: part_ms for name, part_ms in parts.items() if part_ms > 0}


def _bar(split: Breakdown) -> str:
    """Return the mean steady step as an SVG picture: a bar whose parts have the width of their share."""
    parts = _parts(split)
    step_ms = sum(parts.values())
    drawn, legend, left = [], [], 0.0
    for place, (name, part_ms) in enumerate(parts.items()):
        width = _WIDTH * part_ms / step_ms
        label = f"{name} {units.milliseconds(part_ms)} ({units.percent(part_ms / step_ms)})"
        drawn.append(
            f'<rect x="{left:.1f}" width="{width:.1f}" height="{_HEIGHT}" fill="{_COLORS[name]}">'
            f"<title>{escape(label)}</title></rect>"
        )
        at = _WIDTH / len(parts) * place
        legend.append(
            f'<rect x="{at:.0f}" y="{_HEIGHT + 8}" width="10" height="10" fill="{_COLORS[name]}"/>'
            f'<text x="{at + 14:.0f}" y="{_HEIGHT + 17}" font-size="11" fill="currentColor">{escape(label)}</text>'
        )
        left += width
    size = f'width="{_WIDTH}" height="{_HEIGHT + _LEGEND}" viewBox="0 0 {_WIDTH} {_HEIGHT + _LEGEND}"'
    words = f"the mean steady step, {units.milliseconds(step_ms)}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size}><title>{escape(words)}</title>'
        f"{''.join(drawn)}{''.join(legend)}</svg>"
    )
