"""Is a live setting the line that a user pastes, and what does Watch cost? By kinds of data.

    python -m tests.bench.pasted OUT [--minutes 10] [--kinds naive arrays] [--batches 64]

Trains for so many minutes, in rounds (`pasted_script.py`), then prints a table of all rounds in
OUT; with 0 minutes it prints alone. For each kind, batch and line: medians over the rounds of step
and copy, ms, as written, live, back, pasted; and ratios, each the median of those of the rounds
with its 95 % interval: live over pasted, back over written, and Watch over bare. One fit differs
from the next by several percent, so a ratio is of two fits of one round, and many rounds count. It
exits with 1 where a ratio is proved to be above 1.03.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import defaultdict
from math import comb
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from tests.pseudo import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence

#: A live setting costs at most this ratio of the pasted line.
_MOST = 1.03
#: An interval misses with this probability.
_MISS = 0.05
_SCRIPT = Path(__file__).with_name("pasted_script.py")
_KINDS = ("naive", "uint8", "tuned", "random", "slices", "arrays", "generator", "pydataset")


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the median and its interval by order statistics; with fewer than six values the
    interval is their range, and misses more often."""
    ordered, count, cut, chance = sorted(values), len(values), 0, 0.0
    for rank in range(count // 2):
        chance += 2 * comb(count, rank) / 2**count
        cut = rank + 1 if chance <= _MISS else cut
    cut = max(cut - 1, 0)
    return median(ordered), ordered[cut], ordered[-1 - cut]


def _text(values: Sequence[float]) -> str:
    if not values:
        return "n/a"
    middle, low, high = interval(values)
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


def _is_above(values: Sequence[float]) -> bool:
    return bool(values) and interval(values)[1] > _MOST


def _figures(rows: Sequence[dict[str, Any]], part: str) -> str:
    steps = [row[part][0] for row in rows]
    copies = [row[part][1] for row in rows if row[part][1] is not None]
    copy = f"{median(copies):5.2f}" if copies else "     "
    return f"{median(steps):7.2f} {copy}" if steps else " " * 13


class Cell:
    """The fits of one kind of data and batch."""

    def __init__(self, rows: Sequence[dict[str, Any]]) -> None:
        self._of: dict[tuple[str, str], dict[int, list[dict[str, Any]]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for row in rows:
            self._of[row["arm"], row["line"]][row["round"]].append(row)
        self.lines = list(dict.fromkeys(row["line"] for row in rows if row["line"]))

    def _steps(self, arm: str, line: str, part: str) -> dict[int, float]:
        """Return the median step of each round."""
        rounds = self._of[arm, line].items()
        return {at: median(row[part][0] for row in rows) for at, rows in rounds}

    def watch_over_bare(self) -> list[float]:
        """Return the ratio of each round."""
        return _ratios(self._steps("watch", "", "all"), self._steps("bare", "", "all"))

    def print_line(self, line: str) -> bool:
        """Print the row of a line; return whether a ratio is too large."""
        live = [row for rows in self._of["live", line].values() for row in rows]
        pasted = [row for rows in self._of["pasted", line].values() for row in rows]
        steps = self._steps
        over = _ratios(steps("live", line, "live"), steps("pasted", line, "all"))
        back = _ratios(steps("live", line, "back"), steps("live", line, "written"))
        parts = [_figures(live, part) for part in ("written", "live", "back")]
        parts.append(_figures(pasted, "all"))
        pause = median(row["pause_ms"] for row in live) if live else 0.0
        print(
            f"  {line:18} {' '.join(parts)}  {_text(over)}  {_text(back)}  {pause:5.0f} ms",
            flush=True,
        )
        failed = [row for row in live if row["switched"] != 2]
        if failed:
            print(f"    {len(failed)} of {len(live)} not switched: {failed[0]['failed']}")
        return _is_above(over) or _is_above(back)


def _ratios(over: dict[int, float], under: dict[int, float]) -> list[float]:
    return [over[at] / under[at] for at in over if at in under]


def print_table(file: Path) -> bool:
    """Print all rounds of a file; return whether a ratio is proved to be too large."""
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    cells: dict[tuple[int, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        cells[row["batch"], row["kind"]].append(row)
    bad = False
    print("  line                     written          live          back        pasted")
    for (batch, kind), own in sorted(cells.items()):
        cell, rounds = Cell(own), len({row["round"] for row in own})
        watch = cell.watch_over_bare()
        print(f"{kind}, batches of {batch}, {rounds} rounds: Watch/bare {_text(watch)}")
        for line in cell.lines:
            bad = cell.print_line(line) or bad
    return bad


def main() -> int:
    """Train, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--kinds", nargs="*", default=_KINDS)
    parser.add_argument("--batches", nargs="*", default=["64"])
    asked = parser.parse_args()
    if asked.minutes:
        words = [asked.out, ",".join(asked.kinds), ",".join(asked.batches), str(asked.minutes)]
        subprocess.run([sys.executable, str(_SCRIPT), *map(str, words)], cwd=ROOT, check=True)
    return int(print_table(asked.out / "fits.jsonl"))


if __name__ == "__main__":
    sys.exit(main())
