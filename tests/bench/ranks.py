"""The rank that tfwatch names, and its cause, where one rank of a real training is late.

    python -m tests.bench.ranks [--sizes 2 4] [--trials 40] [--clean 20] [--steps 200]

Trains on CPUs with `MultiWorkerMirroredStrategy`, a process a rank, one training after the other,
in random order: without a fault, or with one on a random rank: batches late by 20 ms, 25 ms more
compute, or 20 ms of Python after a step. Prints what was found, and
how far the forecast step time without that rank is from the step time of the groups without a
fault. Needs a core and a half a rank.
"""

import argparse
import json
import random
import socket
import statistics
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.bench.runner import make_parser, print_head, print_row, run_python
from tfwatch.judge.groups.judged_group import JudgedGroup, judge_group
from tfwatch.judge.groups.late_rank import Cause
from tfwatch.runs.group import open_group

#: The cause of each fault.
EXPECTED = {"data": Cause.DATA_WAIT, "compute": Cause.COMPUTE, "host": Cause.HOST}
_LONGEST_S = 180.0


class Case(NamedTuple):
    """A training: its fault, and the rank that has it."""

    fault: str
    rank: int


def train(size: int, cases: Sequence[Case], steps: int, runs_dir: Path) -> list[JudgedGroup]:
    """Run trainings one after the other; return the group of each.

    Raises:
        RuntimeError: a process failed.
    """
    workers = [f"127.0.0.1:{port}" for port in free_ports(size)]
    words = [",".join(f"{case.fault}-{case.rank}" for case in cases), str(steps), str(runs_dir)]

    def run_rank(rank: int) -> None:
        task = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}}
        done = run_python(
            *("-m", "tests.bench.rank_program", *words),
            longest_s=_LONGEST_S,
            environ={"TF_CONFIG": json.dumps(task), "CUDA_VISIBLE_DEVICES": "-1"},
        )
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])

    with ThreadPoolExecutor(size) as pool:
        list(pool.map(run_rank, range(size)))
    folders = [next((runs_dir / str(number)).iterdir()) for number in range(len(cases))]
    return [judge_group(open_group(folder)) for folder in folders]


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def check(group: JudgedGroup, case: Case) -> tuple[bool, str]:
    """Return whether rank and cause were found, and what was found."""
    named = group.straggler
    if case.fault == "none":
        return named is None, str(named)
    expected = (case.rank, EXPECTED[case.fault])
    return bool(named and (named.rank, named.cause) == expected), str(named)


def make_cases(size: int, options: argparse.Namespace) -> list[Case]:
    """Return the trainings of a size, in random order."""
    faults = options.faults
    cases = [Case(faults[n % len(faults)], random.randrange(size)) for n in range(options.trials)]
    cases += [Case("none", 0)] * options.clean
    random.shuffle(cases)
    return cases


def measure(size: int, options: argparse.Namespace) -> None:
    """Print what was found in the groups of a size."""
    cases = make_cases(size, options)
    with tempfile.TemporaryDirectory() as folder:
        groups = train(size, cases, options.steps, Path(folder))
    pairs = [*zip(groups, cases, strict=True)]
    healthy_ms = [group.cycles.group_ms for group, case in pairs if case.fault == "none"]
    clean_ms, right = statistics.median(healthy_ms), Counter[str]()
    for group, case in pairs:
        is_right, found = check(group, case)
        right[case.fault] += is_right
        gain = gain_text(group, clean_ms) if case.fault != "none" else ""
        print_row(size, *case, "right" if is_right else "WRONG", gain, found)
    of = Counter(case.fault for case in cases)
    print(f"{size} ranks, {clean_ms:.1f} ms a step without a fault; right: ", end="")
    print(", ".join(f"{fault} {right[fault]} of {of[fault]}" for fault in of), flush=True)


def gain_text(group: JudgedGroup, clean_ms: float) -> str:
    """Return the forecast gain without the late rank beside the gain that was measured."""
    if group.straggler is None:
        return ""
    forecast_ms, gained_ms = group.straggler.gain_ms, group.cycles.group_ms - clean_ms
    return f"{forecast_ms:.1f} ms, measured {gained_ms:.1f} ({forecast_ms / gained_ms - 1:+.0%})"


def main() -> None:
    """Run the benchmark."""
    parser = make_parser(__doc__)
    parser.add_argument("--sizes", nargs="*", type=int, default=[2, 4])
    parser.add_argument("--trials", type=int, default=40, help="groups with a fault")
    parser.add_argument("--clean", type=int, default=20, help="groups without one, at least 1")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--faults", nargs="*", default=[*EXPECTED], choices=EXPECTED)
    options = parser.parse_args()
    print_head("ranks", "fault", "of rank", "", "gain", "found")
    for size in options.sizes:
        measure(size, options)


if __name__ == "__main__":
    main()
