"""Run folders for the tests of compare, check and explain."""

from pathlib import Path
from typing import Any

import numpy as np

from tests.judge.samples import make_samples
from tests.judge.step_rows import make_steps
from tests.runs.folders import HOST, ORIGIN_WALL_NS, FakeClock, write_run
from tfwatch.core.events import EpochEnded, EpochStarted, Event, RunEnded
from tfwatch.core.rows import Rows

STEPS = 300
FINISHED = RunEnded(9_000_000_000, "finished", STEPS)


def noisy_rows(seed: int, step_ms: float = 20.0, wait: float = 0.1, steps: int = STEPS) -> Rows:
    """Steps with noise of 2 %, of which a share waits for data."""
    times = step_ms * (1 + 0.02 * np.random.default_rng(seed).standard_normal(steps))
    return make_steps(wait * times, compute=(0.95 - wait) * times, host=0.05 * times)


def trained(rows: Rows) -> tuple[Event, ...]:
    """The events of a training of one epoch with these steps."""
    end_ns = int(rows["start_ns"][-1]) + 40_000_000
    ended = EpochEnded(end_ns, 0, len(rows), {"loss": 1.25})
    return (
        EpochStarted(0, 0, 1, len(rows)),
        ended,
        RunEnded(end_ns, "finished", len(rows)),
    )


def record(folder: Path, rows: Rows, *events: Event, start_s: float = 0.0, **changes: Any) -> Path:
    """Write a run that ended; `start_s`: when it began."""
    values: dict[str, Any] = {
        "run": folder.name,
        "batch_size": 32,
        "device": "CPU",
        "machine": {"host": HOST, "cores": 4, "memory_bytes": 16 * 2**30},
        "knobs": {"prefetch": "off"},
        "origin_wall_ns": ORIGIN_WALL_NS + round(start_s * 1e9),
    }
    end_s = rows["start_ns"][-1] / 1e9 + 1.0 if len(rows) else 0.0
    given = events or trained(rows)
    writer = write_run(folder, rows, *given, clock=FakeClock(end_s), **{**values, **changes})
    assert writer.folder == folder
    return folder


def add_memory(folder: Path, peak_bytes: float) -> None:
    """Add samples of the process to a run that is over."""
    samples = make_samples(np.linspace(0.1, 5, 10), process_bytes=peak_bytes)
    (folder / "samples.bin").write_bytes(samples.tobytes())
