"""Do the patches of `tfwatch fix` apply, train the same, and give what they promise?

    python -m tests.bench.patches OUT [SCRIPT ...] [--slow 20] [--healthy 40] [--fresh 3]
        [--slots 7 --first-core 16]

Each script is fixed in a folder of its own, and OUT/rows.jsonl has a row of it. Where there is a
patch, git applies it, and the script runs in full as it was and as patched, `--fresh` times:
OUT/fresh.jsonl has a row for each pair of runs. Its gain should be within the interval that the
patch has for fresh runs in 95 of 100, and the losses of the last epochs should be equal. What has a
row is left out, so that the program can be stopped and run again.

`--slow` and `--healthy`: so many scripts of `slow_scripts`.
"""

import json
import math
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench.runner import (
    Rows,
    add_slots,
    is_stopped,
    make_parser,
    print_head,
    print_row,
    run_jobs,
    run_python,
)
from tests.bench.slow_scripts import healthy_scripts, slow_scripts
from tfwatch.fix.changes import FILLED, VALIDATED
from tfwatch.fix.pairs import PAIRS, gain_of
from tfwatch.judge.comparing.run_to_compare import NotComparableError, RunToCompare
from tfwatch.judge.judged_run import JudgedRun
from tfwatch.runs.run import open_run

#: Seconds of a fix, and of a run of a script; a fix begins no run later than the budget.
_LONGEST_S, _BUDGET = 1500, "6m"
#: Without it the losses of two runs differ.
_SEEDED = "import keras\n\nkeras.utils.set_random_seed(1)\n"


@dataclass
class Row:
    """A script that was fixed. promised: of the patch in fresh runs, with its interval; None
    without a patch. live_s: of its run to the end. restarts: runs of its first steps. switched:
    settings that were tried in that one run."""

    name: str
    took_s: float = 0.0
    live_s: float = 0.0
    restarts: int = 0
    switched: int = 0
    tried: list[tuple[str, str]] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    why: str = ""
    applies: bool = False
    patched: str = ""
    promised: list[float | None] | None = None


@dataclass
class Pair:
    """A script as it was, and as patched. losses: of the last epoch."""

    name: str
    number: int
    gain: float | None
    losses: list[float]
    why: str = ""


class Place:
    """A folder, and the cores on which a script runs in it."""

    def __init__(self, folder: Path, cores: str) -> None:
        self.folder, self._cores = folder, cores
        folder.mkdir(parents=True)

    def fix(self, name: str, source: str) -> Row:
        """Fix a script."""
        script = self._script("train", source)
        allowed = ["--allow=validation"] if name == "validation" else []
        began_s = time.monotonic()
        done = self._tfwatch("runs", "fix", "--json", "--budget", _BUDGET, *allowed, script)
        row = Row(name, time.monotonic() - began_s)
        if not done.stdout:
            row.why = f"fix failed: {done.stderr[-500:]}"
            return row
        document = json.loads(done.stdout)
        row.live_s = sum(open_run(Path(run)).length_s for run in document["runs"])
        row.restarts = done.stderr.count(" steps\n")
        row.tried = [(one["change"], one["outcome"]) for one in document["tried"]]
        row.switched = sum("/step over" in outcome for _, outcome in row.tried)
        row.kept = [one["change"] for one in document["tried"] if one["kept"]]
        row.why = document["why_none"] or ""
        if document["patch"]:
            row.promised = [document[f"speedup{end}"] for end in ("", "_low", "_high")]
            row.applies = self._applies(document["patch"])
            row.patched = script.read_text()
        return row

    def _applies(self, patch: str) -> bool:
        (self.folder / "fix.diff").write_text(patch)
        git = ["git", "apply", "fix.diff"]
        return subprocess.run(git, cwd=self.folder, check=False).returncode == 0

    def compare(self, row: Row, source: str, number: int) -> Pair:
        """Run a script as it was and as patched, in an order that changes."""
        sides = [("as_it_was", source), ("patched", row.patched)]
        runs = {side: self._run(side, text) for side, text in sides[:: 1 if number % 2 else -1]}
        old, new = runs["as_it_was"], runs["patched"]
        if not old or not new:
            return Pair(row.name, number, None, [], "a run failed")
        losses = [_last_loss(old), _last_loss(new)]
        try:
            epochs = epochs_before(row.kept)
            # One run of each side has a ratio of its epochs, and no interval.
            many = 2 if epochs else 1
            gain = gain_of(([old] * many, [new] * many), epochs).ratio
        except NotComparableError as error:
            return Pair(row.name, number, None, losses, str(error))
        return Pair(row.name, number, gain, losses)

    def _run(self, side: str, source: str) -> RunToCompare | None:
        self._tfwatch(side, "run", "--headless", self._script(side, source))
        runs = [JudgedRun(open_run(one.parent)) for one in self.folder.glob(f"{side}/*/run.json")]
        first = min(runs, key=lambda one: one.run.manifest.origin_wall_ns, default=None)
        return RunToCompare(first, side) if first else None

    def _script(self, name: str, source: str) -> Path:
        script = self.folder / f"{name}.py"
        script.write_text(source)
        return script

    def _tfwatch(self, runs_dir: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
        return run_python(
            *("-m", "tfwatch", *words),
            cwd=self.folder,
            cores=self._cores,
            longest_s=_LONGEST_S,
            environ={"TFWATCH_RUNS_DIR": str(self.folder / runs_dir)},
        )


def epochs_before(kept: list[str]) -> int:
    """Return the epochs after which a patch changes the time of an epoch; 0: it changes a step."""
    if any("validation_freq" in one for one in kept):
        return VALIDATED
    return FILLED if any("cache" in one for one in kept) else 0


def _last_loss(run: RunToCompare) -> float:
    epochs = run.epochs
    return epochs[max(epochs)].metrics.get("loss", math.nan) if epochs else math.nan


class Bench:
    """The scripts by name, and what was measured of them."""

    def __init__(self, out: Path, scripts: dict[str, str], fresh: int) -> None:
        self.scripts, self._fresh = scripts, fresh
        self.fixed, self.pairs = Rows(out / "rows.jsonl"), Rows(out / "fresh.jsonl")

    def run(self, name: str, cores: str) -> None:
        """Fix a script, and run it as it was and as patched."""
        with tempfile.TemporaryDirectory(prefix="tfwatch-patches-") as folder:
            if not self.fixed.has(name=name):
                row = Place(Path(folder, "script"), cores).fix(name, self.scripts[name])
                self._add(self.fixed, row)
            row = Row(**next(one for one in self.fixed.read() if one["name"] == name))
            done = sum(one["name"] == name for one in self.pairs.read())
            for number in range(done, self._fresh if row.promised else 0):
                place = Place(Path(folder, str(number)), cores)
                self._add(self.pairs, place.compare(row, self.scripts[name], number))

    def _add(self, rows: Rows, row: Row | Pair) -> None:
        if is_stopped():
            raise SystemExit
        rows.add(asdict(row))

    def print_rows(self) -> None:
        """Print a row for each script, and the sums."""
        print_head("script", "fix, s", "patch", "promised", "fresh", "losses apart", "within")
        total: Counter[str] = Counter()
        rows = self.fixed.read()
        for row in rows:
            pairs = [one for one in self.pairs.read() if one["name"] == row["name"]]
            found = Counter(_within(row, one["gain"]) for one in pairs)
            total += found
            print_row(row["name"], f"{row['took_s']:.0f}", *_cells(row, pairs), dict(found))
        print(f"in all {dict(total)}")
        print_minutes(rows)


def print_minutes(rows: list[dict[str, Any]]) -> None:
    """Print how long all fixes took, and about how long with restarted pairs for each setting that
    a running training tried."""
    took_s, live_s, restarts, switched = (
        sum(row[name] for row in rows) for name in ("took_s", "live_s", "restarts", "switched")
    )
    more_s = switched * 2 * PAIRS * (took_s - live_s) / max(restarts, 1)
    print(
        f"{took_s / 60:.0f} minutes, {restarts} restarts, {switched} settings tried live; with"
        f" {2 * PAIRS} restarts for each of them {(took_s + more_s) / 60:.0f} minutes"
    )


def _cells(row: dict[str, Any], pairs: list[dict[str, Any]]) -> Iterator[str]:
    if row["promised"] is None:
        yield from (row["why"][:60], "", "", "")
        return
    yield ", ".join(row["kept"]) + ("" if row["applies"] else ", APPLIES NOT")
    yield " ".join("n/a" if one is None else f"{one:.3g}" for one in row["promised"])
    yield " ".join(f"{one['gain']:.3g}" for one in pairs if one["gain"] is not None)
    losses = [one["losses"] for one in pairs if one["losses"]]
    yield f"{max((abs(new / old - 1) for old, new in losses if old), default=math.nan):.1e}"


def _within(row: dict[str, Any], gain: float | None) -> str:
    _, low, high = row["promised"]
    if gain is None or low is None:
        return "n/a"
    return "within" if low <= gain <= high else "beyond" if gain > high else "below"


def main() -> None:
    """Run the benchmark."""
    parser = make_parser(__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("scripts", type=Path, nargs="*")
    parser.add_argument("--slow", type=int, default=20)
    parser.add_argument("--healthy", type=int, default=40)
    parser.add_argument("--fresh", type=int, default=3, help="pairs of runs of each patch (3)")
    add_slots(parser)
    options = parser.parse_args()
    scripts = dict(list(slow_scripts().items())[: options.slow])
    scripts |= {one.stem: f"{_SEEDED}{one.read_text()}" for one in options.scripts}
    scripts |= healthy_scripts(options.healthy)
    bench = Bench(options.out, scripts, options.fresh)
    run_jobs(options, [partial(bench.run, name) for name in scripts])
    bench.print_rows()


if __name__ == "__main__":
    main()
