"""Ranks that are killed at random moments: rows that are lost, seconds until the group names the rank, processes left.

    python -m tests.bench.group_kills [--trials 100] [--ranks 3] [--tensorflow 3]

The ranks meet in each step at a socket of this program, and record by `tfwatch.track`, half of the groups under
`tfwatch run --headless`. SIGKILL ends one of them: a fifth of them while they start, the others while they train. In
half of the groups the others then get an error, as from a collective that is aborted; in the other half they wait until
SIGTERM ends them. A stamp in shared memory says when each row was handed to the recording. The trials with TensorFlow
are of `tests.bench.rank_program`; the steps of the rank that lives on are the stamps there.
"""

from __future__ import annotations

import argparse
import math
import mmap
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import psutil

from tests.bench import ranks as trained
from tfwatch.core.rows import step_ms
from tfwatch.live.groups.judged_group import JudgedGroup
from tfwatch.live.groups.rank_lines import stopped_ranks
from tfwatch.runs.format import NotARunError
from tfwatch.runs.groups.environment import GROUP, RANK, SIZE
from tfwatch.runs.groups.reading import open_group
from tfwatch.runs.reading.liveness import Life

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from tfwatch.runs.reading.opened import Run

    Stamps = NDArray[np.int64]

ROOT = Path(__file__).parents[2]
#: A rank is killed within this time of its start, or of its first steps.
_STARTS_S, _TRAINS_S = 4.0, 1.0
_STEP_S = 0.004
_STEPS, _TRAINED_STEPS = 20_000, 100_000
#: Seconds for the group to name the rank, and for the others to end.
_NAMED_S, _ENDED_S = 20.0, 30.0
LOST_S = 0.2


# -- a rank -------------------------------------------------------------------------------------------


def be_rank(stamps: Path, port: int, runs_dir: Path) -> None:
    """Train: wait for a batch, meet the other ranks."""
    import tfwatch

    meeting = socket.create_connection(("127.0.0.1", port))
    for _ in tfwatch.track(stamped(stamps), runs_dir):
        meeting.sendall(b".")
        if not meeting.recv(1):
            raise ConnectionError("the collective is aborted")


def stamped(stamps: Path) -> Iterator[int]:
    """Yield batches; stamp n is set when the rows of n steps have been handed to the recording."""
    with stamps.open("r+b") as file, mmap.mmap(file.fileno(), 0) as shared:
        at_ns = memoryview(shared).cast("q")
        for step in range(_STEPS):
            at_ns[step] = time.perf_counter_ns()
            time.sleep(_STEP_S)
            yield step


class Meeting:
    """Answers the ranks once all have come. is_aborted: the others get an error when one is gone."""

    def __init__(self, size: int, is_aborted: bool) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._size, self._is_aborted = size, is_aborted
        self._ranks: list[socket.socket] = []
        threading.Thread(target=self._run, daemon=True).start()

    @property
    def port(self) -> int:
        """The port that the ranks connect to."""
        return int(self._server.getsockname()[1])

    def close(self) -> None:
        """Close all sockets."""
        for one in (*self._ranks, self._server):
            one.close()

    def _run(self) -> None:
        with suppress(OSError):
            while len(self._ranks) < self._size:
                self._ranks.append(self._server.accept()[0])
            while all(rank.recv(1) for rank in self._ranks):
                for rank in self._ranks:
                    rank.sendall(b".")
        if self._is_aborted:
            self.close()


# -- a trial ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Trial:
    """A rank that was killed. lost_s: age of the oldest row that it lost; named_s: None where the group never named it.

    steps: those that it recorded. broken: the recording of a rank in words, where it is damaged. left: processes of the
    group that live on.
    """

    moment: str
    steps: int
    lost_s: float
    named_s: float | None
    broken: str
    left: int

    @property
    def is_right(self) -> bool:
        """Whether all is as it should be."""
        return (
            self.lost_s <= LOST_S and self.named_s is not None and not self.broken and not self.left
        )

    def __str__(self) -> str:
        named = "NEVER" if self.named_s is None else f"after {self.named_s:.2f} s"
        words = f"{self.moment}, step {self.steps}: lost {self.lost_s:.3f} s, named {named}, {self.left} processes left"
        return words + (f", {self.broken}" if self.broken else "")


def kill_one(size: int, number: int, folder: Path) -> Trial:
    """Start a group, kill one of its ranks, and look at what is there then."""
    is_run, is_aborted, starts = number % 2 == 1, number % 4 >= 2, number % 5 == 0
    name, runs_dir, meeting = (
        f"kills-{os.getpid()}-{folder.name}",
        folder / "runs",
        Meeting(size, is_aborted),
    )
    processes = [start(rank, size, name, is_run, meeting.port, folder) for rank in range(size)]
    victim = random.randrange(size)
    if not starts:
        wait_until(lambda: trained.steps_of(runs_dir, victim) > 0, _NAMED_S)
    time.sleep(random.uniform(0, _STARTS_S if starts else _TRAINS_S))
    killed_ns = kill(processes[victim], is_run)
    named_s = wait_until(lambda: is_named(runs_dir, victim), _NAMED_S)
    if is_aborted:
        meeting.close()  # also where the rank died before it came
    else:
        terminate(name)
    wait_until(lambda: not alive(name), _ENDED_S)
    left = alive(name)
    end([*processes, *left], meeting)
    lost_s, broken, steps = inspect(runs_dir, folder, victim, killed_ns, size)
    how = f"{'run' if is_run else 'track'}, {'aborted' if is_aborted else 'hung'}"
    return Trial(f"{how}, rank {victim}", steps, lost_s, named_s, broken, len(left))


def start(
    rank: int, size: int, name: str, is_run: bool, port: int, folder: Path
) -> subprocess.Popen[bytes]:
    """Start the process of a rank; its output goes to a file."""
    stamps, runs_dir = folder / f"stamps-{rank}", folder / "runs"
    np.zeros(_STEPS, dtype=np.int64).tofile(stamps)
    environ = {**os.environ, GROUP: name, RANK: str(rank), SIZE: str(size), "PYTHONPATH": str(ROOT)}
    own = ["-m", "tfwatch", "run", "--headless", "--runs-dir", str(runs_dir)] if is_run else []
    program = ["-m", "tests.bench.group_kills", "--rank", str(stamps), str(port), str(runs_dir)]
    with (folder / f"output-{rank}").open("wb") as output:
        return subprocess.Popen(
            [sys.executable, *own, *program], cwd=ROOT, env=environ, stdout=output, stderr=output
        )


def kill(process: subprocess.Popen[bytes], is_run: bool) -> int:
    """Kill a rank; under `tfwatch run` the process that trains. Return the moment on the clock of the stamps."""
    children = psutil.Process(process.pid).children(recursive=True) if is_run else []
    victim = children[-1].pid if children else process.pid
    killed_ns = time.perf_counter_ns()
    os.kill(victim, signal.SIGKILL)
    return killed_ns


def is_named(runs_dir: Path, victim: int) -> bool:
    """Return whether the group names the rank as the first that no longer trains, or as one without a run."""
    folders = [one for one in runs_dir.iterdir() if one.is_dir()] if runs_dir.is_dir() else []
    with suppress(NotARunError, OSError):
        judged = JudgedGroup(open_group(folders[0])) if folders else None
        gone = stopped_ranks(judged) if judged else []
        return judged is not None and (
            victim in judged.group.missing or (bool(gone) and gone[0].rank == victim)
        )
    return False


def alive(name: str) -> list[psutil.Process]:
    """Return the processes of a group that are alive."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(GROUP) == name and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def terminate(name: str) -> None:
    """Ask the processes of a group to end."""
    for process in alive(name):
        with suppress(psutil.Error):
            process.terminate()


def end(processes: Sequence[subprocess.Popen[bytes] | psutil.Process], meeting: Meeting) -> None:
    """End everything that a trial started."""
    meeting.close()
    for process in processes:
        with suppress(psutil.Error):
            process.kill()
            process.wait(timeout=_ENDED_S)


def inspect(
    runs_dir: Path, folder: Path, victim: int, killed_ns: int, size: int
) -> tuple[float, str, int]:
    """Return the age of the oldest lost row, the damage of the recordings in words, and the last step of the victim."""
    groups = [one for one in runs_dir.iterdir() if one.is_dir()] if runs_dir.is_dir() else []
    ranks = open_group(groups[0]).ranks if groups else {}
    broken = [
        why for rank, run in sorted(ranks.items()) if (why := damage(rank, run, rank == victim))
    ]
    lost = {
        rank: lost_s(ranks.get(rank), np.fromfile(folder / f"stamps-{rank}", np.int64), killed_ns)
        for rank in range(size)
    }
    broken += [
        f"rank {rank} lost {lost[rank]:.3f} s"
        for rank in ranks
        if rank != victim and lost[rank] > LOST_S
    ]
    steps = last_step(ranks[victim]) if victim in ranks else 0
    return lost[victim], ", ".join(broken), steps


def damage(rank: int, run: Run, is_victim: bool) -> str:
    """Return in words what is wrong with a recording; empty where nothing is."""
    numbers = run.steps["step"].astype(int)
    if (np.diff(numbers) != 1).any():
        return f"rank {rank} has a gap"
    ends = (
        (Life.KILLED,) if is_victim else (Life.ENDED, Life.KILLED)
    )  # SIGTERM kills a script under track
    return "" if run.life in ends else f"rank {rank} is {run.life.value}"


def lost_s(run: Run | None, stamps: Stamps, killed_ns: int) -> float:
    """Return the age, at the kill, of the first row that was handed to the recording and is not there."""
    first = (last_step(run) if run else 0) + 1
    at_ns = int(stamps[first]) if first < len(stamps) else 0
    return max(killed_ns - at_ns, 0) / 1e9 if at_ns else 0.0


def last_step(run: Run) -> int:
    """Return the number of a run's last step; 0 without one."""
    return int(run.steps["step"][-1]) if len(run.steps) else 0


def wait_until(condition: Callable[[], object], timeout_s: float) -> float | None:
    """Return the seconds until a condition holds; None where it does not within the time."""
    begun_s = time.monotonic()
    while not condition():
        if time.monotonic() - begun_s > timeout_s:
            return None
        time.sleep(0.05)
    return time.monotonic() - begun_s


# -- a trial with TensorFlow --------------------------------------------------------------------------


def kill_trained(folder: Path) -> Trial:
    """Kill one of two ranks of `MultiWorkerMirroredStrategy`."""
    os.environ[GROUP] = name = f"kills-{os.getpid()}-{folder.name}"
    cluster = {"worker": [f"127.0.0.1:{port}" for port in trained.free_ports(2)]}
    words = ["none-0", str(_TRAINED_STEPS), str(folder)]
    processes = [trained.start(cluster, rank, words) for rank in range(2)]
    folder = folder / "0"  # of the first training
    victim = random.randrange(2)
    wait_until(
        lambda: trained.steps_of(folder, victim) > 20 or processes[victim].poll() is not None, 120
    )
    time.sleep(random.random())
    killed_ns = time.perf_counter_ns()
    processes[victim].kill()
    named_s = wait_until(lambda: is_named(folder, victim), _NAMED_S)
    wait_until(lambda: not alive(name), 2 * _ENDED_S)
    left = alive(name)
    for process in processes:
        process.kill()
        process.communicate()
    ranks = open_group(next(folder.iterdir())).ranks
    lost = lost_beside(ranks[victim], ranks[1 - victim], killed_ns)
    broken = damage(victim, ranks[victim], True)
    return Trial(
        f"TensorFlow, rank {victim}", last_step(ranks[victim]), lost, named_s, broken, len(left)
    )


def lost_beside(run: Run, other: Run, killed_ns: int) -> float:
    """Return the age of the first step that only the other rank has recorded: both have made it."""
    lost = other.steps[other.steps["step"] > last_step(run)][:1]
    ends_ns = [other.manifest.origin_ns + row["start_ns"] + step_ms(row) * 1e6 for row in lost]
    return max((killed_ns - float(ends_ns[0])) / 1e9, 0.0) if ends_ns else 0.0


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="ranks that are killed")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--tensorflow", type=int, default=3)
    parser.add_argument("--rank", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        return be_rank(Path(options.rank[0]), int(options.rank[1]), Path(options.rank[2]))
    found: list[Trial] = []
    for number in range(options.trials + options.tensorflow):
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            is_cheap = number < options.trials
            trial = kill_one(options.ranks, number, place) if is_cheap else kill_trained(place)
        found.append(trial)
        print(f"{'' if trial.is_right else 'WRONG '}{trial}", flush=True)
    named = [one.named_s for one in found if one.named_s is not None and one.steps] or [math.nan]
    print(
        f"{len(found)} ranks killed, {sum(one.steps > 0 for one in found)} of them with steps: "
        f"{sum(one.is_right for one in found)} right; rows of at most {max(one.lost_s for one in found):.3f} s lost; a "
        f"rank with steps is named after {statistics.median(named):.2f} s in the median, {max(named):.2f} s at most; "
        f"{sum(one.left for one in found)} processes left"
    )


if __name__ == "__main__":
    main()
