"""The autopilot from the worst setting, against the best of a full grid measured in the same training.

    python -m tests.bench.autopilot [--cases "cnn;generator;..."] [--memory-gb 1] [--seconds 8] [--rounds 5] [--json]

Prints a row for each case: the mean step at the worst setting, at the autopilot's setting, and at the best of the grid.
The grid is measured in random order after the autopilot has ended; then its two best settings and the autopilot's are
measured again, interleaved, and `over best` is the autopilot's step over the best of these. `noise`: the autopilot's
over itself, measured twice in every round. `steps`: the autopilot's steps. `added MB`: the most memory added during
the autopilot. `order`: every batch came once and in the order of its source, by a checksum of each step's labels, else
the place of the error. Exits with 1 where an order is broken or a limit exceeded.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import random
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from tests.bench.fed import Case, train
from tfwatch.analysis.tuning.autopilot.autopilot_moves import settling_steps
from tfwatch.analysis.tuning.autopilot.estimator import measure
from tfwatch.analysis.tuning.forecasting.evidence import cores_of
from tfwatch.analysis.tuning.tuner_text import move_line
from tfwatch.core.events import AutopilotEnded, MoveJudged
from tfwatch.core.knobs import Knobs, as_value
from tfwatch.runs.control.requests import Autopilot, Control
from tfwatch.tuner import autopilot
from tfwatch.tuner.driver import Driver, Interrupt

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

    from tfwatch.runs.writer import RunWriter

    Key: TypeAlias = tuple[tuple[str, str], ...]

CASES = (
    Case("cnn", workload="cnn", knobs=Knobs(latency_ms=20.0)),
    Case("cnn, no latency", workload="cnn"),
    Case("generator", workload="generator"),
    Case("loader, 16 ms", example_ms=2.0),
    Case("storage, 40 ms", Knobs(latency_ms=40.0), example_ms=0.3),
    Case("form, 16 to 2 ms", example_ms=2.0, fast_ms=2.0),
)
#: The number of best settings of the grid that are measured again.
BEST = 2
#: A setting is measured no longer where its first steps are this much slower than the best so far.
FEW, FAR = 8, 1.5


@dataclass(frozen=True)
class Stretch:
    """The length of a measurement: a machine's speed varies over more than 24 steps of 1 ms."""

    steps: int
    least_ns: float
    most_ns: float


#: For a setting of the grid, and for one that is measured again.
ONCE, AGAIN = Stretch(24, 0.3e9, 2e9), Stretch(60, 1e9, 3e9)


@dataclass(frozen=True)
class Result:
    """The result of one case; times are ms/step."""

    case: str
    worst_ms: float
    reached_ms: float
    best_ms: float
    over_best: float
    noise: float
    steps: int
    limit_mb: float
    added_mb: float
    broken: str
    batches: int
    reached: dict[str, str]
    best: dict[str, str]
    cause: str
    reason: str
    moves: list[str]
    grid: dict[str, float]
    took_s: float


class Conductor:
    """Runs the autopilot, then measures the grid."""

    def __init__(self, case: Case, memory_bytes: float, seconds: float, rounds: int) -> None:
        self.found: dict[str, Any] = {}
        self._case = case
        self._memory = memory_bytes
        self._seconds = seconds
        self._rounds = rounds
        self._random = random.Random(5)

    def __call__(self, writer: RunWriter, control: Control) -> None:
        driver = Driver(
            writer, control, writer.event, control.tuner_request_count, refresh=writer.flush
        )
        autopilot.run(driver, Autopilot(self._memory))
        driver.wait(lambda snapshot: bool(snapshot.events.of(AutopilotEnded)))
        (ended,) = driver.snapshot.events.of(AutopilotEnded)
        judged = driver.snapshot.events.of(MoveJudged)
        try:
            measured = self._grid(driver, ended.knobs)
        except Interrupt as over:
            raise RuntimeError(
                f"the training ended before its grid was measured: {over.cause}"
            ) from over
        self.found = {"ended": ended, "judged": judged, **measured}

    def _grid(self, driver: Driver, reached: Mapping[str, str]) -> dict[str, Any]:
        known: dict[Key, float] = {}
        settings = list(self._settings(driver))
        self._random.shuffle(settings)
        until_ns = driver.now_ns() + self._seconds * 1e9
        for setting in settings:
            if driver.now_ns() < until_ns:
                known[_key(setting)] = self._measure(
                    driver, setting, ONCE, min(known.values(), default=math.inf)
                )
        mine = {knob: reached[knob] for knob in self._case.turns}
        best = [dict(key) for key in sorted(known, key=lambda key: known[key])[:BEST]]
        once_more, steps = self._again(driver, mine, best)
        winner = min(steps, key=lambda key: steps[key])
        return {
            "mine": mine,
            "mine_ms": steps[_key(mine)],
            "noise": once_more / steps[_key(mine)],
            "best": dict(winner),
            "best_ms": steps[winner],
            "grid": {_words(dict(key)): ms for key, ms in known.items()},
        }

    def _again(
        self, driver: Driver, mine: dict[str, str], best: list[dict[str, str]]
    ) -> tuple[float, dict[Key, float]]:
        """Measure settings again, interleaved: ms/step of the autopilot's setting once more, and of each setting."""
        more: list[float] = []
        again: dict[Key, list[float]] = {}
        for _ in range(self._rounds):
            places = [
                (mine, more),
                *((one, again.setdefault(_key(one), [])) for one in [mine, *best]),
            ]
            for setting, times in self._random.sample(places, k=len(places)):
                times.append(self._measure(driver, setting, AGAIN))
        return median(more), {key: median(times) for key, times in again.items()}

    def _settings(self, driver: Driver) -> list[dict[str, str]]:
        cores = cores_of(driver.snapshot.manifest)
        values = {
            "prefetch": ("off", "1", "4", "16"),
            "workers": (
                "off",
                *dict.fromkeys((str(max(cores // 4, 2)), str(cores), str(4 * cores))),
            ),
            "fast_pipeline": ("off", "on"),
        }
        turned = self._case.turns
        return [
            dict(zip(turned, chosen, strict=True))
            for chosen in itertools.product(*(values[k] for k in turned))
        ]

    def _measure(
        self, driver: Driver, setting: Mapping[str, str], long: Stretch, best_ms: float = math.inf
    ) -> float:
        """Return the mean of the steady steps of a setting, of fewer steps where it is far from the best."""
        changed = {
            knob: value for knob, value in setting.items() if driver.setting_of(knob) != value
        }
        for knob, value in changed.items():
            driver.ask(knob, as_value(knob, value), "code")
        driver.wait(
            lambda _: all(driver.setting_of(knob) == value for knob, value in changed.items())
        )
        first = driver.snapshot.steps_total + settling_steps(setting)
        driver.wait(lambda snapshot: snapshot.steps_total >= first + FEW)
        few = measure(driver.rows(first))
        if few is None or few.step_ms < FAR * best_ms:
            from_ns = driver.now_ns()
            driver.wait(
                lambda snapshot: (
                    driver.now_ns() > from_ns + long.least_ns
                    and (
                        snapshot.steps_total >= first + long.steps
                        or driver.now_ns() > from_ns + long.most_ns
                    )
                )
            )
        found = measure(driver.rows(first))
        assert found, "no steady step"
        return found.step_ms


def run_case(case: Case, memory_bytes: float, seconds: float, rounds: int, folder: Path) -> Result:
    """Run one case."""
    begun_s = time.perf_counter()
    conductor = Conductor(case, memory_bytes, seconds, rounds)
    trained = train(case, folder, conductor)
    found, ended = conductor.found, conductor.found["ended"]
    moves = [move_line(move) for move in found["judged"]]
    return Result(
        case.name,
        ended.before_ms,
        found["mine_ms"],
        found["best_ms"],
        found["mine_ms"] / found["best_ms"],
        found["noise"],
        ended.steps,
        memory_bytes / 2**20,
        (ended.peak_bytes or 0.0) / 2**20,
        trained.broken,
        len(trained.seen),
        found["mine"],
        found["best"],
        ended.cause,
        ended.reason,
        moves,
        found["grid"],
        time.perf_counter() - begun_s,
    )


def print_row(result: Result) -> None:
    """Print a line of the table, and the moves."""
    order = f"BROKEN {result.broken}" if result.broken else f"{result.batches} in order"
    added = f"{result.added_mb:.0f} of {result.limit_mb:.0f}"
    print(
        f"| {result.case} | {result.worst_ms:.1f} | {result.reached_ms:.2f} | {result.best_ms:.2f} "
        f"| {result.over_best:.3f} | {result.noise:.3f} | {result.steps} | {added} | {order} |"
    )
    print(f"    {'; '.join(result.moves)}; {result.cause}: {result.reason}")
    print(f"    kept {_words(result.reached)}; best of the grid {_words(result.best)}", end="")
    print(f"; {len(result.grid)} settings of it measured, {result.took_s:.0f} s in all", flush=True)


def _words(setting: Mapping[str, str]) -> str:
    return ", ".join(f"{knob} {value}" for knob, value in setting.items())


def _key(setting: Mapping[str, str]) -> Key:
    return tuple(setting.items())


def main() -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--cases", default=";".join(case.name for case in CASES), help="separated by semicolons"
    )
    parser.add_argument("--memory-gb", type=float, default=1.0, help="the autopilot's limit (1)")
    parser.add_argument("--seconds", type=float, default=8.0, help="for a case's grid, at most (8)")
    parser.add_argument(
        "--rounds", type=int, default=5, help="of measuring the best settings again (5)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object for each case")
    options = parser.parse_args()
    wanted = [case for case in CASES if case.name in options.cases.split(";")]
    results = []
    if not options.json:
        print(
            "| case | worst ms | reached ms | best ms | over best | noise | steps | added MB | order |"
        )
        print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for case in wanted:
            result = run_case(
                case, options.memory_gb * 2**30, options.seconds, options.rounds, Path(folder)
            )
            results.append(result)
            print(json.dumps(asdict(result)), flush=True) if options.json else print_row(result)
    return 0 if all(not r.broken and r.added_mb <= r.limit_mb for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
