"""Writes the screenshots of README.md from a real run: `python assets/make.py` (about a minute).

`starving.svg` is the live screen before the key, with a number on each part for the list in
README.md; `solved.svg` is the same training after the key, once the comparison has enough steps.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from live_run import CELL_X, CELL_Y, LEFT, STORAGE_MS, TOP, live_run

if TYPE_CHECKING:
    from textual.app import App

FONT = 'font-family="Arial, sans-serif" font-size="23" font-weight="bold" fill="#0f1318"'
HERE = Path(__file__).parent
SIZE = (120, 38)
TITLE = f"tfwatch train cnn --storage-latency {STORAGE_MS:.0f}"
#: The parts of the screen in the order of README.md's list, by their class in `tfwatch.screens`.
PARTS = (
    "BannerPane",
    "Timeline",
    "PipelinePane",
    "KnobsPane",
    "EventsPane",
)
#: Where a number stands: this share of a part's width from its left edge.
ACROSS = 0.6
#: The completed steps at which `p` is pressed, and at which the pictures are taken.
KEY_STEP, LAST_STEP = 290, 600


async def main() -> None:
    """Train, press the key, take the pictures."""
    async with live_run(SIZE) as run:
        await run.wait_for_step(KEY_STEP)
        _save(_annotated(run.screenshot(TITLE), run.pilot.app), "starving.svg")
        await run.press("p")
        await run.wait_for_step(LAST_STEP)
        _save(run.screenshot(TITLE), "solved.svg")


def _annotated(svg: str, app: App[Any]) -> str:
    """The picture with a numbered disc on the top line of each part."""
    discs = ""
    for number, part in enumerate(PARTS, 1):
        region = app.screen.query_one(part).region
        x, y = LEFT + (region.x + region.width * ACROSS) * CELL_X, TOP + (region.y + 0.5) * CELL_Y
        discs += (
            f'<circle cx="{x:.0f}" cy="{y:.0f}" r="17" fill="#f4d03f" stroke="#0f1318"'
            ' stroke-width="3"/>'
        )
        discs += f'<text x="{x:.0f}" y="{y + 8:.0f}" text-anchor="middle" {FONT}>{number}</text>'
    return svg.replace("</svg>", f"{discs}</svg>")


def _save(svg: str, name: str) -> None:
    """Write a picture without its links to fonts on the web."""
    text = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    (HERE / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main())
