"""A script that nobody prepared, fed by the autopilot, and the lines that tfwatch gives for it,
without tfwatch.

    python -m tests.bench.pasted [--steps 1500] [--rounds 2] [--filters 24]

`tests/scripts/serial_decode.py` trains under `tfwatch run`; the autopilot searches for settings, as
with the key `f`. The lines of the summary, which `y` copies too, are pasted into a copy of the
script, which then runs bare. Prints the median step of each, and the one with pasted lines over the
one that the autopilot reached. Needs cores that the steps leave free; on a GPU, so many filters of
its convolutions that a step is longer than its launch.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.scripts import FOLDER
from tests.pseudo import ROOT
from tests.tfdata.script_code.pasted_lines import pasted
from tfwatch.cli.named_runs import find_training
from tfwatch.core.errors import BadInputError
from tfwatch.core.events import AutopilotEnded
from tfwatch.core.rows import step_ms
from tfwatch.judge.effects.jobs import Autopilot
from tfwatch.judge.judged_run import JudgedRun
from tfwatch.runs.library import list_runs
from tfwatch.runs.run import open_run
from tfwatch.tuner.thread import Tuner

if TYPE_CHECKING:
    from tfwatch.core.rows import Rows
    from tfwatch.runs.snapshot import Snapshot

SCRIPT = "serial_decode.py"
_TIMEOUT_S = 300.0
#: Steps before the autopilot is asked for: it needs a judgement first.
_BEFORE = 60


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="lines of code suggestions, pasted")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--filters", type=int, default=24)
    options = parser.parse_args()
    ratios = [measure(options.steps, options.filters) for _ in range(options.rounds)]
    print(
        f"pasted / reached: median {statistics.median(ratios):.3f}, {min(ratios):.3f} to"
        f" {max(ratios):.3f}"
    )


def measure(steps: int, filters: int) -> float:
    """Print the steps of one round; return the step with pasted lines over the one that was
    reached."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        source = (FOLDER / SCRIPT).read_text(encoding="utf-8")
        (folder / SCRIPT).write_text(source, encoding="utf-8")
        bare_ms = bare_step_ms(folder, steps // 2, filters)
        run = tuned(folder, steps, filters)
        judged = JudgedRun(run)
        reached_ms, first_ms = median_ms(judged.run.steps[-200:]), median_ms(run.steps[10:_BEFORE])
        text = judged.finding.edit if judged.finding else ""
        print(judged.situation.setting.knobs, text, sep="\n")
        (folder / SCRIPT).write_text(pasted(source, text), encoding="utf-8")
        pasted_ms = bare_step_ms(folder, steps // 2, filters)
    word = judged.finding.word if judged.finding else "n/a"
    print(
        f"bare {bare_ms:.2f} ms; under tfwatch {first_ms:.2f}, the autopilot reached"
        f" {reached_ms:.2f} ({word})"
    )
    print(f"pasted {pasted_ms:.2f} ms, {pasted_ms / reached_ms:.3f} of the one reached", flush=True)
    return pasted_ms / reached_ms


def bare_step_ms(folder: Path, steps: int, filters: int) -> float:
    """Run the script without tfwatch; return the step time that it prints."""
    words = [sys.executable, SCRIPT, str(steps), str(filters)]
    done = subprocess.run(
        words, cwd=folder, check=True, capture_output=True, text=True, timeout=_TIMEOUT_S
    )
    return float(re.findall(r"median step ([\d.]+) ms", done.stdout)[-1])


def tuned(folder: Path, steps: int, filters: int) -> Snapshot:
    """Run the script under tfwatch, and ask for the autopilot; return the run."""
    runs = folder / "runs"
    script = [SCRIPT, str(steps), str(filters)]
    words = [sys.executable, "-m", "tfwatch", "run", "--headless", "--runs-dir", str(runs), *script]
    with subprocess.Popen(
        words, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        training = wait_for(runs)
        Tuner(lambda: training).begin(Autopilot())
        _, errors = child.communicate(timeout=_TIMEOUT_S)
    run = open_run(list_runs(runs)[0])
    if child.returncode or not any(isinstance(event, AutopilotEnded) for event in run.events):
        raise RuntimeError(errors.decode()[-2000:])
    return run


def environment() -> dict[str, str]:
    """Return the environment of a process that finds tfwatch."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    return {**os.environ, "PYTHONPATH": path}


def wait_for(runs: Path) -> Path:
    """Return the folder of the training, once it has made its first steps."""
    deadline_s = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < deadline_s:
        try:
            folder = find_training(None, runs)
        except BadInputError:
            time.sleep(0.1)
            continue
        if len(open_run(folder).steps) >= _BEFORE:
            return folder
        time.sleep(0.05)
    raise TimeoutError("the script does not train")


def median_ms(steps: Rows) -> float:
    """Return the median step time of rows."""
    return float(statistics.median(step_ms(steps).tolist()))


if __name__ == "__main__":
    main()
