"""The advice for a `keras.utils.PyDataset`: workers, processes, and the keys that give it them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfwatch.core.knobs import (
    AUTO,
    DEFAULT,
    KNOBS,
    LEAST_AUTO_WORKERS,
    MULTIPROCESSING,
    OFF,
    ON,
    PY_DATASET_KNOBS,
    WORKERS,
    number_of,
)
from tfwatch.judge.findings.finding import Advice
from tfwatch.judge.findings.switch_lines import py_dataset_lines
from tfwatch.judge.forecasts.evidence import cores_of

if TYPE_CHECKING:
    from tfwatch.judge.findings.situation import Situation

_CHEAPER_BATCHES = Advice("a cheaper __getitem__ for the PyDataset: workers measured slower")


def advise_py_dataset(now: Situation) -> Advice:
    """Advise workers, threads or processes, or what is left where the run measured them slower."""
    has_workers = now.knobs.get(WORKERS, OFF) not in (OFF, DEFAULT)
    has_processes = now.knobs.get(MULTIPROCESSING) == ON
    if has_processes and _is_slower(now, MULTIPROCESSING):
        return Advice("threads for the PyDataset: its processes measured slower")
    needs_processes = _may_need_processes(now)
    if has_processes or (has_workers and not needs_processes):
        return _more_workers(now)
    lines = py_dataset_lines(str(_workers(now)), has_processes=needs_processes)
    if has_workers:
        return Advice(
            "use_multiprocessing=True for the PyDataset: its threads share the GIL where"
            " __getitem__ computes in Python; where it waits, more of them",
            lines,
        )
    if needs_processes:
        return Advice(
            "workers=4, use_multiprocessing=True for the PyDataset: processes do not share the GIL",
            lines,
        )
    if _is_slower(now, WORKERS):
        return _CHEAPER_BATCHES
    return Advice(
        "workers=4, max_queue_size=8 for the PyDataset: four batches are prepared in parallel",
        lines,
    )


def _more_workers(now: Situation) -> Advice:
    workers = str(2 * _workers(now))
    if _is_slower(now, WORKERS) or (WORKERS, workers) in now.better:
        return _CHEAPER_BATCHES
    return Advice("more workers for the PyDataset", py_dataset_lines(workers))


def _workers(now: Situation) -> int:
    """Return the workers of a `PyDataset`; where it has none, those to begin with."""
    workers = now.knobs.get(WORKERS, OFF)
    if workers == AUTO:
        return max(cores_of(now.manifest), LEAST_AUTO_WORKERS)
    return number_of(workers) or LEAST_AUTO_WORKERS


def _may_need_processes(now: Situation) -> bool:
    """Return whether processes may be faster than threads: `__getitem__` computes, and nothing
    measured says no. Threads that measured faster than none wait, for a disk or a network."""
    if _is_slower(now, MULTIPROCESSING):
        return False
    if now.knobs.get(WORKERS, OFF) in (OFF, DEFAULT):
        return now.computes_batches
    return (WORKERS, OFF) not in now.better


def _is_slower(now: Situation, knob: str) -> bool:
    """Return whether the run has measured a knob of a `PyDataset` as slower than without it."""
    return any(one == knob and faster == OFF for (one, _), faster in now.better.items())


def keys_of_py_dataset(now: Situation) -> str:
    """Return the keys that give a `PyDataset` workers, and processes where they help; empty where
    there are none."""
    knobs, can_switch = now.knobs, now.manifest.switchable
    can = [one for one in PY_DATASET_KNOBS if one in can_switch or now.manifest.needs_consent(one)]
    if MULTIPROCESSING not in knobs or WORKERS not in can:
        return ""
    helps = {WORKERS: not _is_slower(now, WORKERS), MULTIPROCESSING: _may_need_processes(now)}
    off = [knob for knob in can if knobs[knob] == OFF]
    return " and ".join(KNOBS[knob].key for knob in off if helps[knob])
