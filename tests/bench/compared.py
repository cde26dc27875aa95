"""Simulated pairs of runs, compared as `tfwatch compare` does: equal ones are not claimed to
differ, and 3 % is found.

    python -m tests.bench.compared [--pairs 200]

Each kind of noise has a level of its own for each run (standard deviation 1 % unless it says
otherwise). Prints the shares of pairs of equal sides that are claimed to differ, with one, three
and five runs a side, and the share of sides of five runs in which 3 % is found. Exits with 1 where
more than 5 in 100 equal pairs are claimed over all kinds, or fewer than 95 in 100 differences of 3
% are found in ordinary noise.
"""

import sys

from tests.bench.runner import make_parser, print_head, print_row
from tests.run_pairs import Noise, claimed

ORDINARY = ("white", "correlated", "half the level")
NOISES = {
    "white": Noise(),
    "correlated": Noise("correlated 0.5"),
    "half the level": Noise(between=0.005),
    "twice the level": Noise(between=0.02),
    "five times the level": Noise(between=0.05),
    "drift 10 % up or down": Noise("drift 10 %"),
    "random walk 15 %": Noise("random walk 15 %"),
    "bursts": Noise("bursts every 150"),
    "jumps": Noise("jumps every 600"),
    "warm-up of up to 60 steps": Noise(warm_up=60),
    "lengths 100 to 1000": Noise(steps=(100, 1000)),
    "lengths and drift": Noise("drift 10 %", steps=(100, 1000), warm_up=60),
}
SLOWER = 0.03
MOST_CLAIMED, LEAST_FOUND = 0.05, 0.95


def main() -> int:
    """Run the benchmark."""
    parser = make_parser(__doc__)
    parser.add_argument("--pairs", type=int, default=200, help="of each kind of noise")
    pairs = parser.parse_args().pairs
    print_head("noise", "claimed, 1 run a side", "3", "5", "3 % found, 5")
    wrong, found = [], []
    for name, noise in NOISES.items():
        counts = [claimed(noise, runs, pairs) / pairs for runs in (1, 3, 5)]
        seen = claimed(noise, 5, pairs, SLOWER) / pairs
        print_row(name, *(f"{share:.1%}" for share in (*counts, seen)))
        wrong += counts
        found += [seen] if name in ORDINARY else []
    share, seen = sum(wrong) / len(wrong), sum(found) / len(found)
    print(f"claimed {share:.1%} of all equal pairs; found {seen:.1%} of 3 % in ordinary noise")
    return 0 if share <= MOST_CLAIMED and seen >= LEAST_FOUND else 1


if __name__ == "__main__":
    sys.exit(main())
