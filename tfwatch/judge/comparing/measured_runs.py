"""A run to compare, its typical step and the parts of that, over the steps that several runs have
in common.

Runs differ in length, and slow down or speed up on their way: they begin cold, caches fill, the
machine grows hot. So each run counts with the same steps of its last setting: the first ones, up to
the length of the shortest run, without the first tenth. The value of a run is that of all these
steps; the values of its quarters show its drift and bursts.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from tfwatch.core.events import EpochEnded
from tfwatch.core.knobs import ON
from tfwatch.core.rows import plausible_rows, step_ms
from tfwatch.judge.comparing.comparability import Subject
from tfwatch.judge.findings.machine import find_process_memory
from tfwatch.judge.steps.verdict import BURSTS, steady

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from tfwatch.core.rows import Rows
    from tfwatch.judge.judged_run import JudgedRun

    Times = NDArray[np.float64]

#: The fewest steady steps of a run that can be compared: ten in a quarter.
LEAST_STEPS = 45
#: The share of the first steps that is left out.
_WARM_UP = 0.1
BASIS = "without the first tenth of the steps"
QUARTERS = 4
#: Steps that are read of a longer run.
_MOST_STEPS = 500_000
STEP = "step time"
WAIT, COPY, COMPUTE, HOST = "data wait", "copy", "compute", "host"
PARTS = (WAIT, COPY, COMPUTE, HOST)
WAIT_SHARE = "data wait share"


@dataclass(frozen=True, slots=True)
class Measured:
    """One figure of a run: of all its steps that count, and of each quarter of them."""

    value: float
    quarters: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class RunSteps:
    """The figures of a run by name; the copy is missing where it is not timed."""

    #: The steps that count.
    steps: int
    figures: Mapping[str, Measured]
    #: The figures are means, as batches come in bursts in some run; else medians.
    in_bursts: bool


def rows_to_compare(steps: Rows, stretches: Sequence[tuple[int, int]]) -> Rows:
    """Return the steady steps of a run's last setting, at most 500 000; `stretches`: as in
    `summary.LastSetting`."""
    rows = plausible_rows(steps)
    parts = []
    for first, last in stretches:
        begin, end = (bisect_left(rows["step"], step) for step in (first, last + 1))
        parts.append(rows[begin : min(end, begin + _MOST_STEPS)])
    return steady(np.concatenate(parts) if parts else rows[:0])


def measure_runs(runs: Sequence[Rows], examples: Sequence[int] | None = None) -> list[RunSteps]:
    """Measure runs over the steps that they have in common.

    runs: the rows of each, of `rows_to_compare`. examples: examples of a batch of each run, for
    figures of an example.
    """
    count = min(len(rows) for rows in runs)
    first = int(_WARM_UP * count)
    kept = [rows[first:count] for rows in runs]
    in_bursts = any(_is_in_bursts(rows) for rows in kept)
    timed = all(not np.isnan(rows["copy_ms"]).any() for rows in kept)
    return [
        RunSteps(
            len(rows), _figures(rows, examples[n] if examples else 1, in_bursts, timed), in_bursts
        )
        for n, rows in enumerate(kept)
    ]


def _is_in_bursts(rows: Rows) -> bool:
    times = step_ms(rows, np.float64)
    return bool(times.mean() > BURSTS * np.median(times))


def _figures(rows: Rows, examples: int, in_bursts: bool, timed: bool) -> dict[str, Measured]:
    figures = {
        name: _measured(times / examples, in_bursts) for name, times in _times(rows, timed).items()
    }
    shares = [
        float(part["wait_ms"].sum() / step_ms(part, np.float64).sum())
        for part in np.array_split(rows, QUARTERS)
    ]
    whole = float(rows["wait_ms"].sum(dtype=np.float64) / step_ms(rows, np.float64).sum())
    return {**figures, WAIT_SHARE: Measured(whole, tuple(shares))}


def _times(rows: Rows, timed: bool) -> dict[str, Times]:
    parts = {name: rows[f"{column}_ms"].astype(np.float64) for name, column in _COLUMNS.items()}
    if not timed:
        del parts[COPY]
    else:
        parts[COMPUTE] = parts[COMPUTE] - parts[COPY]
    return {STEP: step_ms(rows, np.float64), **parts}


_COLUMNS = {WAIT: "wait", COPY: "copy", COMPUTE: "compute", HOST: "host"}


def _measured(times: Times, in_bursts: bool) -> Measured:
    typical = np.mean if in_bursts else np.median
    quarters = np.array_split(times, QUARTERS)
    return Measured(float(typical(times)), tuple(float(typical(part)) for part in quarters))


def arguments_by_name(text: str) -> dict[str, str]:
    """Return the values of a workload's arguments by name: of `--seed 1 --eager` `seed` and
    `eager`, which is `on`."""
    words = [*text.replace("=", " ").split(), ""]
    return {
        word.removeprefix("--").replace("-", "_"): ON
        if not value or value.startswith("--")
        else value
        for word, value in pairwise(words)
        if word.startswith("--")
    }


class RunToCompare:
    """A run that was read once, with what a comparison needs of it."""

    def __init__(self, judged: JudgedRun, name: str) -> None:
        self.judged = judged
        self.run = judged.run
        self.name = name

    @cached_property
    def rows(self) -> Rows:
        """The steady steps of its last setting."""
        return rows_to_compare(self.run.steps, self.judged.setting.stretches)

    @property
    def peak_bytes(self) -> float | None:
        """The largest memory of a process; None where it was not sampled."""
        memory = find_process_memory(self.run.samples, self.run.steps)
        return memory.peak_bytes if memory else None

    @property
    def joules_per_step(self) -> float | None:
        """The energy of a step; None for the reason in `energy_missing`."""
        spent = self.judged.hardware.energy
        return spent.per_step_j if spent else None

    @property
    def energy_missing(self) -> str:
        """The reason why its energy is not known; empty where it is."""
        return "" if self.judged.hardware.energy else self.judged.hardware.energy_missing

    @cached_property
    def subject(self) -> Subject:
        """The facts that decide whether it can be compared."""
        manifest = self.run.manifest
        machine = manifest.machine
        settings = arguments_by_name(str(manifest.settings.get("arguments") or ""))
        return Subject(
            name=self.name,
            path=str(self.run.path.resolve()) if self.run.path else self.name,
            workload=manifest.workload,
            batch_size=manifest.batch_size,
            settings={**settings, **self.judged.situation.setting.knobs},
            versions=manifest.versions,
            host=str(machine.get("host") or ""),
            hardware=(
                machine.get("cores"),
                machine.get("cores_allowed"),
                machine.get("memory_bytes"),
            ),
            device=manifest.device,
            start_s=manifest.origin_wall_ns / 1e9,
            steady_steps=len(self.rows),
        )

    @property
    def others_share(self) -> float | None:
        """The share of the machine's cores that other programs used while it trained; None where
        unknown."""
        medians, cores = self.judged.hardware.medians, self.run.manifest.machine.get("cores")
        used, own = medians.get("cpu_cores"), medians.get("process_cores")
        if used is None or own is None or not cores:
            return None
        return min(max((used - own) / float(cores), 0.0), 1.0)

    @property
    def epochs(self) -> dict[int, EpochEnded]:
        """The epochs that ended, by number."""
        return {event.epoch: event for event in self.run.events if isinstance(event, EpochEnded)}
