"""Does tfwatch name the largest loss, and does its remedy give back the seconds that it claims?

    python -m tests.bench.losses OUT [--cases 10] [--slots 1] [--kinds NAME ...]

Each script of `tests/bench/losses` loses time to one cause, in sizes drawn from its seed: its first
line names the kinds of finding that are right, `none` where it loses to nothing. Each is run under
`tfwatch run --headless`, slow and remedied, at two cores. A row for each pair: the first finding
and its claim, and the seconds that the remedy gave back. Of `healthy.py`, which is trained 20
times, a loss of 10 % is wrong. Scripts `gpu_*` need a GPU, and are run where they are named.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from statistics import median
from typing import Any

from tests.pseudo import ROOT

FOLDER = Path(__file__).parent / "losses"
#: A claim is right within this share of what the remedy gives back.
_WITHIN = 0.20
#: A loss of less does not come first: compute does.
_HEALTHY = 0.10
#: These kinds are found by a profile of the step.
_OF_PROFILE = {
    "metric",
    "augmentation",
    "small-operations",
    "float16-on-cpu",
    "no-cudnn",
    "python-in-step",
}
#: A run that lasts longer, seconds, is ended.
_LONGEST_S = 180


@dataclass(frozen=True)
class Row:
    """A pair of runs. claimed_s: of the first finding; given_s: the slow run's length less that of
    the remedied one; None for a healthy run."""

    kind: str
    seed: int
    is_right: bool
    named: str
    claimed_s: float
    given_s: float | None
    sentence: str

    @property
    def ratio(self) -> float | None:
        """The claimed seconds over those given back."""
        return self.claimed_s / self.given_s if self.given_s and self.given_s > 0 else None


def kinds_of(script: Path) -> set[str]:
    """Return the kinds of finding that its first line names."""
    return set(script.read_text().partition(":")[0].strip('"').split())


def report_of(
    script: Path, words: list[str], runs_dir: Path, cores: str, *, explain: bool = False
) -> dict[str, Any]:
    """Run a script under tfwatch and return the report of its run."""
    environ = {**os.environ, "PYTHONPATH": _python_path(), "TF_CPP_MIN_LOG_LEVEL": "1"}
    pinned = ["taskset", "-c", cores] if cores else []
    own = [sys.executable, "-m", "tfwatch"]
    shared = ["--runs-dir", str(runs_dir)]
    more = ["--explain"] if explain or kinds_of(script) & _OF_PROFILE else []
    subprocess.run(
        [*pinned, *own, "run", "--headless", *more, *shared, str(script), *words],
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=(runs_dir.with_suffix(".log")).open("w"),
        timeout=_LONGEST_S,
        check=True,
    )
    done = subprocess.run(
        [*own, "report", "latest", "--json", *shared],
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    (runs_dir.with_suffix(".json")).write_text(done.stdout)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def _python_path() -> str:
    return os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))


def measure(script: Path, seed: int, out: Path, cores: str) -> Row:
    """Run a script, slow and remedied, and judge the first finding."""
    name = f"{script.stem}-{seed}"
    slow = report_of(script, [str(seed)], out / name, cores)
    least = _HEALTHY if script.stem == "healthy" else 0.0
    losses = [one for one in slow["findings"] if (one["share"] or 0.0) > least]
    nothing: dict[str, Any] = {"kind": "none", "sentence": ""}
    first = losses[0] if losses else nothing
    claimed_s = sum(one["lost_s"] for one in losses if one["kind"] in kinds_of(script))
    given_s = None
    if script.stem == "healthy":
        claimed_s = sum(one["lost_s"] for one in losses)
    else:
        remedied = report_of(script, [str(seed), "remedied"], out / f"{name}-remedied", cores)
        given_s = slow["length_s"] - remedied["length_s"]
    is_right = first["kind"] in kinds_of(script)
    if not is_right:
        with (out / "wrong.jsonl").open("a") as wrong:
            wrong.write(
                json.dumps([name, slow["findings"], slow["time_breakdown"]["total"]]) + "\n"
            )
    return Row(script.stem, seed, is_right, first["kind"], claimed_s, given_s, first["sentence"])


def print_row(row: Row) -> None:
    """Print a pair of runs."""
    ratio = f"{row.ratio:5.2f}" if row.ratio else "     "
    given = f"{row.given_s:6.1f}" if row.given_s is not None else "      "
    print(
        f"{'ok   ' if row.is_right else 'WRONG'} {row.kind:20} {row.seed:3} {row.named:16}"
        f" {row.claimed_s:6.1f} {given} {ratio}  {row.sentence[:90]}",
        flush=True,
    )


def print_summary(rows: list[Row]) -> None:
    """Print a line for each script: how often it was named right, and the ratios of its claims."""
    for kind in sorted({row.kind for row in rows}):
        own = [row for row in rows if row.kind == kind]
        right = sum(row.is_right for row in own)
        ratios = sorted(row.ratio for row in own if row.ratio is not None)
        within = sum(abs(ratio - 1) <= _WITHIN for ratio in ratios)
        claims = f"claimed over given back {median(ratios):.2f}, {within} within" if ratios else ""
        print(f"{kind:20} {right} of {len(own)} named  {claims}")


def main() -> int:
    """Run all, and return 1 where one is named wrongly."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--cases", type=int, default=10)
    parser.add_argument("--slots", type=int, default=1, help="pairs at a time, two cores each")
    parser.add_argument("--kinds", nargs="*", default=[])
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    slots: SimpleQueue[str] = SimpleQueue()
    for slot in range(asked.slots):
        slots.put(f"{2 * slot},{2 * slot + 1}" if asked.slots > 1 else "")

    def one(script: Path, seed: int) -> Row | None:
        cores = slots.get()
        try:
            row = measure(script, seed, asked.out, cores)
        except (subprocess.SubprocessError, ValueError, KeyError) as error:
            print(f"FAILED {script.stem} {seed}: {error}", flush=True)
            return None
        finally:
            slots.put(cores)
        print_row(row)
        return row

    scripts = sorted(FOLDER.glob("*.py"))
    chosen = [one for one in scripts if one.stem in asked.kinds]
    chosen = chosen or [one for one in scripts if not one.stem.startswith("gpu_")]
    with ThreadPoolExecutor(asked.slots) as pool:
        seeds = range(asked.first, asked.first + asked.cases)
        waiting = [
            pool.submit(one, script, seed)
            for script in chosen
            for seed in (range(20) if script.stem == "healthy" else seeds)
        ]
        rows = [row for each in waiting if (row := each.result())]
    print_summary(rows)
    return int(len(rows) < len(waiting) or not all(row.is_right for row in rows))


if __name__ == "__main__":
    sys.exit(main())
