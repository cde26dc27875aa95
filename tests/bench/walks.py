"""The autopilot's search over tables of step times: the share of searches that end within 5 % of
the best.

    python -m tests.bench.walks [--searches 60] [--cases cnn generator ...]

No model trains. Each search gets the steps of a setting on a simulated machine: correlated noise, a
random factor for each visit to a setting, single spikes, and visits in which another program takes
its share. Forecasts have errors in proportion to their expected gain.
`slow`: steps slower than the first setting. `unfounded`: the share of kept moves that save less
than 2 % in truth. The tables are of two quiet cores.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np

from tests.bench.runner import make_parser, print_head, print_row
from tests.judge.plants import Plant, search_over
from tfwatch.core.rows import STEP, Rows
from tfwatch.judge.forecasts.forecast import Forecast

#: Steps and, of them, the work in milliseconds: rows are prefetch off, 4 and 16, columns workers
#: off, 2, 4, 8 and 16.
DEPTHS, CALLS = (0, 4, 16), (0, 2, 4, 8, 16)
_LOADER = (
    ((26.6, 10.8), (17.2, 10.9), (12.95, 10.85), (11.2, 10.85), (11.0, 10.8)),
    ((15.3, 10.9), (10.9, 10.75), (10.8, 10.7), (10.9, 10.75), (11.0, 10.8)),
    ((15.5, 10.9), (10.9, 10.8), (10.85, 10.75), (10.9, 10.8), (11.0, 10.85)),
)
_TABLES = {
    "cnn": (
        ((43.5, 15.5), (22.5, 16.5), (20.8, 16.8), (20.0, 15.8), (20.5, 16.5)),
        ((23.1, 16.3), (19.0, 18.5), (16.9, 16.4), (16.6, 16.1), (17.3, 17.0)),
        ((22.5, 16.3), (18.8, 18.2), (16.8, 16.4), (16.6, 16.2), (17.3, 17.0)),
    ),
    "cnn, no latency": (
        ((22.5, 15.8), (18.5, 16.3), (17.4, 16.2), (16.6, 16.0), (16.7, 16.3)),
        ((17.5, 17.1), (18.2, 17.9), (17.2, 17.0), (16.6, 16.3), (16.9, 16.6)),
        ((17.4, 17.1), (18.4, 18.1), (17.3, 17.1), (16.9, 16.6), (17.2, 17.0)),
    ),
    "generator": (((18.5, 1.5),) * 5, ((17.4, 1.6),) * 5, ((17.4, 1.6),) * 5),
    "loader": _LOADER,
    "storage": (
        ((54.0, 11.3), (28.0, 11.2), (14.5, 11.1), (11.8, 11.1), (11.9, 11.2)),
        ((42.2, 11.4), (20.2, 11.2), (11.4, 10.95), (11.15, 10.9), (11.15, 10.9)),
        ((42.2, 11.4), (20.2, 11.1), (11.3, 10.95), (11.12, 10.9), (11.12, 10.9)),
    ),
}
_SHARED = ("cnn", "cnn, no latency", "generator")


class Machine(NamedTuple):
    """A simulated machine.

    noise, visit_noise: the variation of each step and of each visit to a setting, as shares of a
    step. likeness: the correlation of neighbouring steps. slow: the share of slow visits.
    """

    noise: float
    likeness: float
    visit_noise: float
    slow: float


MACHINES = {
    "quiet": Machine(0.03, 0.3, 0.01, 0.0),
    "usual": Machine(0.05, 0.3, 0.03, 0.02),
    "busy": Machine(0.10, 0.4, 0.08, 0.08),
}
#: The factor of a slow visit; the share of steps with spikes; the mean of a spike as a share of a
#: step.
SLOW, SPIKES, SPIKE = 1.3, 0.02, 0.5
#: The errors of forecasts, as shares of the expected gain and of the step.
GAIN_ERROR, STEP_ERROR = 0.4, 0.05


@dataclass(frozen=True)
class Table(Plant):
    """Step times by a table; workers and depths between its own take the nearest entry."""

    case: str = ""

    def parts_ms(self, knobs: Mapping[str, str]) -> tuple[float, float]:
        """Return data wait, and compute plus host, of a step."""
        table = _TABLES[self.case]
        step, work = table[_nearest(DEPTHS, knobs["prefetch"])][_nearest(CALLS, knobs["workers"])]
        return step - work, work

    @property
    def least_ms(self) -> float:
        """The best step of the table."""
        return min(step for row in _TABLES[self.case] for step, _ in row)


PLANTS = {
    case: Table(1.0, 1.0, cores=2, accelerated=case not in _SHARED, case=case) for case in _TABLES
}


def _nearest(values: tuple[int, ...], word: str) -> int:
    number = int(word) if word.isdigit() else 0
    return min(
        range(len(values)), key=lambda n: abs(math.log2(1 + values[n]) - math.log2(1 + number))
    )


def visit(
    plant: Plant, machine: Machine, knobs: Mapping[str, str], count: int, rng: np.random.Generator
) -> Rows:
    """Return steps of a setting."""
    rows = replace(plant, noise=machine.noise, drift=machine.likeness).rows(knobs, count, rng)
    time = math.exp(machine.visit_noise * rng.normal())
    times = np.full(count, time * (SLOW if rng.random() < machine.slow else 1.0))
    times[rng.random(count) < SPIKES] *= 1 + rng.exponential(SPIKE)
    for part in STEP.names or ():
        if part.endswith("_ms"):
            rows[part] *= times
    return rows


#: A kept move that saves less in truth is unfounded.
_LEAST_GAIN = 1.02


def run_search(plant: Table, machine: Machine, seed: int) -> tuple[float, int, int, int, int]:
    """Run one search; return its step over the best of the table, the steps that it took, those
    slower than the first setting, and the moves that it kept, all and unfounded ones."""
    rng = np.random.default_rng(seed)

    @cache
    def gain_of(case: tuple[tuple[str, str], ...], ratio: float) -> float:
        expected = math.log(ratio)
        return expected * (1 + GAIN_ERROR * rng.normal()) + STEP_ERROR * rng.normal()

    def make_forecast(knobs: Mapping[str, str], switched: Mapping[str, str]) -> Forecast:
        now_ms, then = plant.step_ms(knobs), {**knobs, **switched}
        ms = now_ms / math.exp(gain_of((*then.items(),), now_ms / plant.step_ms(then)))
        (knob, value), *_ = switched.items()
        return Forecast(knob, value, ms, 0.9 * ms, 1.1 * ms, "", now_ms)

    def make_rows(knobs: Mapping[str, str], count: int) -> Rows:
        return visit(plant, machine, knobs, count, rng)

    walk = search_over(plant, plant.worst, 1e12, make_forecast, make_rows)
    knobs, unfounded = plant.worst, 0
    kept = [move for move, is_kept in walk.moves if is_kept]
    for move in kept:
        after = {**knobs, **move.settings}
        unfounded += plant.step_ms(knobs) < _LEAST_GAIN * plant.step_ms(after)
        knobs = after
    over = plant.step_ms(walk.knobs) / plant.least_ms
    return over, walk.steps, walk.slow_steps, len(kept), unfounded


def main() -> int:
    """Run the benchmark; returns the exit code."""
    parser = make_parser(__doc__)
    parser.add_argument(
        "--searches", type=int, default=60, help="of each case on each machine (60)"
    )
    parser.add_argument("--cases", nargs="*", default=[*PLANTS], choices=PLANTS)
    options = parser.parse_args()
    columns = ("within 5 %", "median", "mean", "worst", "steps", "slow", "unfounded")
    print_head("machine", "case", *columns)
    for name, machine in MACHINES.items():
        of_all = []
        for case in options.cases:
            found = [run_search(PLANTS[case], machine, seed) for seed in range(options.searches)]
            of_all += found
            print_searches(name, case, found)
        print_searches(name, "all", of_all)
    return 0


def print_searches(machine: str, case: str, found: Sequence[tuple[float, ...]]) -> None:
    """Print the row of some searches."""
    over, steps, slow, kept, unfounded = np.array(found).T
    ratios = f"{np.median(over):.3f}", f"{over.mean():.3f}", f"{over.max():.2f}"
    counts = f"{np.median(steps):.0f}", f"{slow.mean():.0f}"
    share = f"{unfounded.sum() / max(kept.sum(), 1):.2f}"
    print_row(machine, case, f"{(over <= 1.05).mean():.2f}", *ratios, *counts, share)


if __name__ == "__main__":
    sys.exit(main())
