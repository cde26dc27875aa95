"""A shared disk that hangs, goes away or is full at random moments: rows that are lost, the result, the keys.

    python -m tests.bench.disk_kills [--trials 30]

Two ranks, or a single run, record by `tfwatch.track` on a disk of this program, and a screen follows them. At a random
moment the disk hangs (a FUSE file system that is stopped), goes away (the same one, killed: each call fails), is
unmounted (`umount -l`: open files stay, paths are gone) or gets full (a tmpfs of 1 MB). It comes back while they train,
or after that. Then: the result of each training against one without a disk, the rows before that moment, the longest
time that a key of the screen took, `tfwatch check` and `report` of what is there, and the processes that live on. Needs
root, /dev/fuse, libfuse 2 and `pip install fusepy`.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.util
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import psutil

from tests.bench.group_kills import LOST_S, ROOT, alive, last_step, lost_s, stamped, wait_until
from tests.pseudo import Pseudo
from tfwatch.runs.format import NotARunError
from tfwatch.runs.groups.environment import GROUP, RANK, SIZE
from tfwatch.runs.library.finding import list_single_runs
from tfwatch.runs.reading.opened import open_run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tfwatch.runs.reading.opened import Run

_KINDS = ("hangs", "is gone", "is unmounted", "is full")
_COMES_BACK = ("hangs", "is full")
_STEPS = 1800
#: Seconds after the first rows until the disk fails, and then until it comes back, at most.
_FAILS_S, _LASTS_S = 1.5, 6.0
_ENDED_S, _KEY_S, _TMPFS_BYTES = 60.0, 10.0, 2**20
#: A key that takes longer is late; on a busy machine also one that takes this many times as long as before.
_SOON_S, _TIMES = 0.5, 3.0
_COMMAND = (sys.executable, "-m", "tfwatch")


def train(stamps: Path, runs_dir: Path) -> str:
    """Train, and return the digest of the weights."""
    import tfwatch

    weights = np.zeros(64)
    for step in tfwatch.track(_first(stamped(stamps)), runs_dir):
        weights = np.tanh(weights + np.random.default_rng(step).normal(size=64))
    return digest(weights)


def _first(batches: Iterator[int]) -> Iterator[int]:
    return (batch for batch, _ in zip(batches, range(_STEPS), strict=False))


def digest(weights: np.ndarray[tuple[int], np.dtype[np.float64]]) -> str:
    """Return the digest of weights."""
    return hashlib.sha256(weights.tobytes()).hexdigest()


def expected_digest() -> str:
    """Return the digest of a training without a disk."""
    weights = np.zeros(64)
    for step in range(_STEPS):
        weights = np.tanh(weights + np.random.default_rng(step).normal(size=64))
    return digest(weights)


class Disk:
    """A disk that fails on request. place: where it is mounted; behind: the folder with its data."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.kind = kind
        self.place, self.behind = folder / "mount", folder / "behind"
        self.place.mkdir()
        self.behind.mkdir()
        self._daemon: subprocess.Popen[bytes] | None = None
        if kind == "is full":
            self.behind = self.place
            subprocess.run(
                ["mount", "-t", "tmpfs", "-o", f"size={_TMPFS_BYTES}", "tmpfs", self.place],
                check=True,
            )
        else:
            self._mount()

    def _mount(self) -> None:
        words = [sys.executable, "-m", "tests.bench.passthrough", str(self.behind), str(self.place)]
        self._daemon = subprocess.Popen(
            words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        if wait_until(lambda: os.path.ismount(self.place), 20) is None:
            raise RuntimeError("the file system is not mounted")

    def fail(self) -> None:
        """Hang, go away, be unmounted, or be full."""
        if self.kind == "is unmounted":
            subprocess.run(["umount", "-l", str(self.place)], check=True)
        elif self._daemon:
            self._daemon.send_signal(signal.SIGSTOP if self.kind == "hangs" else signal.SIGKILL)
        else:
            with (
                contextlib.suppress(OSError),
                (self.place / "filler").open("wb", buffering=0) as filler,
            ):
                while filler.write(bytes(4096)):
                    pass

    def restore(self) -> None:
        """Respond again, where the kind of failure allows it."""
        if self.kind == "hangs" and self._daemon:
            self._daemon.send_signal(signal.SIGCONT)
        elif self.kind == "is full":
            (self.place / "filler").unlink(missing_ok=True)

    def close(self) -> None:
        """Unmount it."""
        self.restore()
        subprocess.run(["umount", "-l", str(self.place)], check=False, stderr=subprocess.DEVNULL)
        if self._daemon:
            self._daemon.kill()
            self._daemon.wait(20)


@dataclass(frozen=True, slots=True)
class Trial:
    """A disk that failed. lost_s: age of the oldest row from before that moment that is missing.

    wrong: what is not as it should be, in words. key_s: the longest time that a key took; usual_s: before that moment.
    """

    what: str
    lost_s: float
    usual_s: float
    key_s: float
    wrong: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        """Whether all is as it should be."""
        return (
            not self.wrong
            and self.lost_s <= LOST_S
            and self.key_s <= max(_SOON_S, _TIMES * self.usual_s)
        )

    def __str__(self) -> str:
        words = f"{self.what}: lost {self.lost_s:.3f} s, keys within {self.key_s:.2f} s (before: {self.usual_s:.2f} s)"
        return "; ".join([words, *self.wrong])


def fail_once(number: int, folder: Path) -> Trial:
    """Let a disk fail under ranks and their screen, and look at what is there then."""
    disk, size = Disk(folder, _KINDS[number % len(_KINDS)]), 1 + number // len(_KINDS) % 2
    comes_back = disk.kind in _COMES_BACK and random.random() < 0.6
    name = f"disks-{os.getpid()}-{folder.name}"
    runs_dir = disk.place / "runs"
    ranks = [start(rank, size, name, folder, runs_dir) for rank in range(size)]
    try:
        wait_until(lambda: len(_recorded(disk.behind)) == size, 30)
        shown = _shown(runs_dir, size)
        with Pseudo(
            "-m", "tfwatch", "replay", str(shown), columns=120, rows=40, **{GROUP: name}
        ) as screen:
            screen.wait_for("ms/step" if size > 1 else "read only", 30)
            usual_s = press_keys(screen, size, random.uniform(0, _FAILS_S))
            failed_ns = time.perf_counter_ns()
            disk.fail()
            key_s = press_keys(screen, size, random.uniform(_LASTS_S / 2, _LASTS_S))
            trains = all(not _has_trained(folder, rank) for rank in range(size))
            if comes_back:
                disk.restore()
            ended_s = wait_until(
                lambda: (
                    _pass(screen, 0.1) or all(_has_trained(folder, rank) for rank in range(size))
                ),
                _ENDED_S,
            )
            key_s = max(key_s, press_keys(screen, size, 0.5))
            left_s = wait_until(lambda: _leaves(screen), _KEY_S)
        wrong = ["a training never ended"] if ended_s is None else []
        wrong += ["the screen never ended"] if left_s is None else []
        wrong += [
            f"rank {rank} gave another result"
            for rank in range(size)
            if not _is_right(folder, rank)
        ]
        disk.restore()
        # The kernel holds a process with a call on its way to a disk that hangs, whatever the process does.
        wait_until(lambda: all(one.poll() is not None for one in ranks), _ENDED_S)
        is_whole = comes_back and trains
        lost = [_lost_s(disk.behind, folder, rank, failed_ns, is_whole) for rank in range(size)]
        wrong += _look(disk.behind / "runs" / shown.name)
        wait_until(lambda: not alive(name), 5)
        wrong += [f"{len(alive(name))} processes left"] if alive(name) else []
        back = (
            "came back"
            if is_whole
            else "came back after the training"
            if comes_back
            else "did not come back"
        )
        what = f"disk {disk.kind}, {size} rank{'s' * (size > 1)}, {back}"
        return Trial(what, max(lost), usual_s, key_s, tuple(wrong))
    finally:
        for process in alive(name):
            with contextlib.suppress(psutil.Error):
                process.kill()
        disk.close()


def start(rank: int, size: int, name: str, folder: Path, runs_dir: Path) -> subprocess.Popen[bytes]:
    """Start the process of a rank, or of a run by itself."""
    stamps = folder / f"stamps-{rank}"
    np.zeros(_STEPS + 2, dtype=np.int64).tofile(stamps)
    group = {GROUP: name, RANK: str(rank), SIZE: str(size)} if size > 1 else {"DISK_TRIAL": name}
    environ = {
        **os.environ,
        **group,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]),
    }
    program = ["-m", "tests.bench.disk_kills", "--rank", str(stamps), str(runs_dir)]
    with (folder / f"output-{rank}").open("wb") as output:
        return subprocess.Popen(
            [sys.executable, *program], cwd=ROOT, env=environ, stdout=output, stderr=output
        )


def _recorded(behind: Path) -> list[Path]:
    """Return the runs that have rows."""
    with contextlib.suppress(OSError):
        return [
            run for run in list_single_runs(behind / "runs") if (run / "steps.bin").stat().st_size
        ]
    return []


def _shown(runs_dir: Path, size: int) -> Path:
    """Return the group, or the run."""
    (run, *_) = list_single_runs(runs_dir)
    return run.parent if size > 1 else run


def _pass(screen: Pseudo, seconds: float) -> bool:
    """Let time pass, and return False: a terminal that nobody reads blocks its program."""
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        screen._read(0.02)
    return False


def _leaves(screen: Pseudo) -> bool:
    """Press the key that leaves; return whether the screen has ended. One that follows an escape at once is lost."""
    screen.press("q")
    return _pass(screen, 1.0) or screen.process.poll() is not None


def press_keys(screen: Pseudo, size: int, seconds: float) -> float:
    """Press a key again and again; return the longest time until the screen shows its effect."""
    longest_s, until_s = 0.0, time.monotonic() + seconds
    while time.monotonic() < until_s:
        for key, effect in (
            (("s", "latest first"), ("s", "by rank"))
            if size > 1
            else (("?", "keys and terms"), ("?", ""))
        ):
            screen.output = b""
            screen.press(key)
            pressed_s = time.monotonic()
            while effect and effect not in screen.words and time.monotonic() - pressed_s < _KEY_S:
                screen._read(0.01)
            longest_s = max(longest_s, time.monotonic() - pressed_s) if effect else longest_s
            _pass(screen, 0.3)
    return longest_s


def _has_trained(folder: Path, rank: int) -> bool:
    return bool((folder / f"output-{rank}").stat().st_size)


def _is_right(folder: Path, rank: int) -> bool:
    return expected_digest() in (folder / f"output-{rank}").read_text(errors="replace")


def _runs(behind: Path) -> dict[int, Run]:
    opened = [open_run(run) for run in list_single_runs(behind / "runs")]
    return {run.manifest.rank or 0: run for run in opened}


def _lost_s(behind: Path, folder: Path, rank: int, failed_ns: int, is_whole: bool) -> float:
    """Return the age, when the disk failed, of the oldest missing row. is_whole: no later row may be missing either."""
    run, stamps = _runs(behind).get(rank), np.fromfile(folder / f"stamps-{rank}", np.int64)
    if is_whole and run is not None and last_step(run) < _STEPS:
        return float("inf")
    return lost_s(run, stamps, failed_ns)


def _look(shown: Path) -> list[str]:
    """Return what the commands cannot do with what is there."""
    wrong = []
    for words in (
        ("check", str(shown), "--max-step-ms", "100"),
        ("report", str(shown), "-o", os.devnull),
    ):
        done = subprocess.run(
            [*_COMMAND, *words], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
        )
        if done.returncode not in (0, 1, 3, 4) or "Traceback" in done.stderr:
            wrong.append(f"tfwatch {words[0]}: {done.returncode}, {done.stderr[-200:]}")
    return wrong


def _why_not() -> str:
    """Return why the benchmark cannot run here; empty where it can."""
    if os.geteuid() != 0:
        return "it mounts file systems, so it needs root"
    if not os.path.exists("/dev/fuse") or importlib.util.find_spec("fuse") is None:
        return "it needs /dev/fuse, libfuse 2 and `pip install fusepy`"
    return ""


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="a shared disk that fails")
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--rank", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        print(train(Path(options.rank[0]), Path(options.rank[1])), flush=True)
        return
    if why := _why_not():
        print(f"skipped: {why}")
        return
    found: list[Trial] = []
    for number in range(options.trials):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            try:
                trial = fail_once(number, Path(folder))
            except (AssertionError, NotARunError, OSError) as error:
                trial = Trial(
                    f"disk {_KINDS[number % len(_KINDS)]}", 0.0, 0.0, 0.0, (str(error)[-300:],)
                )
        found.append(trial)
        print(f"{'' if trial.is_right else 'WRONG '}{trial}", flush=True)
    print(
        f"{len(found)} disks failed: {sum(one.is_right for one in found)} right; rows of at most "
        f"{max(one.lost_s for one in found):.3f} s lost; keys within {max(one.key_s for one in found):.2f} s "
        f"(before: {max(one.usual_s for one in found):.2f} s)"
    )


if __name__ == "__main__":
    main()
