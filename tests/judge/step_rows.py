"""Rows of steps made to measure."""

import numpy as np
from numpy.typing import ArrayLike

from tfwatch.core.events import Event
from tfwatch.core.rows import STEP, Rows
from tfwatch.judge.steps.steady_steps import single_spikes
from tfwatch.runs.buffers import EventLog, Events


def make_steps(
    wait: ArrayLike,
    compute: ArrayLike = 10.0,
    host: ArrayLike = 1.0,
    dispatch: ArrayLike = 2.0,
    first: int = 1,
    copy: ArrayLike = np.nan,
) -> Rows:
    """Steps that follow one another, numbered from `first`; the milliseconds are scalars or one a
    step.

    compute: contains the copy.
    """
    count = np.broadcast(np.atleast_1d(wait), compute, host).size
    rows = np.zeros(count, dtype=STEP)
    rows["step"] = np.arange(first, first + count)
    parts = {"wait": wait, "dispatch": dispatch, "compute": compute, "host": host, "copy": copy}
    for name, values in parts.items():
        rows[f"{name}_ms"] = values
    return restart(rows)


def restart(rows: Rows) -> Rows:
    """The rows with starts that follow from their step times."""
    total = (rows["wait_ms"] + rows["compute_ms"] + rows["host_ms"]).astype(np.float64)
    rows["start_ns"] = np.concatenate([[0], np.cumsum(total)[:-1]]) * 1e6
    return rows


def plain(count: int, share: float = 0.1) -> Rows:
    """Steps of 20 ms that wait for `share` of it and compute for the rest."""
    return make_steps(np.full(count, 20 * share), compute=20 * (1 - share), host=0.0)


def spike_steps(rows: Rows) -> list[int]:
    """The numbers of the steps that are single spikes."""
    return [int(step) for step in rows["step"][single_spikes(rows)]]


def events_of(*events: Event) -> Events:
    """The events as a run has them."""
    log = EventLog()
    for event in events:
        log.add(event)
    return log.view()
