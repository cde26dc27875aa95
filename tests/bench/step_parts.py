"""Does a profile of a few steps name the part that takes most of them?

    python -m tests.bench.step_parts OUT [--parts conv dense] [--no-jit]
    python -m tests.bench.step_parts OUT --gpu                           beside an NVIDIA GPU
    python -m tests.bench.step_parts OUT --gpu --parts mirrored          on two of them

Ten parts in three sizes, each trained as under `tfwatch run --explain`. A row for each: the
longest part, its share, what starting the profiler took, and the share without a part. With a GPU
there are two more, which only it can show: launch gaps, and products in float32 without tensor
cores; then a row has the launch gaps, and the time of its parts over that in which the trace shows
a kernel or a copy. `mirrored` trains under a MirroredStrategy, with batches in time, 20 and 40 ms
late. The longest rows of each profile are in OUT.
"""

import os
import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np

from tests.bench.runner import Rows, figure, make_parser, print_head, print_row
from tests.bench.starvation import busy_until
from tests.bench.step_parts_models import make
from tfwatch import Watch
from tfwatch.core.events import StepProfiled
from tfwatch.judge.profile.step_parts import StepPart, step_parts
from tfwatch.runs.run import open_run
from tfwatch.runs.script_process import Launch, announce_in
from tfwatch.watch.fit.fit_runs import complete_runs
from tfwatch.watch.profile import recorded, step_profiler
from tfwatch.watch.profile.gaps import begin_ps
from tfwatch.watch.profile.recorded import Recorded

_SIZES = (1, 2, 3)
#: The name that the longest part has, or the layer that it is in; small operations are those of its
#: loop.
_PARTS = {
    "conv": "answer",
    "dense": "answer",
    "augmentation": "answer",
    "attention": "answer",
    "embedding": "adam",
    "metric": "answer",
    "loss": "pairs_loss",
    "python": "answer",
    "normalization": "answer",
    "map_fn": "answer",
}
#: Those that a GPU alone can show.
_OF_GPU = {"launching": "launch gaps", "float32": "answer"}
_OF_TWO = {"mirrored": "collective operations"}
#: The steps of a training; the rows that are kept; the most that may be wrong.
_STEPS, _ROWS, _MOST_WRONG = 120, 12, 2


class Recordings:
    """Notes the time in which GPUs work until the profiled steps end, of each recording that
    tfwatch reads."""

    def __init__(self) -> None:
        #: The time of the parts with kernels of a GPU, over that in which it works; None on a CPU.
        self.of_busy: float | None = None
        module: Any = step_profiler
        self._read, module.read_apart = module.read_apart, self._note

    def _note(self, folder: Path) -> Recorded:
        space = recorded.read_space(folder)
        until = recorded.end_of(recorded.planes_of(space, recorded.HOST))
        planes = recorded.planes_of(space, recorded.DEVICE)
        busy_ms = sum(_busy_ms(plane, until) for plane in planes)
        found: Recorded = self._read(folder)
        kernels = {one.name for plane in planes for one in plane.event_metadata.values()}
        timed_ms = sum(one.ps for one in found.operations if one.op in kernels) / 1e9
        self.of_busy = timed_ms / busy_ms if busy_ms else None
        return found


def _busy_ms(plane: Any, until: float) -> float:
    """Return the time in which a GPU runs anything, on any of its streams."""
    begins = [
        (begin_ps(line, one), one.duration_ps)
        for line in plane.lines
        if line.name.startswith(recorded.STREAM)
        for one in line.events
    ]
    spans = [(begin, begin + took) for begin, took in begins if begin < until]
    return float(busy_until(np.array(spans, np.int64))[1][-1]) / 1e9 if spans else 0.0


def train(training: Any, out: Path) -> tuple[StepProfiled, float]:
    """Train, and return the profile and the median data wait, ms.

    out: of this training alone, as short ones share a run.
    """
    watch = Watch(out)
    training.model.fit(training.data, steps_per_epoch=_STEPS, verbose=0, callbacks=[watch])
    complete_runs()
    run = open_run(watch.run_path or "")
    found = run.events.of(StepProfiled)
    profile = found[-1] if found else StepProfiled(0, 0, 0, 0.0, 0.0, missing="none came")
    return profile, float(np.median(run.steps["wait_ms"]))


def first_of(profile: StepProfiled, answer: str) -> StepPart | None:
    """Return the longest part; of several devices that of their collective operations. A GPU idles
    beside many of them, which is the answer of one."""
    left_out = {"small"} if answer == "launch gaps" else {"small", "gaps"}
    roles = {one.role for one in step_parts(profile)} - left_out
    roles = {"collective"} if answer in _OF_TWO.values() else roles
    return next((one for one in step_parts(profile) if one.role in roles), None)


def row_of(name: str, answer: str, profile: StepProfiled, of_busy: float | None) -> dict[str, Any]:
    """Return the figures of a training; times are milliseconds a step."""
    parts = step_parts(profile)
    first = first_of(profile, answer)
    placed = first is not None and (first.name == answer or first.name.startswith(f"{answer}/"))
    return {
        "name": name,
        "is_right": placed,
        "first": first.name if first else profile.missing or "none",
        "share": first.share if first else 0.0,
        "cost_ms": profile.cost_ms,
        "step_ms": profile.step_ms,
        "gaps_ms": profile.gaps_ms,
        "of_busy": of_busy,
        "without_part": sum(one.share for one in parts if one.role == "other"),
        "rows": [(one.role, one.name, round(one.took_ms, 4)) for one in parts[:_ROWS]],
    }


def print_training(row: dict[str, Any]) -> None:
    """Print the longest part and the sums."""
    print_row(
        row["name"],
        "yes" if row["is_right"] else "NO",
        row["first"],
        f"{row['share']:.0%}",
        f"{row['cost_ms']:.1f}",
        f"{row['wait_ms']:.2f}",
        f"{row['step_ms']:.2f}",
        figure(row["gaps_ms"], ".2f"),
        figure(row["of_busy"], ".3f"),
        f"{row['without_part']:.1%}",
    )


def main() -> int:
    """Run all, and return 1 where more than two are wrong."""
    parser = make_parser(__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--gpu", action="store_true", help="a GPU trains")
    parser.add_argument("--no-jit", action="store_true", help="without XLA")
    parser.add_argument("--parts", nargs="*", help="of these only")
    asked = parser.parse_args()
    answers = _PARTS | (_OF_GPU if asked.gpu else {})
    rows = Rows(asked.out / f"step_parts{'-no-jit' if asked.no_jit else ''}.jsonl")
    recordings = Recordings()
    announce_in("", launch=Launch(explain=True))
    times = ("cost, ms", "data wait, ms", "step, ms", "gaps, ms")
    print_head("part", "right", "first", "share", *times, "parts over busy", "no part")
    for part, size in product(asked.parts or answers, _SIZES):
        name = f"{part}-{size}"
        if rows.has(name=name):
            continue
        recordings.of_busy = None
        training = make(part, size, on_gpu=asked.gpu, jit=False if asked.no_jit else "auto")
        with tempfile.TemporaryDirectory() as folder:
            profile, wait_ms = train(training, Path(folder))
        row = row_of(name, (answers | _OF_TWO)[part], profile, recordings.of_busy)
        rows.add({**row, "wait_ms": wait_ms})
        print_training({**row, "wait_ms": wait_ms})
    done = rows.read()
    right = sum(one["is_right"] for one in done)
    print(f"{right} of {len(done)} are right")
    return int(len(done) - right > _MOST_WRONG)


if __name__ == "__main__":
    sys.exit(main())
