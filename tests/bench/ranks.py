"""The rank that tfwatch names, and its cause, where one rank of a real training is late.

    python -m tests.bench.ranks [--sizes 2,4] [--trials 5] [--clean 10] [--steps 150]

Trains on CPUs with `MultiWorkerMirroredStrategy`, a process a rank, a fault on a random rank: batches late by 20 ms,
25 ms more compute, 20 ms of Python after the step, or a process that stops for 1.5 s. Prints what was found, and how
far the forecast step time without that rank is from the step time of the groups without a fault.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tfwatch.analysis.groups.straggler import Cause, usual
from tfwatch.core.rows import STEP
from tfwatch.live.groups.judged_group import JudgedGroup
from tfwatch.runs.format import STEPS
from tfwatch.runs.groups.reading import open_group

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]
EXPECTED = {
    "data": Cause.DATA_WAIT,
    "compute": Cause.COMPUTE,
    "host": Cause.HOST,
    "pause": Cause.NOT_RUNNING,
}
#: Steps before the process is stopped, and the seconds of its stop.
_PAUSE_AFTER, _PAUSE_S = 60, 1.5
_TIMEOUT_S = 180.0


def train(size: int, late: int, fault: str, steps: int, runs_dir: Path) -> JudgedGroup:
    """Train with a fault on one rank; return the group."""
    ports = free_ports(size)
    cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
    ranks = [start(cluster, rank, fault if rank == late else "none", steps, runs_dir) for rank in range(size)]
    try:
        if fault == "pause":
            pause(ranks[late], runs_dir, late)
        for rank in ranks:
            _, errors = rank.communicate(timeout=_TIMEOUT_S)
            if rank.returncode:
                raise RuntimeError(errors[-2000:])
    finally:
        for rank in ranks:
            rank.kill()
    (folder,) = runs_dir.iterdir()
    return JudgedGroup(open_group(folder))


def start(cluster: dict[str, list[str]], rank: int, fault: str, steps: int, runs_dir: Path) -> subprocess.Popen[str]:
    """Start the process of a rank."""
    config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": rank}})
    environ = {**os.environ, "TF_CONFIG": config, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-m", "tests.bench.rank_program", fault, str(steps), str(runs_dir)]
    return subprocess.Popen(command, cwd=ROOT, env=environ, stderr=subprocess.PIPE, text=True)


def pause(process: subprocess.Popen[str], runs_dir: Path, rank: int) -> None:
    """Stop a process for a while in the middle of its training."""
    deadline_s = time.monotonic() + _TIMEOUT_S
    while steps_of(runs_dir, rank) < _PAUSE_AFTER:
        if process.poll() is not None or time.monotonic() > deadline_s:
            raise RuntimeError(f"rank {rank} made no {_PAUSE_AFTER} steps")
        time.sleep(0.02)
    time.sleep(random.random() / 10)
    process.send_signal(signal.SIGSTOP)
    time.sleep(_PAUSE_S)
    process.send_signal(signal.SIGCONT)


def steps_of(runs_dir: Path, rank: int) -> int:
    """Return the steps that a rank has written."""
    return sum(path.stat().st_size for path in runs_dir.glob(f"*/rank-{rank}/{STEPS}")) // STEP.itemsize


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def group_ms(group: JudgedGroup) -> float:
    """Return the mean usual step of a group."""
    return float(group.aligned.cycle[usual(group.aligned)].mean())


def check(group: JudgedGroup, fault: str, late: int) -> tuple[bool, str]:
    """Return whether rank and cause were found, and what was found."""
    if fault == "pause":
        found = max(group.hold_ups, key=lambda one: one.lost_ms, default=None)
        is_right = bool(found and (found.rank, found.cause) == (late, EXPECTED[fault]))
        return is_right and group.straggler is None, f"{found}, straggler {group.straggler}"
    named = group.straggler
    return bool(named and (named.rank, named.cause) == (late, EXPECTED[fault])), str(named)


def measure(size: int, options: argparse.Namespace, faults: Sequence[str]) -> None:
    """Print the clean groups of a size, then those with a fault."""
    clean_ms = []
    named = 0
    for _ in range(options.clean):
        with tempfile.TemporaryDirectory() as folder:
            group = train(size, 0, "none", options.steps, Path(folder))
            clean_ms.append(group_ms(group))
            named += group.straggler is not None
    bare_ms = statistics.median(clean_ms)
    print(f"{size} ranks: {options.clean} clean groups, {named} named a straggler; {bare_ms:.1f} ms a step", flush=True)
    for fault in faults:
        for _ in range(options.trials):
            late = random.randrange(size)
            with tempfile.TemporaryDirectory() as folder:
                group = train(size, late, fault, options.steps, Path(folder))
                right, found = check(group, fault, late)
            print(
                f"  {fault}, rank {late}: {'right' if right else 'WRONG'} {gain_text(group, bare_ms)} {found}",
                flush=True,
            )


def gain_text(group: JudgedGroup, bare_ms: float) -> str:
    """Return the forecast gain without the late rank beside the gain that was measured."""
    if group.straggler is None:
        return ""
    forecast_ms, gained_ms = group.straggler.gain_ms, group_ms(group) - bare_ms
    return f"gain {forecast_ms:.1f} ms, measured {gained_ms:.1f} ({forecast_ms / gained_ms - 1:+.0%})"


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="the late rank of a group, found and explained")
    parser.add_argument("--sizes", default="2,4")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--clean", type=int, default=10)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--faults", default=",".join(EXPECTED))
    options = parser.parse_args()
    for size in map(int, options.sizes.split(",")):
        measure(size, options, options.faults.split(","))


if __name__ == "__main__":
    main()
