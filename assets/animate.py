"""Writes `demo.svg`, twelve seconds of a real run that loop: `python assets/animate.py` (about a
minute).

The training starves with prefetch off; the key `p` turns prefetch on while it trains. The time
between two frames is the time that passed between them in the run. The picture is one SVG with CSS
and no script: each distinct row of text is a symbol, a frame is a group of rows, and a keyframe
rule a frame decides when that group is visible. Without animation the first frame is shown.
"""

from __future__ import annotations

import asyncio
import re
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from html import escape
from itertools import groupby
from pathlib import Path

from live_run import CELL_X, CELL_Y, LEFT, STORAGE_MS, TOP, live_run

TARGET = Path(__file__).parent / "demo.svg"
SIZE = (100, 30)
FIRST_STEP = 270
FRAME_S, KEY_S, END_S = 0.5, 3.0, 12.0
#: Seconds for which the last frame stays before the loop begins again.
HOLD_S = 2.0
#: The characters that fill the lower eighths of a cell.
BLOCKS = "▁▂▃▄▅▆▇█"
NBSP = "\xa0"
SVG = "{http://www.w3.org/2000/svg}"
TITLE = f"tfwatch train cnn --storage-latency {STORAGE_MS:.0f}"
STARVING = f"cnn trains, each batch {STORAGE_MS:.0f} ms late (simulated storage); prefetch off"
SWITCHED = "key p: prefetch on, while it trains; same batches, same weights"


@dataclass(frozen=True)
class Frame:
    """The screen at a moment, in seconds since the first frame: a row of SVG markup a line."""

    at_s: float
    rows: list[str]
    caption: str


class Styles:
    """The distinct text styles of all frames, as short class names."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def name(self, css: str) -> str:
        """The class of a style."""
        return self._names.setdefault(css, f"s{len(self._names)}")

    def css(self) -> str:
        """A rule a class."""
        return "".join(f".{name}{{{css}}}" for css, name in self._names.items())


async def record() -> list[tuple[float, str]]:
    """Screenshots of a run with the seconds at which they were taken; the key is pressed once
    `KEY_S` have passed."""
    shots: list[tuple[float, str]] = []
    async with live_run(SIZE) as run:
        await run.wait_for_step(FIRST_STEP)
        start_s, is_pressed = time.monotonic(), False
        while (at_s := time.monotonic() - start_s) < END_S:
            if at_s >= KEY_S and not is_pressed:
                await run.press("p")
                is_pressed = True
            shots.append((time.monotonic() - start_s, run.screenshot("tfwatch")))
            await asyncio.sleep(max(0.0, len(shots) * FRAME_S - (time.monotonic() - start_s)))
    return shots


def parse(at_s: float, svg: str, styles: Styles) -> Frame:
    """A screenshot as rows of compact markup, each drawn as if it were the first line."""
    root = ET.fromstring(re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL))
    css = dict(re.findall(r"\.(terminal-\d+-r\d+) \{ (.*?) \}", "".join(root.itertext())))
    rows = [""] * SIZE[1]
    for rect in root.iterfind(f"{SVG}g/{SVG}rect"):
        rows[round((float(rect.attrib["y"]) - 1.5) / CELL_Y)] += _rect(rect)
    for text in root.iterfind(f"{SVG}g/{SVG}g/{SVG}text"):
        if (text.text or "").strip("\xa0\n"):
            rows[round((float(text.attrib["y"]) - 20) / CELL_Y)] += _text(text, css, styles)
    return Frame(at_s, rows, STARVING if at_s < KEY_S else SWITCHED)


def _rect(rect: ET.Element) -> str:
    """A background. It reaches a hair into its neighbours, so that no seam shows where the picture
    is scaled."""
    return (
        f'<rect fill="{rect.attrib["fill"]}" x="{rect.attrib["x"]}" width="{rect.attrib["width"]}"'
        ' height="24.9"/>'
    )


def _text(text: ET.Element, css: dict[str, str], styles: Styles) -> str:
    """A run of text without the spaces around it. `textLength` keeps the columns in any font."""
    padded = (text.text or "").replace(NBSP, " ")
    words = padded.strip()
    x = float(text.attrib["x"]) + (len(padded) - len(padded.lstrip())) * CELL_X
    name = styles.name(css[text.attrib["class"]])
    if set(words) <= set(BLOCKS):
        return f'<path class="{name}" d="{_bars(x, words)}"/>'
    length = float(text.attrib["textLength"]) - (len(padded) - len(words)) * CELL_X
    return (
        f'<text class="{name}" x="{x:g}" y="18.5"'
        f' textLength="{length:g}">{escape(words).replace(" ", NBSP)}</text>'
    )


def _bars(x: float, blocks: str) -> str:
    """Block characters as shapes: a font leaves seams between rows."""
    path = ""
    for block, same in groupby(blocks):
        width, height = sum(1 for _ in same) * CELL_X, (BLOCKS.index(block) + 1) / 8 * CELL_Y
        path += f"M{x:g} 24.9h{width:g}v{-height - 0.5:g}h{-width:g}z"
        x += width
    return path


def render(frames: list[Frame], styles: Styles) -> str:
    """The animated picture."""
    names = {
        row: f"r{n}"
        for n, row in enumerate(dict.fromkeys(row for frame in frames for row in frame.rows))
    }
    width, height = SIZE[0] * CELL_X + 2 * LEFT, SIZE[1] * CELL_Y + TOP + 40
    total_s = frames[-1].at_s + FRAME_S + HOLD_S
    ends_s = [*(frame.at_s for frame in frames[1:]), total_s]
    spans = [
        (frame.at_s / total_s, end_s / total_s) for frame, end_s in zip(frames, ends_s, strict=True)
    ]
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">
<title>tfwatch: a training starves, the key p turns prefetch on, and data wait is gone</title>
<style>
text{{font:20px "Fira Code",Menlo,Consolas,"DejaVu Sans Mono",monospace}}
.f{{visibility:hidden;animation:{total_s:g}s step-end infinite}}#f0{{visibility:visible}}
#bar{{transform:scaleX(0);animation:bar {total_s:g}s linear infinite}}
@keyframes bar{{{spans[-1][0]:.2%},to{{transform:scaleX(1)}}}}
@media(prefers-reduced-motion:reduce){{.f,#bar{{animation:none!important}}}}
{"".join(_rule(n, *span) for n, span in enumerate(spans))}{styles.css()}
</style>
<defs>{"".join(f'<g id="{name}">{row}</g>' for row, name in names.items())}</defs>
<rect width="{width:g}" height="{height:g}" rx="8" fill="#1d252e"/>
<g transform="translate(26,22)">
<circle r="7" fill="#ff5f57"/><circle cx="22" r="7" fill="#febc2e"/><circle cx="44" r="7" fill="#28c840"/>
</g>
<text x="{width / 2:g}" y="28" text-anchor="middle" fill="#c5c8c6">{TITLE}</text>
<rect id="bar" y="{height - 4:g}" width="{width:g}" height="4" fill="#5ccfd6"/>
<g transform="translate({LEFT},{TOP})">
{"".join(_group(n, frame, names) for n, frame in enumerate(frames))}</g>
</svg>
"""  # noqa: E501


def _group(n: int, frame: Frame, names: dict[str, str]) -> str:
    """A frame: its rows, what is done in it, and its time."""
    rows = "".join(
        f'<use href="#{names[row]}" y="{line * CELL_Y:g}"/>'
        for line, row in enumerate(frame.rows)
        if row
    )
    y, right = SIZE[1] * CELL_Y + 25, SIZE[0] * CELL_X - 12
    caption = f'<text y="{y:g}" x="12" fill="#5ccfd6">{escape(frame.caption)}</text>'
    clock = (
        f'<text y="{y:g}" x="{right:g}" text-anchor="end" fill="#8b9197">{frame.at_s:.1f} s</text>'
    )
    return f'<g id="f{n}" class="f">{rows}{caption}{clock}</g>\n'


def _rule(n: int, begin: float, end: float) -> str:
    """Return the rule that shows a frame between two shares of the loop."""
    before = "" if n == 0 else "0%{visibility:hidden}"
    visible = f"{begin:.2%}{{visibility:visible}}{end:.2%},to{{visibility:hidden}}"
    return f"#f{n}{{animation-name:k{n}}}@keyframes k{n}{{{before}{visible}}}\n"


def main() -> None:
    """Record the run and write the picture."""
    styles = Styles()
    frames = [parse(at_s, svg, styles) for at_s, svg in asyncio.run(record())]
    TARGET.write_text(render(frames, styles), encoding="utf-8")


if __name__ == "__main__":
    main()
