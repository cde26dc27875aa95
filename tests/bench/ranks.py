"""The rank that tfwatch names, and its cause, where one rank of a real training is late.

    python -m tests.bench.ranks [--sizes 2,4] [--trials 40] [--clean 20] [--steps 200]

Trains on CPUs with `MultiWorkerMirroredStrategy`, a process a rank, one training after the other,
in random order: without a fault, or with one on a random rank: batches late by 20 ms, 25 ms more
compute, or 20 ms of Python after a step. Prints what was found, and
how far the forecast step time without that rank is from the step time of the groups without a
fault. Needs a core and a half a rank.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tfwatch.judge.groups.judged_group import JudgedGroup, judge_group
from tfwatch.judge.groups.late_rank import Cause
from tfwatch.runs.group import open_group

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]
EXPECTED = {
    "data": Cause.DATA_WAIT,
    "compute": Cause.COMPUTE,
    "host": Cause.HOST,
}
_TIMEOUT_S = 180.0


@dataclass(frozen=True, slots=True)
class Case:
    """A training: its fault, and the rank that has it."""

    fault: str
    rank: int


def train(size: int, cases: Sequence[Case], steps: int, runs_dir: Path) -> list[JudgedGroup]:
    """Run trainings one after the other; return the group of each.

    Raises:
        RuntimeError: a process failed.
    """
    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(size)]}
    words = [",".join(f"{case.fault}-{case.rank}" for case in cases), str(steps), str(runs_dir)]
    ranks = [start(cluster, rank, words) for rank in range(size)]
    try:
        for rank in ranks:
            _, errors = rank.communicate(timeout=_TIMEOUT_S)
            if rank.returncode:
                raise RuntimeError(errors[-2000:])
    finally:
        for rank in ranks:
            rank.kill()
    return [judged(runs_dir / str(number)) for number in range(len(cases))]


def judged(runs_dir: Path) -> JudgedGroup:
    """Return the only group of a folder."""
    (folder,) = runs_dir.iterdir()
    return judge_group(open_group(folder))


def start(cluster: dict[str, list[str]], rank: int, words: list[str]) -> subprocess.Popen[str]:
    """Start the process of a rank."""
    config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": rank}})
    environ = {
        **os.environ,
        "TF_CONFIG": config,
        "CUDA_VISIBLE_DEVICES": "-1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    command = [sys.executable, "-m", "tests.bench.rank_program", *words]
    return subprocess.Popen(command, cwd=ROOT, env=environ, stderr=subprocess.PIPE, text=True)


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def group_ms(group: JudgedGroup) -> float:
    """Return the mean usual step of a group."""
    return group.cycles.group_ms


def check(group: JudgedGroup, case: Case) -> tuple[bool, str]:
    """Return whether rank and cause were found, and what was found."""
    named = group.straggler
    if case.fault == "none":
        return named is None, str(named)
    expected = (case.rank, EXPECTED[case.fault])
    return bool(named and (named.rank, named.cause) == expected), str(named)


def make_cases(size: int, options: argparse.Namespace) -> list[Case]:
    """Return the trainings of a size, in random order."""
    faults = options.faults.split(",")
    cases = [Case(faults[n % len(faults)], random.randrange(size)) for n in range(options.trials)]
    cases += [Case("none", 0)] * options.clean
    random.shuffle(cases)
    return cases


def measure(size: int, options: argparse.Namespace) -> None:
    """Print what was found in the groups of a size."""
    cases = make_cases(size, options)
    with tempfile.TemporaryDirectory() as folder:
        groups = train(size, cases, options.steps, Path(folder))
    clean_ms = statistics.median(
        group_ms(group) for group, case in zip(groups, cases, strict=True) if case.fault == "none"
    )
    right: Counter[str] = Counter()
    for group, case in zip(groups, cases, strict=True):
        is_right, found = check(group, case)
        right[case.fault] += is_right
        word = "right" if is_right else "WRONG"
        print(
            f"  {case.fault}, rank {case.rank}: {word} {gain_text(group, case, clean_ms)} {found}",
            flush=True,
        )
    of = Counter(case.fault for case in cases)
    print(f"{size} ranks, {clean_ms:.1f} ms a step without a fault; right: ", end="")
    print(", ".join(f"{fault} {right[fault]} of {of[fault]}" for fault in of), flush=True)


def gain_text(group: JudgedGroup, case: Case, clean_ms: float) -> str:
    """Return the forecast gain without the late rank beside the gain that was measured."""
    if group.straggler is None or case.fault == "none":
        return ""
    forecast_ms, gained_ms = group.straggler.gain_ms, group_ms(group) - clean_ms
    return (
        f"gain {forecast_ms:.1f} ms, measured {gained_ms:.1f} ({forecast_ms / gained_ms - 1:+.0%})"
    )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="the late rank of a group, found and explained")
    parser.add_argument("--sizes", default="2,4")
    parser.add_argument("--trials", type=int, default=40, help="groups with a fault")
    parser.add_argument("--clean", type=int, default=20, help="groups without one, at least 1")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--faults", default=",".join(EXPECTED))
    options = parser.parse_args()
    for size in map(int, options.sizes.split(",")):
        measure(size, options)


if __name__ == "__main__":
    main()
