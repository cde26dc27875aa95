"""Pipelines drawn at random, with and without live switches: whether each element is equal.

Prints the pipelines of the seeds whose elements differ, and how many a switch of each knob took
effect in. The options are those of `tests/bench/numbered.py`.
"""

import os
import sys
from collections.abc import Callable

from tests.bench.numbered import Result, run_trials

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

#: Every so many seeds, Keras' own `fit` trains, as in `tests/tfdata/test_grammar.py`.
_FITTED = 20


def make_trial() -> Callable[[int], Result]:
    """Return the function of a trial."""
    from tests.tfdata import grammar

    def try_seed(seed: int) -> Result:
        trial = grammar.draw(seed)
        train = grammar.trained if seed % _FITTED else grammar.fitted
        why, outcome = grammar.difference(trial, train)
        failure = f"{trial}\n    {why}\n    {outcome.refused}" if why else ""
        return Result(seed, failure, dict.fromkeys(outcome.switched, 1))

    return try_seed


if __name__ == "__main__":
    # 200 seeds take 0.6 GB: the functions that TensorFlow traces stay in a process' memory.
    sys.exit(run_trials("tests.bench.grammar", make_trial, count=200, each=200, most_s=300))
