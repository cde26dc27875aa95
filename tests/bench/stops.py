"""Kill and stop trainings under `tfwatch run` at random moments: the script, tfwatch, or both.

Each epoch's loss and weights are those of the bare script as far as it came; it comes to its end
where nothing ended it. The exit code is that of the signal. No process is left, and nothing in the
folder for temporary files once another one has begun. The options are those of
`tests/bench/numbered.py`.
"""

import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from signal import Signals
from typing import Any, NamedTuple

import psutil

from tests.bench.numbered import Result, run_trials
from tests.bench.runner import run_python, run_tfwatch
from tests.pseudo import MARK, Pseudo
from tfwatch.runs.library import list_runs
from tfwatch.runs.liveness import Life
from tfwatch.runs.run import open_run

SCRIPT = Path(__file__).parents[1] / "scripts/epochs.py"
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSTOP, signal.SIGHUP)
TARGETS = ("script", "tfwatch", "both")
_ENVIRON = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_DETERMINISTIC_OPS": "1",
}
#: The most seconds that a training and all its processes take to end.
_LONGEST_S = 120


@dataclass(frozen=True)
class Stop:
    """What is done to a training. at: the moment as a share of its usual time. stopped_s: between
    SIGSTOP and SIGCONT."""

    has_screen: bool
    target: str
    signum: Signals
    at: float
    switches: bool
    stopped_s: float

    @property
    def ends_script(self) -> bool:
        """True where the script ends by it; one whose screen is killed or hangs up trains on."""
        if self.target == "tfwatch" and self.has_screen and self.signum is signal.SIGHUP:
            return False
        is_killed_alone = self.target == "tfwatch" and self.signum is signal.SIGKILL
        return self.signum is not signal.SIGSTOP and not is_killed_alone

    def __str__(self) -> str:
        """Return what is done as text."""
        form = "with a screen" if self.has_screen else "headless"
        return f"{self.signum.name} to {self.target} at {self.at:.2f}, {form}"


def draw(number: int) -> Stop:
    """Return the stop of a number: each form, target and signal in turn, at a random moment."""
    chance = random.Random(number)
    form, rest = number % 2, number // 2
    signum = SIGNALS[rest // len(TARGETS) % len(SIGNALS)]
    is_switched, stopped_s = chance.random() < 0.5, chance.uniform(0.1, 4)
    at = chance.random()
    return Stop(bool(form), TARGETS[rest % len(TARGETS)], signum, at, is_switched, stopped_s)


# -- the trainings --------------------------------------------------------------------------------


class Usual(NamedTuple):
    """The bare script's results, and the seconds that it takes under tfwatch."""

    lines: list[str]
    took_s: float


class Training:
    """A training under `tfwatch run` in a folder of its own."""

    def __init__(self, folder: Path, *, has_screen: bool, switches: bool) -> None:
        self.results, self.runs_dir = folder / "results.txt", folder / "runs"
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        flags = [] if has_screen else ["--headless"]
        for at in range(5, 500, 60) if switches else ():
            flags += ["--switch", f"{at}:prefetch=4", "--switch", f"{at + 30}:workers=2"]
        words = ["-m", "tfwatch", "run", "--runs-dir", str(self.runs_dir), *flags]
        words += [str(SCRIPT), str(self.results)]
        own = {"TMPDIR": str(self.temporary), "TFWATCH_HOME": str(folder)}
        self._screen = Pseudo(*words, columns=120, rows=40, **_ENVIRON, **own)
        self._process = self._screen.process

    def processes(self) -> list[psutil.Process]:
        """Return the processes of the training, whoever their parent is by now."""
        return [one for one in psutil.process_iter() if _is_marked(one, self._screen.mark)]

    def follow(self, until_s: float) -> bool:
        """Read the terminal until a moment; return whether tfwatch has not ended by then."""
        while (left_s := until_s - time.monotonic()) > 0 and self._process.poll() is None:
            self._screen.read(min(left_s, 0.1))
            if "script ended" in self._screen.words:
                self._screen.press("q")
        return self._process.poll() is None

    def signal(self, target: str, signum: Signals) -> None:
        """Send a signal; tfwatch alone has it while there is no script."""
        scripts = [one for one in self.processes() if _is_script(one)]
        chosen: list[Any] = scripts if target != "tfwatch" else []
        if target != "script" or not scripts:
            chosen = [*chosen, self._process]
        for process in chosen:
            with suppress(psutil.Error, ProcessLookupError):
                process.send_signal(signum)

    def end(self) -> int | None:
        """Wait until all processes have ended; return tfwatch's exit code, None where it, or one
        of the others, has not."""
        until_s = time.monotonic() + _LONGEST_S
        while (self.follow(until_s) or self.processes()) and time.monotonic() < until_s:
            time.sleep(0.05)
        return None if self.processes() else self._process.poll()

    def close(self) -> None:
        """Kill what is left."""
        self._screen.__exit__()


def _is_marked(process: psutil.Process, mark: str) -> bool:
    with suppress(psutil.Error):
        return bool(process.environ().get(MARK) == mark)
    return False


def _is_script(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return any("bootstrap.py" in word for word in process.cmdline())
    return False


# -- the trials -----------------------------------------------------------------------------------


def make_trial() -> Callable[[int], Result]:
    """Return the function of a trial."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder, "bare.txt")
        run_python(SCRIPT, results, environ=_ENVIRON).check_returncode()
        began_s = time.monotonic()
        training = Training(Path(folder), has_screen=False, switches=True)
        assert training.end() == 0
        training.close()
        usual = Usual(results.read_text().splitlines(), time.monotonic() - began_s)

    def try_number(number: int) -> Result:
        stop = draw(number)
        with tempfile.TemporaryDirectory() as folder:
            failures = [*try_stop(stop, usual, Path(folder))]
        failure = f"{stop}: {'; '.join(failures)}" if failures else ""
        return Result(number, failure, {stop.signum.name: 1, stop.target: 1})

    return try_number


def try_stop(stop: Stop, usual: Usual, folder: Path) -> Iterator[str]:
    """Stop a training; yield what is not as it should be."""
    training = Training(folder, has_screen=stop.has_screen, switches=stop.switches)
    try:
        training.follow(time.monotonic() + stop.at * usual.took_s)
        training.signal(stop.target, stop.signum)
        if stop.signum is signal.SIGSTOP:
            training.follow(time.monotonic() + stop.stopped_s)
            training.signal(stop.target, signal.SIGCONT)
        code = training.end()
        if code is None:
            yield f"left: {[one.cmdline()[:4] for one in training.processes()]}"
    finally:
        training.close()
    yield from _wrong_results(stop, usual, training, code)
    yield from _left_files(training)


def _wrong_results(stop: Stop, usual: Usual, training: Training, code: int | None) -> Iterator[str]:
    lines = training.results.read_text().splitlines() if training.results.exists() else []
    if lines != usual.lines[: len(lines)]:
        yield f"other results: {lines[-1:]}"
    has_all = len(lines) == len(usual.lines)
    has_begun = bool(list_runs(training.runs_dir)) if training.runs_dir.exists() else False
    if not stop.ends_script and not has_all and (has_begun or stop.signum is signal.SIGSTOP):
        yield f"{len(lines)} of {len(usual.lines)} epochs"
    if code not in (-stop.signum, 128 + stop.signum) and not (code == 0 and has_all):
        yield f"exit code {code}"
    for path in list_runs(training.runs_dir) if has_begun else ():
        run = open_run(path)
        if run.torn or run.life not in (Life.ENDED, Life.KILLED):
            yield f"{path.name}: {run.life.name}, {run.torn} unreadable"


def _left_files(training: Training) -> Iterator[str]:
    """Yield the temporary files that the next start of tfwatch leaves."""
    script = training.temporary.with_name("nothing.py")
    script.touch()
    words = ["--headless", "--runs-dir", str(training.runs_dir), str(script)]
    run_tfwatch("run", *words, environ={"TMPDIR": str(training.temporary)})
    # TensorFlow's own: a killed bare script leaves it too.
    own = "__autograph_generated_file"
    left = [one.name for one in training.temporary.iterdir() if not one.name.startswith(own)]
    if left:
        yield f"left in the temporary folder: {left}"


if __name__ == "__main__":
    sys.exit(run_trials("tests.bench.stops", make_trial, count=60, each=15, most_s=400))
