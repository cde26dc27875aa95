"""Does tfwatch name the largest loss, and does its remedy give back the seconds that it claims?

    python -m tests.bench.losses OUT [--cases 10] [--slots 1] [--kinds CAUSE ...]

Each script of `tests/bench/losses` loses time to one cause, in sizes drawn from a seed. It is run
under `tfwatch run --headless`, slow and remedied. A row for each pair: the first finding and its
claim, and the seconds that the remedy gave back. Of `healthy`, which is trained 20 times, a loss of
5 % is wrong. The causes `gpu_*` need a GPU, and are run where they are named.

OUT/rows.jsonl gets a row with both reports as soon as a pair is done, the causes in turn. A pair
that has a row there is not run again.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.bench.runner import Rows, add_slots, make_parser, run_jobs, run_tfwatch

if TYPE_CHECKING:
    import argparse

#: A claim is right within this share of what the remedy gives back.
_WITHIN = 0.20
#: Of a smaller loss, seconds, there is no ratio: at the begin of an epoch, in a compile and in the
#: start two runs of one script differed by up to 1.3 s in 44 pairs, a fifth of it.
_LEAST_S = 6.5
_HEALTHY = "healthy"
#: So many healthy trainings, and the share from which on a loss of one is wrong.
_TRAININGS, _LEAST = 20, 0.05
#: A run that lasts longer, seconds, is ended.
_LONGEST_S = 120


class Cause(NamedTuple):
    """The script of a cause, and the findings that are right. profiled: a profile of the step finds
    it."""

    script: str
    kinds: tuple[str, ...]
    profiled: bool = False


CAUSES = {
    "cheap_maps": Cause("cheap_maps", ("cheap-maps",)),
    "chunks_between_fits": Cause("fits", ("between-fits",)),
    "dense_update": Cause("layers", ("dense-update",)),
    "eager": Cause("loops", ("eager",)),
    "float16_convolutions": Cause("layers", ("float16-on-cpu",), profiled=True),
    "generator_rows": Cause("generator_rows", ("generator-rows",)),
    "gpu_copies": Cause("gpu_copies", ("copy-bound",)),
    "gpu_recurrent": Cause("layers", ("no-cudnn",), profiled=True),
    _HEALTHY: Cause(_HEALTHY, ("none",)),
    "heavy_metric": Cause("layers", ("metric",), profiled=True),
    "kept_order": Cause("reads", ("kept-order",)),
    "long_validation": Cause("epochs", ("validation",)),
    "loop_python": Cause("loops", ("host-bound", "epoch-end", "between-fits")),
    "new_models": Cause("fits", ("new-models",)),
    "predict_between_fits": Cause("fits", ("between-fits",)),
    "python_dataset": Cause("reads", ("input-bound",)),
    "python_in_step": Cause("layers", ("python-in-step",), profiled=True),
    "recurrent_loop": Cause("layers", ("small-operations",), profiled=True),
    "retraced_lengths": Cause("retraced_lengths", ("retracing",)),
    "retraced_numbers": Cause("loops", ("retracing",)),
    "serial_map": Cause("serial_map", ("input-bound",)),
    "shuffle_fill": Cause("shuffle_fill", ("shuffle-fill",)),
    "slow_callback": Cause("epochs", ("callback",)),
    "stalls": Cause("reads", ("stall",)),
    "take_after_cache": Cause("take_after_cache", ("take-after-cache",)),
    "tiny_epochs": Cause("epochs", ("first-batch", "epoch-end")),
    "waiting_reads": Cause("reads", ("input-bound",)),
}


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


def report_of(cause: str, words: list[str], runs_dir: Path, cores: str) -> dict[str, Any]:
    """Run a script under tfwatch and return the report of its run."""
    script, _, profiled = CAUSES[cause]
    path = Path(__file__).parent / "losses" / f"{script}.py"
    more = ["--explain"] if profiled else []
    given = ["--runs-dir", str(runs_dir)]
    run_tfwatch(
        *("run", "--headless", *more, *given, str(path), cause, *words),
        cores=cores,
        longest_s=_LONGEST_S,
    )
    report: dict[str, Any] = json.loads(run_tfwatch("report", "latest", "--json", *given).stdout)
    return report


def measure(cause: str, seed: int, cores: str) -> tuple[Row, dict[str, Any]]:
    """Run a script, slow and remedied, and judge the first finding; return the reports too."""
    with tempfile.TemporaryDirectory() as folder:
        slow = report_of(cause, [str(seed)], Path(folder, "slow"), cores)
        remedied = None
        if cause != _HEALTHY:
            words = [str(seed), "remedied"]
            remedied = report_of(cause, words, Path(folder, "remedied"), cores)
    given_s = slow["length_s"] - remedied["length_s"] if remedied else None
    return judge(cause, seed, slow, given_s), {"slow": slow, "remedied": remedied}


def judge(cause: str, seed: int, slow: dict[str, Any], given_s: float | None) -> Row:
    """Judge the findings of a slow run, or of a healthy one."""
    is_healthy, right = cause == _HEALTHY, CAUSES[cause].kinds
    least = _LEAST if is_healthy else 0.0
    losses = [one for one in slow["findings"] if (one["share"] or 0.0) > least]
    nothing: dict[str, Any] = {"kind": "none", "sentence": ""}
    first = losses[0] if losses else nothing
    claimed_s = sum(one["lost_s"] for one in losses if is_healthy or one["kind"] in right)
    is_right = first["kind"] in right
    return Row(cause, seed, is_right, first["kind"], claimed_s, given_s, first["sentence"])


def run_pair(rows: Rows, cause: str, seed: int, cores: str) -> None:
    """Add the row of a pair, and print it."""
    try:
        row, reports = measure(cause, seed, cores)
    except (subprocess.SubprocessError, ValueError, KeyError) as error:
        print(f"FAILED {cause} {seed}: {error}", flush=True)
        return
    rows.add({**asdict(row), **reports})
    ratio = f"{row.ratio:5.2f}" if row.ratio else "     "
    given = f"{row.given_s:6.1f}" if row.given_s is not None else "      "
    print(
        f"{'ok   ' if row.is_right else 'WRONG'} {row.kind:20} {row.seed:3} {row.named:16}"
        f" {row.claimed_s:6.1f} {given} {ratio}  {row.sentence[:90]}",
        flush=True,
    )


def print_summary(rows: list[Row]) -> None:
    """Print a line for each cause: how often it was named right, and the ratios of its claims."""
    for kind in sorted({row.kind for row in rows}):
        own = [row for row in rows if row.kind == kind]
        right = sum(row.is_right for row in own)
        ratios = sorted(row.ratio for row in own if row.ratio is not None)
        within = sum(abs(ratio - 1) <= _WITHIN for ratio in ratios)
        claims = f"claimed over given back {median(ratios):.2f}, {within} within" if ratios else ""
        each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"{kind:20} {right} of {len(own)} named  {claims}: {each}")


def pairs(options: argparse.Namespace) -> list[tuple[str, int]]:
    """Return the pairs in the order of their runs: a stop in the middle leaves rows of each
    cause."""
    chosen = options.kinds or [cause for cause in CAUSES if not cause.startswith("gpu_")]
    counts = {one: _TRAININGS if one == _HEALTHY else options.cases for one in chosen}
    turns = [(n / count, one, n) for one, count in counts.items() for n in range(count)]
    return [(cause, options.first + n) for _, cause, n in sorted(turns)]


def main() -> int:
    """Run all, and return 1 where one is named wrongly."""
    parser = make_parser(__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--cases", type=int, default=10)
    parser.add_argument("--kinds", nargs="*", default=[], choices=CAUSES, metavar="CAUSE")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    add_slots(parser)
    options = parser.parse_args()
    file = Rows(options.out / "rows.jsonl")
    missing = [one for one in pairs(options) if not file.has(kind=one[0], seed=one[1])]
    before = len(file.read())
    run_jobs(options, [partial(run_pair, file, *pair) for pair in missing])
    names = [field.name for field in fields(Row)]
    rows = [Row(**{name: row[name] for name in names}) for row in file.read()]
    print_summary(rows)
    return int(len(rows) < before + len(missing) or not all(row.is_right for row in rows))


if __name__ == "__main__":
    sys.exit(main())
