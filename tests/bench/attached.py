"""A training that others attach to, in mid-epoch: its result, and what is left when either side is killed.

    python -m tests.bench.attached [--attaches 1000] [--screens 10] [--kills 5]

`tests/scripts/long_epoch.py` trains one epoch under `tfwatch run --headless`. Meanwhile this program attaches to it and
leaves it again so many times: it reads the whole run as the screen does, asks on the control socket, and every 25th
time requests a switch of prefetch or workers. Then so many screens of `tfwatch attach` are killed at a random moment of
their first seconds, half of them after a key. The script without tfwatch, over as many steps, has to print the same
loss and the same digest of the weights. At last so many trainings are killed while a screen is attached: the screen has
to stay until `d`, with exit code 0, and the run has to be read as killed. Exits with 1 where anything of this is not
so.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.pasted import environment, wait_for
from tests.bench.scripts import FOLDER
from tests.pseudo import Pseudo
from tfwatch.core.events import PipelineSwitched
from tfwatch.runs.control.client import control_of
from tfwatch.runs.control.messages import AskSwitch
from tfwatch.runs.library.finding import list_runs
from tfwatch.runs.reading.liveness import Life
from tfwatch.runs.reading.opened import open_run
from tfwatch.runs.reading.reader import RunReader
from tfwatch.runs.reading.streams import FolderSource

if TYPE_CHECKING:
    from collections.abc import Iterator

SCRIPT = str(FOLDER / "long_epoch.py")
_SWITCHES = [
    ("prefetch", "4"),
    ("workers", "2"),
    ("prefetch", "off"),
    ("workers", "off"),
    ("prefetch", "1"),
]
_EVERY, _SCREEN_S, _TIMEOUT_S = 25, 3.0, 300.0


def main() -> int:
    """Run the benchmark; return 1 where something differs."""
    parser = argparse.ArgumentParser(
        description="attach to a training in mid-epoch, and kill either side"
    )
    parser.add_argument("--attaches", type=int, default=1000)
    parser.add_argument("--screens", type=int, default=10)
    parser.add_argument("--kills", type=int, default=5)
    options = parser.parse_args()
    is_equal = trains_the_same(options.attaches, options.screens)
    stays = [outlives_its_training() for _ in range(options.kills)]
    print(f"{sum(stays)} of {len(stays)} screens stayed when their training was killed")
    return int(not is_equal or not all(stays))


@contextlib.contextmanager
def training(folder: Path, until: str) -> Iterator[subprocess.Popen[str]]:
    """Train under `tfwatch run`, from its first steps on; kill what is left. until: the script's argument."""
    words = [
        "-m",
        "tfwatch",
        "run",
        "--headless",
        "--runs-dir",
        str(folder / "runs"),
        SCRIPT,
        until,
    ]
    with subprocess.Popen(
        [sys.executable, *words],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            wait_for(folder / "runs")
            yield child
        finally:
            child.kill()


def trains_the_same(attaches: int, screens: int) -> bool:
    """Attach so many times; return whether the training is that without tfwatch."""
    with tempfile.TemporaryDirectory() as made:
        folder, begun_s = Path(made), time.monotonic()
        with training(folder, str(folder / "enough")) as child:
            (run,) = list_runs(folder / "runs")
            for number in range(attaches):
                attach(run, number)
            took_s = time.monotonic() - begun_s
            for number in range(screens):
                kill_screen(folder, with_key=number % 2 == 0)
            (folder / "enough").touch()
            printed, errors = child.communicate(timeout=_TIMEOUT_S)
        recorded = open_run(run)
        switches = sum(isinstance(event, PipelineSwitched) for event in recorded.events)
    steps = re.findall(r"steps (\d+)", printed)
    bare = bare_output(steps[0]) if steps else ""
    is_equal = printed == bare and child.returncode == 0
    print(
        f"{attaches} attaches in {took_s:.0f} s, {screens} screens killed, {switches} switches, {len(recorded.steps)} "
        f"steps: {'equal' if is_equal else f'DIFFER {printed} {bare} {errors[-2000:]}'}",
        flush=True,
    )
    return is_equal


def bare_output(steps: str) -> str:
    """Return the output of the script without tfwatch, over so many steps."""
    done = subprocess.run(
        [sys.executable, SCRIPT, steps], capture_output=True, text=True, timeout=_TIMEOUT_S
    )
    return done.stdout


def attach(run: Path, number: int) -> None:
    """Read the run, and ask its training as a screen does."""
    RunReader(FolderSource(run)).tail()
    client = control_of(run)
    if refused := client.check().refused:
        raise RuntimeError(refused)
    if number % _EVERY == 0:
        client.call(AskSwitch(*_SWITCHES[number // _EVERY % len(_SWITCHES)]))


def screen_of(folder: Path) -> Pseudo:
    """Attach a screen to the newest training."""
    environ = {"XDG_CONFIG_HOME": str(folder / "config"), "COLUMNS": "120", "LINES": "40"}
    return Pseudo(
        "-m",
        "tfwatch",
        "attach",
        "--runs-dir",
        str(folder / "runs"),
        columns=120,
        rows=40,
        **environ,
    )


def kill_screen(folder: Path, *, with_key: bool) -> None:
    """Attach a screen, and kill it at a random moment: of its start, or after a key."""
    with screen_of(folder) as screen:
        if with_key:
            screen.wait_for("ATTACHED", 60)
            screen.press("p")
        time.sleep(random.uniform(0, _SCREEN_S))
        screen.process.kill()


def outlives_its_training() -> bool:
    """Kill a training at a random moment while a screen is attached; return whether the screen is left as usual."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        with training(folder, str(folder / "never")), screen_of(folder) as screen:
            screen.wait_for("ATTACHED", 60)
            (run,) = list_runs(folder / "runs")
            time.sleep(random.uniform(0, 1))
            os.kill(open_run(run).manifest.pid, signal.SIGKILL)
            screen.wait_for("killed", 60)
            screen.press("d")
            code, life = screen.wait(60), open_run(run).life
    print(
        f"the training was killed: the screen's exit code {code}, the run is {life.value}",
        flush=True,
    )
    return code == 0 and life is Life.KILLED


if __name__ == "__main__":
    sys.exit(main())
