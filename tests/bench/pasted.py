"""Is a live setting the line that a user pastes, and what does Watch cost? By kinds of data.

    python -m tests.bench.pasted OUT [--minutes 10] [--kinds naive arrays] [--batches 64]
    python -m tests.bench.pasted OUT --mode hand       lines pasted together, beside bare
    python -m tests.bench.pasted OUT --mode autopilot  what the autopilot reaches, and its lines
    python -m tests.bench.pasted OUT --mode noise      are differences found, and none claimed?

Trains for so many minutes, in rounds, then prints a table of all rounds in OUT; with 0 minutes it
prints alone. In each round, in turn: bare, with Watch, and for each line switched live and back,
and pasted into the bare script. For each kind, batch and line: medians over the rounds of step and
copy, ms, as written, live, back, pasted; and ratios, each the mean of those of the rounds with its
interval of 95 %: live over pasted, back over written, Watch over bare, and one bare fit over the
other. One fit differs from the next by several percent, so a ratio is of two fits of one round, and
many rounds count. It exits with 1 where a whole interval is above 1.03.

In the mode `autopilot` a script trains under `tfwatch run --autopilot`; then, with its steps live,
come bare fits as written, with the lines by hand, and with those that the autopilot reached. The
folder of its run stays in OUT/runs.

In the mode `noise` the fits are long, and the steps that Watch recorded stay in OUT. A try cuts a
stretch out of one at random, and takes a constant data wait from its second half, or from every
other part of it where the setting is switched back and forth, or from parts in random order as an
A/B test has them. The stretches of the tries overlap: a fit has three of 800 steps. Printed is the
share of tries that are claimed faster or slower, after so many steps of each setting, at the last
look and at any look: of every 20 steps, after each switch, or after each round. A switch is judged
as one of prefetch, whose parts of a step decide, and as one of a knob that can move all of them.
"""

import argparse
import math
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from itertools import count, product
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

import numpy as np

from tests.bench import pasted_fits
from tests.bench.pasted_fits import (
    HANDS,
    LINES,
    OF_ARRAYS,
    Fit,
    arrays_of,
    fit_arguments,
    make_model,
    part_of,
)
from tests.bench.runner import (
    Rows,
    make_parser,
    print_head,
    print_row,
    run_tfwatch,
)
from tfwatch.core.events import AutopilotEnded, PipelineSwitched
from tfwatch.core.knobs import DEFAULT, DEVICE_PREFETCH, OFF, PINNED, PREFETCH, WORKERS
from tfwatch.core.rows import step_ms
from tfwatch.judge.effects.comparison import measure_effect
from tfwatch.judge.effects.interval import Estimate, t_quantile
from tfwatch.judge.steps.steady_steps import steady
from tfwatch.runs.run import open_run
from tfwatch.tuner.experiment import BLOCK, BLOCK_MS, LEAST_ROUNDS, block_means, evaluate

#: A live setting costs at most this ratio of the pasted line.
_MOST = 1.03
#: Steps of a script with the autopilot; at the end so many, once it holds its settings, count. The
#: order in which lines are pasted.
_PILOT_STEPS, _REACHED = 2500, 300
_ORDER = (WORKERS, PINNED, PREFETCH, DEVICE_PREFETCH)
#: Steps of a fit whose noise is recorded; tries, and steps between two looks.
_NOISE_STEPS, _TRIES, _LOOK, _SETTLE = 3000, 300, 20, 50
#: Steps of each setting, how much faster the second one is, and how often it is switched to; none:
#: the A/B test switches.
_NOISE_CASES = (
    (100, 1.0, 1),
    (400, 1.0, 1),
    (100, 1.2, 1),
    (400, 1.05, 1),
    (400, 1.0, 8),
    (400, 1.05, 8),
    (1400, 1.0, None),
    (1400, 1.05, None),
)


# -- the trainings --------------------------------------------------------------------------------


class Program:
    """The trainings of some kinds of data, in rounds."""

    def __init__(self, options: argparse.Namespace, rows: Rows) -> None:
        self._options, self._rows = options, rows
        self._until_s = time.monotonic() + 60 * options.minutes
        self._models: dict[str, Any] = {}
        self._arrays: dict[int, Any] = {}

    def run(self) -> None:
        """Train in rounds until the time is over."""
        train = getattr(self, f"_{self._options.mode}")
        kinds, batches = self._options.kinds, self._options.batches
        done = [row["round"] for row in self._rows.read() if row["kind"] in kinds]
        for number in count(1 + max(done, default=-1)):
            for kind in kinds:
                if time.monotonic() > self._until_s:
                    return
                train(kind, batches[number % len(batches)], number)

    def _fits(self, kind: str, batch: int, number: int) -> None:
        arms: list[tuple[str, str]] = [("bare", ""), ("watch", ""), ("bare", ""), ("watch", "")]
        for line in LINES[kind]:
            arms += [("live", line), ("pasted", line)]
        for arm, line in arms if number % 2 == 0 else arms[::-1]:
            is_live = arm == "live"
            live = {"watch": "", "live": line}.get(arm)
            steps = part_of(batch) * (3 if is_live else 1)
            done = self._fit(kind, batch, steps, (line,) if arm == "pasted" else (), live)
            self._add(kind, batch, number, arm=arm, line=line, **done.row(is_live=is_live))

    def _hand(self, kind: str, batch: int, number: int) -> None:
        arms = [(), *HANDS[kind]]
        for lines in arms if number % 2 == 0 else arms[::-1]:
            done = self._fit(kind, batch, part_of(batch), lines, None)
            self._add(kind, batch, number, line=" ".join(lines), **done.row())

    def _autopilot(self, kind: str, batch: int, number: int) -> None:
        folder = self._options.out / "runs" / f"{kind}-{batch}-{number}"
        reached, step_ms, why = _with_autopilot(kind, batch, folder)
        row = {"line": " ".join(reached), "all": [step_ms, None], "why": why}
        self._add(kind, batch, number, arm="live", **row)
        arms = [("as written", ()), *(("by hand", one) for one in HANDS[kind]), ("pasted", reached)]
        for arm, lines in arms:
            done = self._fit(kind, batch, part_of(batch), lines, None)
            self._add(kind, batch, number, arm=arm, line=" ".join(lines), **done.row())

    def _noise(self, kind: str, batch: int, number: int) -> None:
        done = self._fit(kind, batch, _NOISE_STEPS, (), "")
        name = f"steps-{kind}-{batch}-{number}.npy"
        np.save(self._options.out / name, done.rows, allow_pickle=False)
        self._add(kind, batch, number, steps=name)

    def _fit(
        self, kind: str, batch: int, steps: int, lines: tuple[str, ...], live: str | None
    ) -> Fit:
        dtype = "uint8" if kind == "uint8" else "float32"
        if dtype not in self._models:
            self._models[dtype] = make_model(dtype)
        if kind in OF_ARRAYS and batch not in self._arrays:
            self._arrays[batch] = arrays_of(batch)
        given = fit_arguments(kind, batch, steps, lines, self._arrays.get(batch))
        return Fit(self._models[dtype], given, live, part_of(batch))

    def _add(self, kind: str, batch: int, number: int, **row: Any) -> None:
        self._rows.add({"kind": kind, "batch": batch, "round": number, **row})


def _with_autopilot(kind: str, batch: int, folder: Path) -> tuple[tuple[str, ...], float, str]:
    """Return the settings that the autopilot reaches in a script, its step then, ms, and why it
    ends. folder: of its run."""
    words = ("run", "--headless", "--autopilot", "--allow", "random-draws")
    environ = {"TFWATCH_RUNS_DIR": str(folder), "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
    script = (Path(pasted_fits.__file__), kind, str(batch), str(_PILOT_STEPS))
    run_tfwatch(*words, *script, environ=environ)
    (path,) = (one.parent for one in folder.glob("*/run.json"))
    run = open_run(path)
    step_ms = np.diff(run.steps["start_ns"][-_REACHED:]) / 1e6
    (ended,) = run.events.of(AutopilotEnded)
    settings = {one.knob: one.new for one in run.events.of(PipelineSwitched)}
    kept = {knob: settings.get(knob, DEFAULT) for knob in _ORDER}
    lines = (f"{knob}={value}" for knob, value in kept.items() if value not in (DEFAULT, OFF))
    return tuple(lines), float(np.median(step_ms)), ended.reason


# -- the tables -----------------------------------------------------------------------------------


def _mean(ratios: Sequence[float]) -> Estimate | None:
    """Return the mean of the ratios of some rounds, on the logarithm, with its interval of 95 %;
    None below two rounds."""
    if len(ratios) < 2:
        return None
    logs, count = [math.log(one) for one in ratios], len(ratios)
    at, half = mean(logs), t_quantile(0.975, count - 1) * stdev(logs) / math.sqrt(count)
    return Estimate(*map(math.exp, (at, at - half, at + half)))


def _text(found: Estimate | None) -> str:
    return f"{found.ratio:.3f} ({found.low:.3f} to {found.high:.3f})" if found else "n/a"


def _ratio(rows: Sequence[dict[str, Any]], over: str, under: str) -> Estimate | None:
    """Return the ratio of two arms, each with the part of its fits."""
    of = [_steps(rows, *side.split()) for side in (over, under)]
    return _mean([mean(of[0][at]) / mean(of[1][at]) for at in of[0] if at in of[1]])


def _of_equal(rows: Sequence[dict[str, Any]]) -> Estimate | None:
    """Return the ratio of the two bare fits of each round."""
    pairs = [found for found in _steps(rows, "bare", "all").values() if len(found) == 2]
    return _mean([first / second for first, second in pairs])


def _steps(rows: Sequence[dict[str, Any]], arm: str, part: str) -> dict[int, list[float]]:
    """Return the median step of each fit of a round."""
    steps = defaultdict(list)
    for row in rows:
        if row["arm"] == arm:
            steps[row["round"]].append(row[part][0])
    return steps


def _figures(rows: Sequence[dict[str, Any]], part: str) -> str:
    """Return the medians of step and copy."""
    found = [row[part] for row in rows if part in row]
    copies = [copy for _, copy in found if copy is not None]
    copy = f", {median(copies):.2f}" if copies else ""
    return f"{median(step for step, _ in found):.2f}{copy}" if found else "n/a"


def print_table(rows: Sequence[dict[str, Any]]) -> bool:
    """Print all rounds; return whether the interval of a ratio is above the most."""
    is_bad = False
    columns = ("written", "live", "back", "pasted", "live/pasted", "back/written", "most pause")
    print_head("data, batch", "line", *columns, "not switched")
    for kind, batch, line in sorted({(row["kind"], row["batch"], row["line"]) for row in rows}):
        key = kind, batch, line
        own = [row for row in rows if (row["kind"], row["batch"], row["line"]) == key]
        if not line:
            watch = _text(_ratio(own, "watch all", "bare all"))
            print_row(f"{kind}, {batch}", "Watch over bare", watch)
            print_row(f"{kind}, {batch}", "bare over bare", _text(_of_equal(own)))
            continue
        over = _ratio(own, "live live", "pasted all"), _ratio(own, "live back", "live written")
        is_bad = is_bad or any(one and one.low > _MOST for one in over)
        live = [row for row in own if row["arm"] == "live"]
        pause = f"{max(row['pause_ms'] for row in live):.0f} ms" if live else "n/a"
        failed = ["; ".join(row["failed"]) for row in live if row["switched"] != 2]
        parts = (_figures(own, part) for part in ("written", "live", "back", "all"))
        print_row(f"{kind}, {batch}", line, *parts, *map(_text, over), pause, *failed[:1])
    return is_bad


def print_hands(rows: Sequence[dict[str, Any]]) -> None:
    """Print the steps of the lines pasted by hand."""
    print_head("data, batch", "lines", "step, ms")
    for kind, batch, line in sorted({(row["kind"], row["batch"], row["line"]) for row in rows}):
        key = kind, batch, line
        own = [row for row in rows if (row["kind"], row["batch"], row["line"]) == key]
        print_row(f"{kind}, {batch}", line or "bare", _figures(own, "all"))


def print_reached(rows: Sequence[dict[str, Any]]) -> None:
    """Print the steps beside what the autopilot reached: the median of the rounds, ms."""
    columns = ("as written", "by hand", "live", "pasted")
    print_head("data, batch", *columns, "live/pasted", "pasted/by hand", "reached")
    for kind, batch in sorted({(row["kind"], row["batch"]) for row in rows}):
        own = [row for row in rows if (row["kind"], row["batch"]) == (kind, batch)]
        ms = {arm: _best(own, arm) for arm in columns}
        ratios = ms["live"] / ms["pasted"], ms["pasted"] / ms["by hand"]
        lines = {row["line"] or row["why"] for row in own if row["arm"] == "live"}
        print_row(
            f"{kind}, {batch}",
            *(f"{one:.2f}" for one in (*ms.values(), *ratios)),
            "; ".join(sorted(lines)),
        )


def _best(rows: Sequence[dict[str, Any]], arm: str) -> float:
    """Return the step of the fastest lines of an arm: the median of the rounds."""
    by_line: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row["arm"] == arm:
            by_line[row["line"] if arm == "by hand" else ""].append(row["all"][0])
    return min(map(median, by_line.values()))


def print_noise(rows: Sequence[dict[str, Any]], folder: Path) -> None:
    """Print the share of claims in the noise of each fit."""
    rng = np.random.default_rng(0)
    columns = ("steps of each", "switches", "faster", "at the end", "at any look")
    print_head("data", "step, ms", "judged as", *columns)
    for row in rows:
        steps = np.load(folder / row["steps"], allow_pickle=False)[_SETTLE:]
        typical = f"{np.median(step_ms(steps)):.2f}"
        for (side, faster, switches), knob in product(_NOISE_CASES, (PREFETCH, DEVICE_PREFETCH)):
            if switches is None and knob != PREFETCH:
                continue  # an A/B test judges whole steps
            tries = [_claims(steps, side, faster, switches, knob, rng) for _ in range(_TRIES)]
            shares = (f"{share:.1%}" for share in np.mean(tries, axis=0))
            how = (knob, side, switches) if switches else ("A/B test", side, "n/a")
            print_row(row["kind"], typical, *how, f"{faster} x", *shares)


def _claims(
    steps: Any,
    side: int,
    faster: float,
    switches: int | None,
    knob: str,
    rng: np.random.Generator,
) -> tuple[bool, bool]:
    """Return whether a stretch is claimed to differ at its end, and at any look."""
    first = int(rng.integers(len(steps) - 2 * side + 1))
    stretch = steps[first : first + 2 * side].copy()
    more_ms = (faster - 1) * float(np.median(step_ms(steps)))
    if switches is None:
        answers = _tested(stretch, more_ms, rng)
    else:
        answers = _switched(np.split(stretch, 2 * switches), more_ms, knob)
    are_claims = [answer in ("faster", "slower") for answer in answers]
    return are_claims[-1], any(are_claims)


def _switched(parts: list[Any], more_ms: float, knob: str) -> list[str]:
    """Return the answers about switches back and forth at all looks."""
    for part in parts[::2]:
        part["wait_ms"] += more_ms
    *before, last = parts
    looks = (
        [parts[:until] for until in range(2, len(parts) + 1, 2)]
        if len(parts) > 2
        else [[*before, last[:until]] for until in range(60, len(last) + 1, _LOOK)]
    )
    effects = (measure_effect([*map(steady, look)], [knob], accelerated=True) for look in looks)
    return [effect.estimate.answer if effect else "unclear" for effect in effects]


def _tested(stretch: Any, more_ms: float, rng: np.random.Generator) -> list[str]:
    """Return the answers of an A/B test after each round."""
    steps = step_ms(stretch).astype(float)
    block = max(BLOCK, round(BLOCK_MS / float(np.median(steps))))
    rounds = len(steps) // (2 * block)
    blocks = steps[: 2 * rounds * block].reshape(rounds, 2, block)
    times = rng.permuted(np.arange(2 * rounds).reshape(rounds, 2), axis=1) % 2
    sides = [[one[at] for one, at in zip(blocks, times[:, side], strict=True)] for side in (0, 1)]
    sides[0] = [one + more_ms for one in sides[0]]
    means = block_means(sides)
    return [evaluate(means[:count])[0].answer for count in range(LEAST_ROUNDS, rounds + 1)]


def main() -> int:
    """Train, and print the table."""
    parser = make_parser(__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--kinds", nargs="*", default=[*LINES], choices=LINES)
    parser.add_argument("--batches", nargs="*", type=int, default=[64])
    parser.add_argument("--mode", choices=["fits", "hand", "autopilot", "noise"], default="fits")
    options = parser.parse_args()
    rows = Rows(options.out / f"{options.mode}.jsonl")
    Program(options, rows).run()
    match options.mode:
        case "hand":
            print_hands(rows.read())
        case "autopilot":
            print_reached(rows.read())
        case "noise":
            print_noise(rows.read(), options.out)
        case _:
            return int(print_table(rows.read()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
