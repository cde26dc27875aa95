"""Do the patches of `tfwatch fix` apply, train the same, and give what they promise?

    python -m tests.bench.patches OUT [SCRIPT ...] [--slow 20] [--healthy 40] [--fresh 100]
        [--first 16 --cores 14]

Each script is fixed in a folder of its own, and OUT/rows.jsonl has a row of it. Where there is a
patch, git applies it, and the script runs in full as it was and as patched, as often as `--fresh`
allows for all patches: OUT/fresh.jsonl has a row for each pair of runs. Its gain should be within
the interval that the patch has for fresh runs in 95 of 100, and the losses of the last epochs
should be equal. What has a row is left out, so that the program can be stopped and run again.

`--slow` and `--healthy`: so many scripts of `slow_scripts`. `--cores`: each two run a script,
beside the others; without it, one script runs at a time on all cores.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.bench.slow_scripts import HEALTHY, healthy_scripts, slow_scripts
from tests.pseudo import ROOT
from tfwatch.fix.changes import FILLED, VALIDATED
from tfwatch.fix.pairs import PAIRS, gain_of
from tfwatch.judge.comparing.run_to_compare import NotComparableError, RunToCompare
from tfwatch.judge.judged_run import JudgedRun
from tfwatch.runs.run import open_run

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds of a fix, and of a run of a script; a fix begins no run later than the budget.
_LONGEST_S, _BUDGET = 1500, "6m"

#: The processes that run.
_children: list[subprocess.Popen[str]] = []
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
    """A folder, and the cores on which a script runs in it; empty: on all."""

    def __init__(self, folder: Path, cores: str) -> None:
        self.folder, self._cores = folder, cores
        folder.mkdir(parents=True)

    def fix(self, name: str, source: str) -> Row:
        """Fix a script."""
        script = self._script("train", source)
        allowed = ["--allow=validation"] if name == "validation" else []
        began_s = time.monotonic()
        found = self._tfwatch("fix", "--json", "--budget", _BUDGET, *allowed, str(script))
        row = Row(name, time.monotonic() - began_s)
        try:
            document = json.loads(found)
        except ValueError:
            row.why = f"fix failed: {(self.folder / 'log').read_text()[-500:]}"
            return row
        row.live_s = sum(open_run(Path(run)).length_s for run in document["runs"])
        row.restarts = (self.folder / "log").read_text().count(" steps\n")
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
        runs = dict(self._run(*side) for side in (sides if number % 2 else sides[::-1]))
        old, new = (runs[name] for name, _ in sides)
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

    def _run(self, name: str, source: str) -> tuple[str, RunToCompare | None]:
        runs_dir = self.folder / f"runs_{name}"
        self._tfwatch("run", "--headless", str(self._script(name, source)), runs_dir=runs_dir)
        runs = [JudgedRun(open_run(one.parent)) for one in runs_dir.glob("*/run.json")]
        first = min(runs, key=lambda one: one.run.manifest.origin_wall_ns, default=None)
        return name, RunToCompare(first, name) if first else None

    def _script(self, name: str, source: str) -> Path:
        script = self.folder / f"{name}.py"
        script.write_text(source)
        return script

    def _tfwatch(self, *words: str, runs_dir: Path | None = None) -> str:
        path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(ROOT))))
        environ = {
            **os.environ,
            "PYTHONPATH": path,
            "TFWATCH_RUNS_DIR": str(runs_dir or self.folder / "runs"),
            "TF_CPP_MIN_LOG_LEVEL": "1",
        }
        pinned = ["taskset", "-c", self._cores] if self._cores else []
        with (self.folder / "log").open("w") as log:
            child = subprocess.Popen(
                [*pinned, sys.executable, "-m", "tfwatch", *words],
                cwd=self.folder,
                env=environ,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
            _children.append(child)
            try:
                return child.communicate(timeout=_LONGEST_S)[0]
            finally:
                _end(child)
                _children.remove(child)


def _end(child: subprocess.Popen[str]) -> None:
    """End a process and all that it began."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def epochs_before(kept: list[str]) -> int:
    """Return the epochs after which a patch changes the time of an epoch; 0: it changes a step."""
    if any("validation_freq" in one for one in kept):
        return VALIDATED
    return FILLED if any("cache" in one for one in kept) else 0


def _last_loss(run: RunToCompare) -> float:
    epochs = run.epochs
    return epochs[max(epochs)].metrics.get("loss", math.nan) if epochs else math.nan


# -- all of them -----------------------------------------------------------------------------------


class Table:
    """The rows of a file, to which more are added."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()
        text = path.read_text() if path.exists() else ""
        # The last line of a program that was killed may be torn.
        self.rows = [json.loads(one) for one in text.splitlines(keepends=True) if one[-1] == "\n"]

    def add(self, row: Row | Pair) -> None:
        with self._lock, self._path.open("a") as file:
            file.write(json.dumps(asdict(row)) + "\n")
            self.rows.append(asdict(row))


class Bench:
    """The scripts by name, and what was measured of them."""

    def __init__(self, out: Path, scripts: dict[str, str], cores: list[str]) -> None:
        out.mkdir(parents=True, exist_ok=True)
        self.scripts = scripts
        self.fixed, self.fresh = Table(out / "rows.jsonl"), Table(out / "fresh.jsonl")
        self._cores, self._is_stopped, self._lock = cores, False, threading.Lock()

    def run(self, pairs: int) -> None:
        """Fix the scripts, and run those with a patch in so many pairs in all."""
        done = {row["name"] for row in self.fixed.rows}
        names = [name for name in self.scripts if name not in done]
        healthy = [name for name in names if name.startswith(HEALTHY)]
        slow = [name for name in names if name not in healthy]
        left_pairs = max(pairs - len(self.fresh.rows), 0)
        self._wanted = {"slow": slow, "healthy": healthy, "pairs": [""] * left_pairs}
        self._begun = dict.fromkeys(self._wanted, 0)
        self._pairs_begun = Counter(row["name"] for row in self.fresh.rows)
        pool = ThreadPoolExecutor(len(self._cores))
        try:
            for one in [pool.submit(self._work, cores) for cores in self._cores]:
                one.result()
        finally:
            self._is_stopped = sys.exc_info()[0] is not None
            for child in [*_children]:
                _end(child)
            pool.shutdown()

    def _work(self, cores: str) -> None:
        while not self._is_stopped and (job := self._next()):
            with tempfile.TemporaryDirectory(prefix="tfwatch-patches-") as folder:
                job(Place(Path(folder) / "script", cores))

    def _next(self) -> Callable[[Place], None] | None:
        """Return a job of the kind of which the smallest share has begun: a program that is stopped
        has as much of each."""
        with self._lock:
            patched = [
                row for row in self.fixed.rows if row["patched"] and row["name"] in self.scripts
            ]
            kinds = [
                kind
                for kind, wanted in self._wanted.items()
                if self._begun[kind] < len(wanted) and (kind != "pairs" or patched)
            ]
            if not kinds:
                return None
            kind = min(kinds, key=lambda one: self._begun[one] / len(self._wanted[one]))
            name = self._wanted[kind][self._begun[kind]]
            self._begun[kind] += 1
            if kind != "pairs":
                return partial(self._fix, name)
            row = Row(**min(patched, key=lambda one: self._pairs_begun[one["name"]]))
            self._pairs_begun[row.name] += 1
            return partial(self._compare, row, self._pairs_begun[row.name])

    def _fix(self, name: str, place: Place) -> None:
        row = place.fix(name, self.scripts[name])
        if not self._is_stopped:
            self.fixed.add(row)
            print_row(asdict(row))

    def _compare(self, row: Row, number: int, place: Place) -> None:
        pair = place.compare(row, self.scripts[row.name], number)
        if not self._is_stopped:
            self.fresh.add(pair)


# -- the table -------------------------------------------------------------------------------------


def print_row(row: dict[str, Any]) -> None:
    """Print a script that was fixed."""
    head = f"{row['name']:<34} {row['took_s']:4.0f} s"
    if row["promised"] is None:
        print(f"{head}  no patch  {row['why'][:100]}", flush=True)
        return
    promised = " ".join("n/a" if one is None else f"{one:.3g}" for one in row["promised"])
    applies = "applies" if row["applies"] else "APPLIES NOT"
    print(f"{head}  {applies}, promised {promised}: {', '.join(row['kept'])}", flush=True)


def print_pairs(row: dict[str, Any], pairs: list[dict[str, Any]]) -> Counter[str]:
    """Print the pairs of a patch, and return how many are within its interval."""
    found = Counter(_within(row, one["gain"]) for one in pairs)
    gains = sorted(one["gain"] for one in pairs if one["gain"] is not None)
    losses = [one["losses"] for one in pairs if one["losses"]]
    apart = max((abs(new / old - 1) for old, new in losses if old), default=math.nan)
    ends = f"{gains[0]:.3g} {gains[len(gains) // 2]:.3g} {gains[-1]:.3g}" if gains else "n/a"
    print(f"{row['name']:<34} fresh {ends} {dict(found)}; losses apart {apart:.1e}", flush=True)
    return found


def _within(row: dict[str, Any], gain: float | None) -> str:
    _, low, high = row["promised"]
    if gain is None or low is None:
        return "n/a"
    return "within" if low <= gain <= high else "beyond" if gain > high else "below"


def print_minutes(rows: list[dict[str, Any]]) -> None:
    """Print how long all fixes took, and about how long with restarted pairs for each setting that
    a running training tried."""
    took_s = sum(row["took_s"] for row in rows)
    restarts = sum(row["restarts"] for row in rows)
    each_s = sum(row["took_s"] - row["live_s"] for row in rows) / max(restarts, 1)
    switched = sum(row["switched"] for row in rows)
    more_s = switched * 2 * PAIRS * each_s
    print(
        f"{took_s / 60:.0f} minutes for {len(rows)} scripts, {switched} settings tried live; with"
        f" {2 * PAIRS} restarts for each of them {(took_s + more_s) / 60:.0f}"
    )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("scripts", type=Path, nargs="*")
    parser.add_argument("--slow", type=int, default=20)
    parser.add_argument("--healthy", type=int, default=40)
    parser.add_argument("--fresh", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--cores", type=int, default=0)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    scripts = list(slow_scripts().items())[: args.slow]
    scripts += [(one.stem, f"{_SEEDED}{one.read_text()}") for one in args.scripts]
    scripts += list(healthy_scripts(args.healthy).items())
    slots = range(args.first, args.first + args.cores - 1, 2)
    bench = Bench(args.out, dict(scripts), [f"{one},{one + 1}" for one in slots] or [""])
    for row in bench.fixed.rows:
        print_row(row)
    bench.run(args.fresh)
    total: Counter[str] = Counter()
    for row in bench.fixed.rows:
        if row["promised"]:
            total += print_pairs(
                row, [one for one in bench.fresh.rows if one["name"] == row["name"]]
            )
    print(f"in all {dict(total)}")
    print_minutes(bench.fixed.rows)


if __name__ == "__main__":
    main()
