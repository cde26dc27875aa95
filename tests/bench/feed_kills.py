"""Processes of the tf.data service and its trainings that are killed at random moments: what is named, lost and left.

    python -m tests.bench.feed_kills [--kills 100] [--rounds 8]

A training of numbers, under `tfwatch run --headless`, is fed by two workers of its own (`--feed-workers 2`) or of a
`tfwatch feed` (`--feed`). SIGKILL ends one process after another at random moments, with time to start again between
them: a worker, the dispatcher, and in the end the training, `tfwatch run` or `tfwatch feed`. Each time: the seconds
until the run names it, whether the training goes on, the rows before the kill, and what is left of processes and
folders. The training after a killed `tfwatch feed` is ended by ctrl+c.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import psutil

from tests.bench.group_kills import LOST_S, ROOT, last_step, wait_until
from tfwatch.core.events import Noted
from tfwatch.core.rows import step_ms
from tfwatch.runs.format import NotARunError
from tfwatch.runs.library.finding import list_single_runs
from tfwatch.runs.reading.liveness import Life
from tfwatch.runs.reading.opened import open_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfwatch.runs.reading.opened import Run

_MARK = "TFWATCH_FEED_TRIAL"
_STEP_S = 0.005
#: Seconds for the run to name a lost process, to train again, and to end.
_NAMED_S, _GOES_ON_S, _ENDED_S = 20.0, 90.0, 60.0
_STARTED_S = 120.0
#: Kills of a training's service before the training itself, or its feed, is killed.
_ROUNDS = 8


def train() -> None:
    """Fit a small model on numbers, for ever."""
    import keras
    import tensorflow as tf

    def work(number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return tf.random.stateless_uniform((16,), seed=(number, 1)), tf.cast(
            number, tf.float32
        ) * 1e-6

    class Slow(keras.callbacks.Callback):  # type: ignore[misc,unused-ignore]
        def on_train_batch_end(self, batch: int, logs: object = None) -> None:
            time.sleep(_STEP_S)

    data = tf.data.Dataset.range(4096).map(work).batch(8).prefetch(2)
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(data, epochs=10**6, verbose=0, callbacks=[Slow()])


@dataclass(frozen=True, slots=True)
class Kill:
    """A process that was killed. named_s: until the run named it; NaN where it ends with it. lost_s: see `Trial`.

    wrong: what is not as it should be, in words.
    """

    what: str
    named_s: float
    goes_on_s: float
    lost_s: float
    wrong: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        """Whether all is as it should be."""
        return not self.wrong and self.lost_s <= LOST_S

    def __str__(self) -> str:
        named = "" if math.isnan(self.named_s) else f", named after {self.named_s:.1f} s"
        goes_on = (
            "" if math.isnan(self.goes_on_s) else f", trains again after {self.goes_on_s:.1f} s"
        )
        lost = f", lost {self.lost_s:.3f} s" if self.lost_s else ""
        return "; ".join([f"{self.what}{named}{goes_on}{lost}", *self.wrong])


class Trial:
    """A training and its service, in a folder of their own, which is their temporary folder too."""

    def __init__(self, folder: Path, has_own_feed: bool) -> None:
        self.folder, self.runs_dir, self.mark = (
            folder,
            folder / "runs",
            f"{os.getpid()}-{folder.name}",
        )
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.has_own_feed = has_own_feed
        self.feed = None if has_own_feed else self._start("feed", "--workers", "2")
        asked = ("--feed-workers", "2") if has_own_feed else ("--feed", self._address())
        program = ["-m", "tests.bench.feed_kills", "--train"]
        self.training = self._start(
            "run", "--headless", "--runs-dir", str(self.runs_dir), *asked, *program
        )

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        environ = {
            **os.environ,
            _MARK: self.mark,
            "TMPDIR": str(self.temporary),
            "PYTHONPATH": str(ROOT),
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "CUDA_VISIBLE_DEVICES": "-1",
        }
        with (self.folder / f"output-{words[0]}").open("wb") as output:
            command = [sys.executable, "-m", "tfwatch", *words]
            return subprocess.Popen(
                command, cwd=ROOT, env=environ, stdout=output, stderr=output, start_new_session=True
            )

    def output(self, name: str) -> str:
        """Return the output of `feed` or `run` so far."""
        return (self.folder / f"output-{name}").read_text(errors="replace")

    def _address(self) -> str:
        if wait_until(lambda: "Ctrl-C ends it" in self.output("feed"), _STARTED_S) is None:
            raise RuntimeError(f"no feed: {self.output('feed')}")
        found = re.search(r"service: (\S+),", self.output("feed"))
        assert found
        return found[1]

    def run(self) -> Run | None:
        """Return the run so far."""
        with contextlib.suppress(NotARunError, OSError, IndexError):
            return open_run(list_single_runs(self.runs_dir)[0])
        return None

    def steps(self) -> int:
        """Return the number of recorded steps."""
        run = self.run()
        return last_step(run) if run else 0

    def processes(self, role: str = "") -> list[psutil.Process]:
        """Return the processes of this trial that are alive; role: a word of their command line."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                is_ours = (
                    process.environ().get(_MARK) == self.mark
                    and process.status() != psutil.STATUS_ZOMBIE
                )
                if is_ours and (not role or role in process.cmdline()):
                    found.append(process)
        return found

    def notes(self) -> list[str]:
        """Return what the run has noted about its feed."""
        run = self.run()
        return (
            [
                one.text
                for one in run.events
                if isinstance(one, Noted) and one.text.startswith("feed:")
            ]
            if run
            else []
        )

    # -- kills ------------------------------------------------------------------------------------

    def kill_member(self, role: str) -> Kill:
        """Kill a worker or the dispatcher; the service starts it again."""
        time.sleep(random.random())
        known, before = len(self.notes()), self.steps()
        victims = [
            one
            for one in self.processes(role)
            if "tfwatch.tfdata.feed.service_program" in one.cmdline()
        ]
        if not victims:
            return Kill(role, math.nan, math.nan, 0.0, ("it was not there",))
        random.choice(victims).kill()
        named_s = wait_until(lambda: any(role in note for note in self.notes()[known:]), _NAMED_S)
        goes_on_s = wait_until(
            lambda: self.steps() > before + 200 or self.training.poll() is not None, _GOES_ON_S
        )
        wrong = [] if named_s is not None else ["it was never named"]
        wrong += [] if self.steps() > before + 200 else ["the training does not go on"]
        again_s = wait_until(
            lambda: any(" again" in note for note in self.notes()[known:]), _STARTED_S
        )
        wrong += [] if again_s is not None else ["it was not started again"]
        return Kill(
            role, math.nan if named_s is None else named_s, goes_on_s or math.nan, 0.0, tuple(wrong)
        )

    def kill_training(self) -> Kill:
        """Kill the process that trains, or both, with what it was going to record."""
        both = random.random() < 0.5
        victims = psutil.Process(self.training.pid).children()[:1] + (
            [psutil.Process(self.training.pid)] if both else []
        )
        time.sleep(random.random())
        killed_s = time.time()
        for one in victims:
            one.kill()
        name = "training and tfwatch run" if both else "training"
        return Kill(
            name, math.nan, math.nan, self._lost_s(killed_s), tuple(self._end(is_killed=True))
        )

    def kill_feed(self) -> Kill:
        """Kill `tfwatch feed` with its processes, or alone, and end the training by ctrl+c."""
        assert self.feed
        is_alone = random.random() < 0.5
        time.sleep(random.random())
        known = len(self.notes())
        killed_s = time.time()
        for one in [] if is_alone else psutil.Process(self.feed.pid).children():
            one.kill()
        self.feed.kill()
        self.feed.wait()
        named_s = wait_until(
            lambda: any("dispatcher" in note for note in self.notes()[known:]), _NAMED_S
        )
        lost_s = self._lost_s(killed_s)
        os.killpg(self.training.pid, signal.SIGINT)
        if wait_until(lambda: self.training.poll() is not None, 15) is None:
            os.killpg(self.training.pid, signal.SIGINT)
        wrong = [] if named_s is not None else ["it was never named"]
        name = "tfwatch feed" if is_alone else "tfwatch feed and its service"
        return Kill(
            name, named_s or math.nan, math.nan, lost_s, (*wrong, *self._end(is_killed=False))
        )

    def _lost_s(self, killed_s: float) -> float:
        """Return the age of the last flush at the kill: all that was handed over before it is recorded."""
        time.sleep(0.3)
        run = self.run()
        if run is None or run.open_phase is None:
            return math.inf
        last = run.steps[-1:]
        ends_ns = float(last["start_ns"][0]) + float(step_ms(last)[0]) * 1e6
        return max(
            0.0,
            killed_s - (run.manifest.origin_wall_ns + max(ends_ns, run.open_phase.until_ns)) / 1e9,
        )

    def _end(self, *, is_killed: bool) -> list[str]:
        """Return what is wrong after the end of all."""
        if not is_killed and wait_until(lambda: self.training.poll() is not None, _ENDED_S) is None:
            return ["ctrl+c did not end the training"]
        wrong = ["no summary"] if not is_killed and "recorded in" not in self.output("run") else []
        if self.feed and self.feed.poll() is None:
            self.feed.send_signal(signal.SIGINT)
        wait_until(lambda: not self.processes(), _ENDED_S)
        wrong += [f"left: {' '.join(one.cmdline()[-4:])}" for one in self.processes()]
        run = self.run()
        if run is None:
            return [*wrong, "no run"]
        wrong += (
            ["the rows have a gap"] if (np.diff(run.steps["step"].astype(int)) != 1).any() else []
        )
        wrong += (
            []
            if run.life is (Life.KILLED if is_killed else Life.ENDED)
            else [f"the run is {run.life.value}"]
        )
        # A killed process removes nothing of its own: the next training removes the folder of its control socket, and
        # the next service the journal of one whose processes were all killed.
        own = (
            ("tfwatch-control-", "__autograph_generated_file") if is_killed else ("tfwatch-feed-",)
        )
        left = [one.name for one in self.temporary.iterdir() if not one.name.startswith(own)]
        return [*wrong, *(f"left in the temporary folder: {name}" for name in left)]

    def close(self) -> None:
        """End everything that is left."""
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                process.kill()


def kill_all(folder: Path, has_own_feed: bool, rounds: int) -> list[Kill]:
    """Kill processes of one training's service, and in the end the training or the feed."""
    found, trial = [], Trial(folder, has_own_feed)
    try:
        if wait_until(lambda: trial.steps() > 100, _STARTED_S) is None:
            return [Kill("start", math.nan, math.nan, 0.0, (trial.output("run")[-300:],))]
        for _ in range(rounds):
            found.append(trial.kill_member(random.choice(("worker", "worker", "dispatcher"))))
            report(found[-1], has_own_feed)
        found.append(
            trial.kill_training() if has_own_feed or random.random() < 0.3 else trial.kill_feed()
        )
        report(found[-1], has_own_feed)
        return found
    finally:
        trial.close()


def report(kill: Kill, has_own_feed: bool) -> None:
    """Print a kill."""
    print(
        f"{'' if kill.is_right else 'WRONG '}{'own feed' if has_own_feed else 'tfwatch feed'}: {kill}",
        flush=True,
    )


def summarise(found: Sequence[Kill]) -> str:
    """Return all kills in a sentence."""
    named = [one.named_s for one in found if not math.isnan(one.named_s)] or [math.nan]
    goes_on = [one.goes_on_s for one in found if not math.isnan(one.goes_on_s)] or [math.nan]
    return (
        f"{len(found)} kills: {sum(one.is_right for one in found)} right; named after {statistics.median(named):.1f} s "
        f"in the median, {max(named):.1f} s at most; trains again after {statistics.median(goes_on):.1f} s in the "
        f"median, {max(goes_on):.1f} s at most; rows of at most {max(one.lost_s for one in found):.3f} s lost"
    )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="a tf.data service whose processes are killed")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    parser.add_argument("--train", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        return train()
    found: list[Kill] = []
    number = 0
    while len(found) < options.kills:
        folder = Path(tempfile.mkdtemp(prefix="feed-kills-"))
        try:
            found += kill_all(
                folder, number % 2 == 0, min(options.rounds, options.kills - len(found) - 1)
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        number += 1
    print(summarise(found))


if __name__ == "__main__":
    main()
