"""Runs of one training that follow each other as restarts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tests.analysis.step_rows import make_steps, restart
from tests.runs.folders import ORIGIN_WALL_NS, write_run
from tfwatch.core.events import EpochEnded, EpochStarted, ImportEnded, RunEnded, ValidationEnded

if TYPE_CHECKING:
    from pathlib import Path

    from tfwatch.core.events import Event

#: Steps of an epoch, and the milliseconds of a step: data wait, compute, host.
EPOCH, WAIT, COMPUTE, HOST = 100, 2.0, 7.0, 1.0
#: Import, the time before the first step, and after each epoch validation and callbacks, seconds.
IMPORT_S, START_S, VALIDATION_S, CALLBACKS_S = 0.4, 0.5, 0.2, 0.05
#: A process that ended long ago.
NOBODY = 2**22 + 1


def write_restart(
    folder: Path,
    start_s: float,
    first_epoch: int,
    steps: int,
    cause: str = "",
    after_s: float = 0.0,
    **changes: Any,
) -> float:
    """Write a run of whole and broken epochs; return the moment of its end, seconds after the first run's begin.

    cause: of its end; empty: it was killed. after_s: how long it goes on after its last step.
    """
    rows = make_steps(np.full(steps, WAIT), COMPUTE, HOST)
    epochs = first_epoch + np.arange(steps) // EPOCH
    rows["epoch"] = epochs
    between_s = VALIDATION_S + CALLBACKS_S
    shift_ns = (START_S + between_s * (epochs - first_epoch)) * 1e9
    rows["start_ns"] = restart(rows)["start_ns"] + shift_ns.astype(np.uint64)
    events: list[Event] = [ImportEnded(round(IMPORT_S * 1e9), IMPORT_S * 1e3, "2.20.0")]
    for epoch in sorted(set(epochs.tolist())):
        own = rows[epochs == epoch]
        begin_ns, end_ns = int(own["start_ns"][0]), int(own["start_ns"][-1] + 10_000_000)
        events.append(EpochStarted(begin_ns, epoch, 10, EPOCH))
        if len(own) == EPOCH:
            events.append(
                ValidationEnded(end_ns + round(VALIDATION_S * 1e9), epoch, VALIDATION_S * 1e3)
            )
            events.append(
                EpochEnded(
                    end_ns + round(VALIDATION_S * 1e9), epoch, int(own["step"][-1]), {"loss": 1.0}
                )
            )
    whole = steps % EPOCH == 0
    length_s = (
        (int(rows["start_ns"][-1]) + 10_000_000) / 1e9 + (between_s if whole else 0.0) + after_s
    )
    if cause:
        events.append(RunEnded(round(length_s * 1e9), cause, steps))
    values = {
        "run": folder.name,
        "pid": NOBODY + round(start_s * 1000),
        "origin_wall_ns": ORIGIN_WALL_NS + round(start_s * 1e9),
    }
    write_run(folder, rows, *events, **{**values, **changes})
    return start_s + length_s
