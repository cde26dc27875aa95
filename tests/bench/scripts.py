"""Scripts in the manner of the Keras guides, bare and under `tfwatch run`: the same output, weights
and exit code?

Standard error is compared too, without times and what TensorFlow puts before a line; the summary
follows it.

    python -m tests.bench.scripts [NAME ...]

Prints a row each; exits with 1 where one differs, or where other steps are recorded than the script
trains.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tests.pseudo import ROOT
from tfwatch.runs.library import list_runs
from tfwatch.runs.run import open_run

if TYPE_CHECKING:
    from tfwatch.runs.snapshot import Snapshot

FOLDER = Path(__file__).parents[1] / "scripts"
#: What two bare runs do not share of a line of TensorFlow's log: its time and its process.
_LOGGED = re.compile(r"^(\d{4}-\d\d-\d\d [\d:.]+|[IWEF]\d{4} [\d:.]+ +\d+)", re.MULTILINE)
_ADDRESS = re.compile(r"0x[0-9a-f]+")
_TIMES = re.compile(r"\d+(\.\d+)?(s|ms|us)(/step|/epoch)?\b")


@dataclass(frozen=True)
class Script:
    """A script. runs: the steps of each run that it leaves. wait_ms: the least median data wait of
    the last one."""

    words: list[str]
    runs: list[int]
    wait_ms: float = 0.0


SCRIPTS = {
    "custom train_step": Script(["custom_train_step.py"], [96]),
    "GAN, loop over zip": Script(["gan.py"], [64]),
    "multi-input": Script(["multi_input.py"], [40]),
    "PyDataset, processes": Script(["py_dataset.py"], [40]),
    "ragged and sparse": Script(["ragged.py"], [54]),
    "transfer, two fits": Script(["transfer.py"], [30]),
    "checkpoints, early stop": Script(["checkpoints.py"], [0]),
    "train_on_batch": Script(["train_on_batch.py"], [30, 32]),
    "GradientTape": Script(["gradient_tape.py"], [26], 10.0),
    "search, six fits": Script(["search.py"], [0]),
    "MirroredStrategy": Script(["mirrored.py"], [48]),
    "mixed precision": Script(["mixed_precision.py"], [48]),
    "TextVectorization": Script(["text.py"], [40]),
    "argparse": Script(["arguments.py", "4", "-e", "2", "--headless"], [32]),
    "-m package": Script(["-m", "package", "--epochs", "2", "--units", "4", "4"], [32]),
}


@dataclass(frozen=True)
class Outcome:
    """The end of a script. runs: those that it left, the oldest first."""

    output: str
    code: int
    seconds: float
    errors: str
    runs: list[Snapshot]


def execute(words: list[str], runs_dir: Path | None) -> Outcome:
    """Run a script, under tfwatch where there is a folder for its runs."""
    own = ["-m", "tfwatch", "run", "--headless", "--runs-dir", str(runs_dir)] if runs_dir else []
    environ = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TF_DETERMINISTIC_OPS": "1",
    }
    begun_s = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *own, *words],
        cwd=FOLDER,
        env={**environ, "PYTHONDONTWRITEBYTECODE": "1"},
        input="typed",
        capture_output=True,
        text=True,
        timeout=400,
    )
    seconds = time.perf_counter() - begun_s
    runs = [open_run(path) for path in reversed(list_runs(runs_dir))] if runs_dir else []
    errors = _ADDRESS.sub("A", _TIMES.sub("T", _LOGGED.sub("L", done.stderr)))
    return Outcome(_TIMES.sub("T", done.stdout), done.returncode, seconds, errors, runs)


def steps_of(run: Snapshot) -> int:
    """Return the steps of a run, counted ones among them."""
    return run.ended.steps if run.ended else 0


def problems(script: Script, bare: Outcome, under: Outcome) -> list[str]:
    """Return what differs from bare, and what is recorded wrongly."""
    found = []
    if under.output != bare.output:
        found.append("another output")
    if not under.errors.startswith(bare.errors):
        found.append(f"other errors: {first_difference(bare.errors, under.errors)}")
    if under.code != bare.code:
        found.append(f"exit code {under.code} in place of {bare.code}")
    steps = [steps_of(run) for run in under.runs]
    if script.runs != [0] and steps != script.runs:
        found.append(f"recorded {steps} steps, trained {script.runs}")
    if script.runs == [0] and not sum(steps):
        found.append("nothing recorded")
    if (
        script.wait_ms
        and under.runs
        and np.median(under.runs[-1].steps["wait_ms"]) < script.wait_ms
    ):
        found.append("data wait too short")
    return found


def first_difference(bare: str, under: str) -> str:
    """Return the first line of the errors that differs from bare, and that of bare."""
    pairs = zip(bare.splitlines(), [*under.splitlines(), ""], strict=False)
    return next(
        (f"{other!r} in place of {one!r}" for one, other in pairs if one != other), "their end"
    )


def split_of(run: Snapshot) -> str:
    """Return the medians of a run's parts, milliseconds."""
    if not len(run.steps):
        return "not split"
    return " ".join(
        f"{np.median(run.steps[f'{part}_ms']):5.1f}" for part in ("wait", "compute", "host")
    )


def main(names: list[str]) -> int:
    """Print a row for each script; return 1 if one has a problem."""
    chosen = {name: script for name, script in SCRIPTS.items() if not names or name in names}
    print(
        f"{'script':24} {'bare s':>7} {'run s':>7}  {'steps':14} {'wait, compute, host ms':23}"
        " result"
    )
    bad = False
    for name, script in chosen.items():
        with tempfile.TemporaryDirectory() as folder:
            bare, under = execute(script.words, None), execute(script.words, Path(folder))
            found = problems(script, bare, under)
            steps = "+".join(str(steps_of(run)) for run in under.runs)
            split = split_of(under.runs[-1]) if under.runs else ""
        result = "; ".join(found) or f"equal, exit code {under.code}"
        print(
            f"{name:24} {bare.seconds:7.1f} {under.seconds:7.1f}  {steps:14} {split:23} {result}",
            flush=True,
        )
        if found:
            bad = True
            print(under.errors[-2000:] if not under.runs else "", end="")
    return int(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
