"""Scripts in the manner of the Keras guides, bare and under `tfwatch run`: the same output, weights
and exit code?

Standard error is compared too, without times and what TensorFlow puts before a line; the summary
follows it.

    python -m tests.bench.scripts [NAME ...]

Prints a row each; exits with 1 where one differs, or where other steps are recorded than the script
trains.
"""

import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.bench.runner import ROOT, make_parser, print_head, print_row, run_python
from tfwatch.runs.library import list_runs
from tfwatch.runs.run import open_run
from tfwatch.runs.snapshot import Snapshot

#: What two bare runs do not share of a line of TensorFlow's log: its time and its process.
_LOGGED = re.compile(r"^(\d{4}-\d\d-\d\d [\d:.]+|[IWEF]\d{4} [\d:.]+ +\d+)", re.MULTILINE)
_ADDRESS = re.compile(r"0x[0-9a-f]+")
_TIMES = re.compile(r"\d+(\.\d+)?(s|ms|us)(/step|/epoch)?\b")


_ENVIRON = {
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_DETERMINISTIC_OPS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}


class Script(NamedTuple):
    """A script. runs: the steps of each run that it leaves; None: any. wait_ms: the least median
    data wait of the last one."""

    words: list[str]
    runs: list[int] | None
    wait_ms: float = 0.0


SCRIPTS = {
    "custom train_step": Script(["custom_train_step.py"], [96]),
    "GAN, loop over zip": Script(["gan.py"], [64]),
    "multi-input": Script(["multi_input.py"], [40]),
    "PyDataset, processes": Script(["py_dataset.py"], [40]),
    "ragged and sparse": Script(["ragged.py"], [54]),
    "transfer, two fits": Script(["transfer.py"], [30]),
    "checkpoints, early stop": Script(["checkpoints.py"], None),
    "train_on_batch": Script(["train_on_batch.py"], [30, 32]),
    "GradientTape": Script(["gradient_tape.py"], [26], 10.0),
    "search, six fits": Script(["search.py"], None),
    "MirroredStrategy": Script(["mirrored.py"], [48]),
    "mixed precision": Script(["mixed_precision.py"], [48]),
    "TextVectorization": Script(["text.py"], [40]),
    "argparse": Script(["arguments.py", "4", "-e", "2", "--headless"], [32]),
    "-m package": Script(["-m", "package", "--epochs", "2", "--units", "4", "4"], [32]),
}


class Outcome(NamedTuple):
    """The end of a script. runs: those that it left, the oldest first."""

    output: str
    code: int
    errors: str
    runs: list[Snapshot]


def execute(words: list[str], runs_dir: Path | None) -> Outcome:
    """Run a script, under tfwatch where there is a folder for its runs."""
    own = ["-m", "tfwatch", "run", "--headless", "--runs-dir", str(runs_dir)] if runs_dir else []
    done = run_python(
        *own,
        *words,
        cwd=ROOT / "tests/scripts",
        longest_s=400,
        typed="typed",
        environ=_ENVIRON,
    )
    runs = [open_run(path) for path in reversed(list_runs(runs_dir))] if runs_dir else []
    errors = _ADDRESS.sub("A", _TIMES.sub("T", _LOGGED.sub("L", done.stderr)))
    return Outcome(_TIMES.sub("T", done.stdout), done.returncode, errors, runs)


def steps_of(run: Snapshot) -> int:
    """Return the steps of a run, counted ones among them."""
    return run.ended.steps if run.ended else 0


def problems(script: Script, bare: Outcome, under: Outcome) -> Iterator[str]:
    """Yield what differs from bare, and what is recorded wrongly."""
    if under.output != bare.output:
        yield "another output"
    if not under.errors.startswith(bare.errors):
        yield f"other errors: {under.errors[-2000:]}"
    if under.code != bare.code:
        yield f"exit code {under.code} in place of {bare.code}"
    steps = [steps_of(run) for run in under.runs]
    if script.runs is not None and steps != script.runs:
        yield f"recorded {steps} steps, trained {script.runs}"
    if not sum(steps):
        yield "nothing recorded"
    elif np.median(under.runs[-1].steps["wait_ms"]) < script.wait_ms:
        yield "data wait too short"


def medians(run: Snapshot) -> Iterator[str]:
    """Yield the medians of a run's parts, milliseconds."""
    for part in ("wait_ms", "compute_ms", "host_ms"):
        yield f"{np.median(run.steps[part]):.1f}" if len(run.steps) else "n/a"


def main() -> int:
    """Print a row for each script; return 1 if one has a problem."""
    parser = make_parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    names = parser.parse_args().names or SCRIPTS
    print_head("script", "steps", "data wait ms", "compute ms", "host ms", "result")
    is_bad = False
    for name in names:
        script = SCRIPTS[name]
        with tempfile.TemporaryDirectory() as folder:
            bare, under = execute(script.words, None), execute(script.words, Path(folder))
            found = "; ".join(problems(script, bare, under))
            steps = "+".join(str(steps_of(run)) for run in under.runs)
            parts = [*medians(under.runs[-1])] if under.runs else ["n/a"] * 3
        print_row(name, steps, *parts, found or f"equal, exit code {under.code}")
        is_bad = is_bad or bool(found)
    return int(is_bad)


if __name__ == "__main__":
    sys.exit(main())
