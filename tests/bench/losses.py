"""Does tfwatch name the largest loss, and does its remedy give back the seconds that it claims?

    python -m tests.bench.losses OUT [--cases 10] [--slots 1] [--kinds NAME ...]

Each script of `tests/bench/losses` loses time to one cause, in sizes drawn from its seed: its first
line names the kinds of finding that are right, `none` where it loses to nothing. Each is run under
`tfwatch run --headless`, slow and remedied, at two cores. A row for each pair: the first finding
and its claim, and the seconds that the remedy gave back. Of `healthy.py`, which is trained 20
times, a loss of 5 % is wrong. Scripts `gpu_*` need a GPU, and are run where they are named.

OUT/rows.jsonl gets a row with both reports as soon as a pair is done, the kinds in turn. A pair
that has a row there is not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from queue import SimpleQueue
from statistics import median
from typing import Any

from tests.pseudo import ROOT

FOLDER = Path(__file__).parent / "losses"
#: A claim is right within this share of what the remedy gives back.
_WITHIN = 0.20
#: Of a smaller loss, seconds, there is no ratio: at the begin of an epoch, in a compile and in the
#: start two runs of one script differed by up to 1.3 s in 44 pairs, a fifth of it.
_LEAST_S = 6.5
_HEALTHY = "healthy"
#: So many healthy trainings, and the share from which on a loss of one is wrong.
_TRAININGS, _LEAST = 20, 0.05
#: These kinds are found by a profile of the step.
_OF_PROFILE = {
    "metric",
    "small-operations",
    "float16-on-cpu",
    "no-cudnn",
    "python-in-step",
}
#: A run that lasts longer, seconds, is ended.
_LONGEST_S = 120


@dataclass(frozen=True)
class Row:
    """A pair of runs. claimed_s: of the findings that are right; given_s: the slow run's length
    less that of the remedied one; None for a healthy run."""

    kind: str
    seed: int
    is_right: bool
    named: str
    claimed_s: float
    given_s: float | None
    sentence: str

    @property
    def ratio(self) -> float | None:
        """The claimed seconds over those given back; None where both are too small."""
        given_s = self.given_s or 0.0
        is_measured = given_s > 0 and max(self.claimed_s, given_s) >= _LEAST_S
        return self.claimed_s / given_s if is_measured else None


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
    with runs_dir.with_suffix(".log").open("w") as log:
        command = [*pinned, *own, "run", "--headless", *more, *shared, str(script), *words]
        _run(command, env=environ, stdout=subprocess.DEVNULL, stderr=log)
    done = subprocess.run(
        [*own, "report", "latest", "--json", *shared],
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def _run(command: list[str], **given: Any) -> None:
    """Run `tfwatch run`; stop it by SIGTERM where it takes too long: it ends its script, which
    would take the cores of the pairs after it.

    Raises:
        subprocess.SubprocessError: it took too long, or failed.
    """
    with subprocess.Popen(command, **given) as running:
        try:
            running.wait(_LONGEST_S)
        except subprocess.TimeoutExpired:
            running.terminate()
            raise
    if running.returncode:
        raise subprocess.CalledProcessError(running.returncode, command)


def _python_path() -> str:
    return os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))


def measure(script: Path, seed: int, cores: str) -> tuple[Row, dict[str, Any]]:
    """Run a script, slow and remedied, and judge the first finding; return the reports too."""
    is_healthy = script.stem == _HEALTHY
    with tempfile.TemporaryDirectory() as folder:
        slow = report_of(script, [str(seed)], Path(folder) / "slow", cores)
        remedied = None
        if not is_healthy:
            words = [str(seed), "remedied"]
            remedied = report_of(script, words, Path(folder) / "remedied", cores)
    given_s = slow["length_s"] - remedied["length_s"] if remedied else None
    return judge(script, seed, slow, given_s), {"slow": slow, "remedied": remedied}


def judge(script: Path, seed: int, slow: dict[str, Any], given_s: float | None) -> Row:
    """Judge the findings of a slow run, or of a healthy one."""
    is_healthy, right = script.stem == _HEALTHY, kinds_of(script)
    least = _LEAST if is_healthy else 0.0
    losses = [one for one in slow["findings"] if (one["share"] or 0.0) > least]
    nothing: dict[str, Any] = {"kind": "none", "sentence": ""}
    first = losses[0] if losses else nothing
    claimed_s = sum(one["lost_s"] for one in losses if is_healthy or one["kind"] in right)
    is_right = first["kind"] in right
    return Row(script.stem, seed, is_right, first["kind"], claimed_s, given_s, first["sentence"])


class RowFile:
    """The rows of all pairs so far, in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        names = {field.name for field in fields(Row)}
        known = (json.loads(line) for line in lines)
        self.rows = [Row(**{name: row[name] for name in names}) for row in known]

    def has(self, script: Path, seed: int) -> bool:
        """Return whether a pair has its row."""
        return any((row.kind, row.seed) == (script.stem, seed) for row in self.rows)

    def add(self, row: Row, reports: dict[str, Any]) -> None:
        """Append a row with its reports."""
        line = json.dumps({**asdict(row), **reports}, separators=(",", ":"))
        with self._path.open("a") as file:
            file.write(f"{line}\n")
        self.rows.append(row)


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
        each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"{kind:20} {right} of {len(own)} named  {claims}: {each}")


def pairs(scripts: list[Path], first: int, cases: int) -> list[tuple[Path, int]]:
    """Return the pairs in the order of their runs: a stop in the middle leaves rows of each
    kind."""
    counts = {one: _TRAININGS if one.stem == _HEALTHY else cases for one in scripts}
    turns = [(n / count, one, n) for one, count in counts.items() for n in range(count)]
    return [(script, first + n) for _, script, n in sorted(turns)]


def main() -> int:
    """Run all, and return 1 where one is named wrongly."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--cases", type=int, default=10)
    parser.add_argument("--slots", type=int, default=1, help="pairs at a time, two cores each")
    parser.add_argument("--first-core", type=int, default=0, help="of the slots")
    parser.add_argument("--kinds", nargs="*", default=[])
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    file = RowFile(asked.out / "rows.jsonl")
    slots: SimpleQueue[str] = SimpleQueue()
    for slot in range(asked.slots):
        core = asked.first_core + 2 * slot
        slots.put(f"{core},{core + 1}" if asked.slots > 1 or asked.first_core else "")

    def one(script: Path, seed: int) -> Row | None:
        cores = slots.get()
        try:
            row, reports = measure(script, seed, cores)
        except (subprocess.SubprocessError, ValueError, KeyError) as error:
            print(f"FAILED {script.stem} {seed}: {error}", flush=True)
            return None
        finally:
            slots.put(cores)
        file.add(row, reports)
        print_row(row)
        return row

    scripts = sorted(FOLDER.glob("*.py"))
    chosen = [one for one in scripts if one.stem in asked.kinds]
    chosen = chosen or [one for one in scripts if not one.stem.startswith("gpu_")]
    missing = [pair for pair in pairs(chosen, asked.first, asked.cases) if not file.has(*pair)]
    with ThreadPoolExecutor(asked.slots) as pool:
        rows = [row for row in pool.map(one, *zip(*missing, strict=True)) if row] if missing else []
    print_summary(file.rows)
    return int(len(rows) < len(missing) or not all(row.is_right for row in file.rows))


if __name__ == "__main__":
    sys.exit(main())
