"""Before/afters of simulated switches: equal settings are not claimed to differ, and 10 % is found.

    python -m tests.bench.before_after [--switches 200] [--seed 0] [--json]

Simulates the steps of one setting with each kind of noise of `tests/step_noise.py`: 600 steps
before a switch and up to 600 after it. Prints for each kind the share of switches that are claimed
though nothing changed, after 300 and after 600 steps and at any look, every 10 steps from 60 to
600; that of equal data waits of this noise that are claimed to differ at any look; the share of
true differences of 10 % that are found after 300 and after 600; and the median half width of the
interval after 300. Exits with 1 where more than 5 in 100 of all equal switches are claimed at any
look, or less than 95 in 100 of the differences in ordinary noise are found after 300 steps.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from tests.step_noise import NOISE, ORDINARY, noisy_steps
from tfwatch.judge.effects.before_after import compare_sides, compare_waits

if TYPE_CHECKING:
    from numpy.typing import NDArray

BEFORE = 600
LOOKS = range(60, 601, 10)
EFFECT = 1.1
MOST_CLAIMED, LEAST_FOUND = 0.05, 0.95
_CLAIMS = ("faster", "slower")


@dataclass(frozen=True)
class Result:
    """One kind of noise, as shares of its switches. half_width: of the log ratio, the median after
    300 steps."""

    noise: str
    claimed_300: float
    claimed_600: float
    claimed_at_any_look: float
    waits_claimed_at_any_look: float
    found_300: float
    found_600: float
    half_width: float

    @property
    def line(self) -> str:
        """The kind in one line."""
        claimed = f"{self.claimed_300:6.1%} {self.claimed_600:6.1%} {self.claimed_at_any_look:6.1%}"
        waits = f"{self.waits_claimed_at_any_look:6.1%}"
        found = f"{self.found_300:6.1%} {self.found_600:6.1%}"
        return f"{self.noise:22} {claimed}   {waits}   {found}   {self.half_width:6.1%}"


def simulate(kind: str, switches: int, seed: int) -> Result:
    """Simulate the switches of one kind of noise."""
    source, source_of_waits = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    claimed: dict[int, list[bool]] = {look: [] for look in LOOKS}
    found: dict[int, list[bool]] = {300: [], 600: []}
    widths, waits_claimed = [], []
    for _ in range(switches):
        steps = noisy_steps(kind, BEFORE + LOOKS[-1], source)
        before, after = steps[:BEFORE], steps[BEFORE:]
        for look, answers in claimed.items():
            answers.append(compare_sides(before, after[:look]).answer in _CLAIMS)
        for look, answers in found.items():
            answers.append(compare_sides(before, after[:look] / EFFECT).answer == "faster")
        widths.append(_half_width(before, after[:300]))
        waits = noisy_steps(kind, BEFORE + LOOKS[-1], source_of_waits)
        waits_claimed.append(
            any(
                compare_waits(waits[:BEFORE], waits[BEFORE : BEFORE + look]).is_proved
                for look in LOOKS
            )
        )
    at_any_look = [any(looks) for looks in zip(*claimed.values(), strict=True)]
    return Result(
        noise=kind,
        claimed_300=statistics.mean(claimed[300]),
        claimed_600=statistics.mean(claimed[600]),
        claimed_at_any_look=statistics.mean(at_any_look),
        waits_claimed_at_any_look=statistics.mean(waits_claimed),
        found_300=statistics.mean(found[300]),
        found_600=statistics.mean(found[600]),
        half_width=statistics.median(widths),
    )


def _half_width(before: NDArray[np.float64], after: NDArray[np.float64]) -> float:
    found = compare_sides(before, after)
    return math.log(found.high / found.low) / 2


def is_good(results: list[Result]) -> bool:
    """Return True where these shares are within the limits that tfwatch documents."""
    claimed = max(
        statistics.mean(one.claimed_at_any_look for one in results),
        statistics.mean(one.waits_claimed_at_any_look for one in results),
    )
    found = statistics.mean(one.found_300 for one in results if one.noise in ORDINARY)
    return claimed <= MOST_CLAIMED and found >= LEAST_FOUND


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--switches", type=int, default=200, help="of each kind of noise")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    results = []
    if not args.json:
        print(
            f"{'':22} {'claimed: 300':>13} {'600':>6} {'any':>6}   {'waits':>6}   {'found':>6}"
            f" {'600':>6}   half width",
            flush=True,
        )
    for kind in NOISE:
        results.append(simulate(kind, args.switches, args.seed))
        if not args.json:
            print(results[-1].line, flush=True)
    if args.json:
        print(json.dumps([asdict(one) for one in results], indent=1))
    return 0 if is_good(results) else 1


if __name__ == "__main__":
    sys.exit(main())
