"""Pipelines and models that are formulas: what a step takes under any setting, and rows of steps
that say so."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np

from tfwatch.core.rows import STEP, Rows
from tfwatch.judge.forecasts.forecast import Forecast
from tfwatch.judge.forecasts.predict import depth, needed_bytes
from tfwatch.tuner.client import settling_steps
from tfwatch.tuner.search import BASE, BUDGET, MOST, AutopilotSearch, Move, SearchLimits, Stop

MakeForecast = Callable[[Mapping[str, str], Mapping[str, str]], Forecast | None]
MakeRows = Callable[[Mapping[str, str], int], Rows]

DEPTHS = ("off", "1", "2", "4", "8", "16", "32", "64")
#: Steps between two looks at a run.
LOOK_EVERY = 5
CALLS = ("off", "1", "2", "4", "8", "16", "32", "64")


@dataclass(frozen=True)
class Plant:
    """Milliseconds a batch: data_ms of one core's work, storage_ms of a storage that takes many
    requests at a time, compute_ms and host_ms of the model. Without `accelerated` compute keeps all
    cores busy.

    serial: the pipeline holds a lock. noise: the standard deviation of a step, as a share. drift:
    how much neighbouring steps resemble each other. crowd_ms: what each worker adds to the work,
    for the thread that launches needs a core too.
    handing_ms: what a prefetch adds to it. bursts_ms: how late batches prepared ahead are, less the
    deeper the buffer.
    """

    data_ms: float
    compute_ms: float
    storage_ms: float = 0.0
    host_ms: float = 0.5
    cores: int = 8
    accelerated: bool = True
    serial: bool = False
    noise: float = 0.03
    drift: float = 0.0
    batch_bytes: float = 1e6
    crowd_ms: float = 0.0
    handing_ms: float = 0.0
    bursts_ms: float = 0.0

    @property
    def worst(self) -> dict[str, str]:
        """Every knob off."""
        return {"prefetch": "off", "workers": "off"}

    def parts_ms(self, knobs: Mapping[str, str]) -> tuple[float, float]:
        """Data wait, and compute and host, of a step."""
        calls = 0 if self.serial else _number(knobs["workers"])
        lasts = self.storage_ms + self.data_ms
        if calls:
            lasts = max(lasts / calls, self.data_ms / self.cores)
        work = self.compute_ms + self.host_ms
        if not calls and not _number(knobs["prefetch"]):
            return lasts, work
        shared = 0.0 if self.accelerated else self.data_ms / self.cores
        depth = _number(knobs["prefetch"])
        work += shared + self.crowd_ms * calls + (self.handing_ms if depth else 0.0)
        return max(lasts - work, 0.0) + self.bursts_ms / max(depth, 1), work

    def step_ms(self, knobs: Mapping[str, str]) -> float:
        """The mean step."""
        return sum(self.parts_ms(knobs))

    def best_ms(self, memory_bytes: float) -> float:
        """Of the full grid, as far as the memory bears it."""
        grid = [{"prefetch": p, "workers": w} for p, w in product(DEPTHS, CALLS)]
        return min(
            self.step_ms(k) for k in grid if needed_bytes(k, self.batch_bytes) <= memory_bytes
        )

    def rows(self, knobs: Mapping[str, str], count: int, rng: np.random.Generator) -> Rows:
        """So many steps."""
        wait, work = self.parts_ms(knobs)
        white = rng.normal(size=count)
        for at in range(1, count):
            white[at] = self.drift * white[at - 1] + np.sqrt(1 - self.drift**2) * white[at]
        scale = np.exp(self.noise * white)
        rows = np.zeros(count, dtype=STEP)
        rows["copy_ms"] = np.nan
        rows["step"] = np.arange(1, count + 1)
        rows["wait_ms"], rows["compute_ms"] = wait * scale, (work - self.host_ms) * scale
        rows["host_ms"] = self.host_ms * scale
        return rows


def _number(value: str) -> int:
    return int(value) if value.isdigit() else 0


@dataclass
class Walk:
    """A search over a plant.

    moves: each with whether it is kept. most_bytes: of buffers beyond the first ones. slow_steps:
    of settings slower than the first.
    """

    stop: Stop
    knobs: dict[str, str]
    moves: list[tuple[Move, bool]]
    most_bytes: float
    steps: int
    slow_steps: int


def search_over(
    plant: Plant,
    start: Mapping[str, str],
    memory_bytes: float,
    make_forecast: MakeForecast,
    make_rows: MakeRows,
) -> Walk:
    """Search as the autopilot does, over formulas in place of a training."""
    limits = SearchLimits(
        memory_bytes, plant.batch_bytes, plant.cores, frozenset(start), plant.accelerated
    )
    search = AutopilotSearch(start, make_rows(start, BASE), limits)
    walk = Walk(Stop("budget", ""), search.knobs, [], 0.0, BASE, 0)
    while len(walk.moves) < 100:
        action = search.next(partial(make_forecast, dict(search.knobs)), BUDGET - walk.steps)
        if isinstance(action, Stop):
            walk.stop, walk.knobs = action, search.knobs
            return walk
        before, after = dict(search.knobs), {**search.knobs, **action.settings}
        more = needed_bytes(after, plant.batch_bytes) - needed_bytes(start, plant.batch_bytes)
        walk.most_bytes = max(walk.most_bytes, more)
        buffered = depth(before["prefetch"]) + settling_steps(after)
        most = max(min(MOST, BUDGET - walk.steps - buffered), 0)
        kept, count, rows = None, 0, make_rows(after, most)
        while kept is None:
            count = min(count + LOOK_EVERY, most)
            kept = search.judge(action, rows[:count], last=count == most)
        walk.moves.append((action, kept))
        if kept:
            walk.steps += max(min(BASE, most) - count, 0)
            search.measure(rows[: max(count, BASE)])
        walk.steps += buffered + count
        if plant.step_ms(after) > plant.step_ms(start):
            walk.slow_steps += settling_steps(after) + count
    raise AssertionError("it does not end")
