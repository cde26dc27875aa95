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

import argparse
import json
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from tests.bench.runner import (
    Rows,
    add_slots,
    figure,
    make_parser,
    print_head,
    print_row,
    run_jobs,
    run_tfwatch,
)

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
    it. advice: stands in the right one."""

    script: str
    kinds: tuple[str, ...]
    profiled: bool = False
    advice: str = ""


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
    "serial_map": Cause("serial_map", ("input-bound",), advice="num_parallel_calls"),
    "shuffle_fill": Cause("shuffle_fill", ("shuffle-fill",)),
    "slow_callback": Cause("epochs", ("callback",)),
    "stalls": Cause("reads", ("stall",)),
    "take_after_cache": Cause("take_after_cache", ("take-after-cache",)),
    "tiny_epochs": Cause("epochs", ("first-batch", "epoch-end")),
    "waiting_reads": Cause("reads", ("input-bound",)),
}


def report_of(cause: str, words: list[str], runs_dir: Path, cores: str) -> dict[str, Any]:
    """Run a script under tfwatch and return the report of its run."""
    script, profiled = CAUSES[cause].script, CAUSES[cause].profiled
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


def measure(cause: str, seed: int, cores: str) -> dict[str, Any]:
    """Run a script, slow and remedied, and return its row."""
    remedied: dict[str, Any] | None = None
    with tempfile.TemporaryDirectory() as folder:
        slow = report_of(cause, [str(seed)], Path(folder, "slow"), cores)
        if cause != _HEALTHY:
            words = [str(seed), "remedied"]
            remedied = report_of(cause, words, Path(folder, "remedied"), cores)
    row = {"kind": cause, "seed": seed, **judge(cause, slow["findings"])}
    row["given_s"] = slow["length_s"] - remedied["length_s"] if remedied else None
    return {**row, "slow": slow, "remedied": remedied}


def judge(cause: str, findings: list[dict[str, Any]]) -> dict[str, Any]:
    """Judge the findings of a slow run, or of a healthy one: whether the first is right, and the
    seconds that the right ones claim."""
    right, least = CAUSES[cause].kinds, _LEAST if cause == _HEALTHY else 0.0
    losses = [one for one in findings if (one["share"] or 0.0) > least]
    first = losses[0] if losses else {"kind": "none", "sentence": "", "advice": ""}
    claims_s = [one["lost_s"] for one in losses if cause == _HEALTHY or one["kind"] in right]
    named = {"named": first["kind"], "sentence": first["sentence"]}
    is_right = first["kind"] in right and CAUSES[cause].advice in (first["advice"] or "")
    return {"is_right": is_right, "claimed_s": sum(claims_s), **named}


def ratio_of(row: dict[str, Any]) -> float | None:
    """Return the claimed seconds over those given back; None where both are too small."""
    claimed_s, given_s = row["claimed_s"], row["given_s"] or 0.0
    return claimed_s / given_s if given_s > 0 and max(claimed_s, given_s) >= _LEAST_S else None


def run_pair(rows: Rows, cause: str, seed: int, cores: str) -> None:
    """Add the row of a pair, and print it."""
    try:
        row = measure(cause, seed, cores)
    except (subprocess.SubprocessError, ValueError, KeyError) as error:
        print(f"FAILED {cause} {seed}: {error}", flush=True)
        return
    rows.add(row)
    times = figure(row["claimed_s"], ".1f"), figure(row["given_s"], ".1f")
    right = "yes" if row["is_right"] else "NO"
    print_row(
        cause, seed, right, row["named"], *times, figure(ratio_of(row), ".2f"), row["sentence"][:90]
    )


def print_summary(rows: list[dict[str, Any]]) -> None:
    """Print a row for each cause: how often it was named right, and the ratios of its claims."""
    print_head("cause", "named", "claimed over given back", f"within {_WITHIN:.0%}", "each")
    for kind in sorted({row["kind"] for row in rows}):
        own = [row for row in rows if row["kind"] == kind]
        right = f"{sum(row['is_right'] for row in own)} of {len(own)}"
        ratios = sorted(ratio for row in own if (ratio := ratio_of(row)) is not None)
        within = sum(abs(ratio - 1) <= _WITHIN for ratio in ratios)
        each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        print_row(kind, right, figure(median(ratios) if ratios else None, ".2f"), within, each)


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
    done = {(row["kind"], row["seed"]) for row in file.read()}
    missing = [pair for pair in pairs(options) if pair not in done]
    print_head("cause", "seed", "right", "named", "claimed, s", "given back, s", "ratio", "")
    run_jobs(options, [partial(run_pair, file, *pair) for pair in missing])
    rows = file.read()
    print_summary(rows)
    return int(len(rows) < len(done) + len(missing) or not all(row["is_right"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
