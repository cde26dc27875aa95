"""Compare stock `fit` with a watched one, bit for bit: every model below, over every data, in every
way of stepping.

    python -m tests.bench.kinds [--only PART ...]

PART: of a name, e.g. `attention, generator` or `, exact`. Compared are weights, losses and every
batch's logs, with 50 switches or more of all knobs, one after each call; the last batch is ragged.
Exits with 1 if one differs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.watch import kinds
from tests.watch.fit.test_kinds import train
from tests.watch.kinds import STEPS, Kind
from tfwatch.core.events import PipelineSwitched, SwitchFailed, WatchFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

SWITCHES = 51
JIT = {"jit_compile": True}
#: Models with their inputs and what `compile` gets.
MODELS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "attention": (kinds.attention, kinds.SERIES, {}),
    "recurrent": (kinds.recurrent, kinds.SERIES, {}),
    "normalising": (kinds.normalising, kinds.IMAGES, {}),
    "embedding": (kinds.embedding, kinds.WORDS, {}),
    "mixed precision attention": (partial(kinds.mixed, kinds.attention), kinds.SERIES, {}),
    "mixed precision normalising": (partial(kinds.mixed, kinds.normalising), kinds.IMAGES, {}),
    "XLA attention": (kinds.attention, kinds.SERIES, JIT),
    "XLA normalising": (kinds.normalising, kinds.IMAGES, JIT),
    "XLA grouped": (kinds.grouped, kinds.IMAGES, JIT),
    "XLA mixed precision grouped": (partial(kinds.mixed, kinds.grouped), kinds.IMAGES, JIT),
}
#: Data of the inputs, and the options of `fit`.
DATA: dict[str, tuple[Any, dict[str, Any]]] = {
    "arrays": (kinds.arrays, {"batch_size": kinds.BATCH}),
    "data set": (kinds.known, {}),
    "data set of unknown length": (kinds.unknown, {}),
    "generator": (kinds.python_generator, kinds.BY_STEPS),
    "data set from a generator": (kinds.from_generator, {}),
}
#: Steps of a call.
WAYS: dict[str, dict[str, Any]] = {"1": {}, "3": {"steps_per_execution": 3}}


def matrix() -> Iterator[Kind]:
    """Yield all combinations."""
    for model, (make, inputs, compiled) in MODELS.items():
        for data, (read, options) in DATA.items():
            for way, steps in WAYS.items():
                given: dict[str, Any] = {
                    "options": options,
                    "compile": {**compiled, **steps},
                    "deterministic": not compiled,
                }
                yield Kind(
                    f"{model}, {data}, {way}",
                    partial(read, inputs),
                    model=make,
                    **given,
                )


def lasting(kind: Kind) -> Kind:
    """Return a kind that trains for `SWITCHES` calls, unless it has its own number of epochs."""
    calls = STEPS // kind.compile.get("steps_per_execution", 1)
    return replace(kind, options={"epochs": -(-SWITCHES // calls) + 1, **kind.options})


def compare(kind: Kind) -> str:
    """Return `equal` with the number of switches by knob, or the differences."""
    stock, _ = train(kind)
    with tempfile.TemporaryDirectory() as folder:
        watched, run = train(kind, Path(folder), every=1)
        made = Counter(event.knob for event in run.events.of(PipelineSwitched))
        refused = len(run.events.of(SwitchFailed))
        failures = [event.reason for event in run.events.of(WatchFailed)]
    if failures or run.manifest.not_split:
        return f"DIFFERS: {run.manifest.not_split} {failures}"
    parts = ("weights", "iterations", "losses", "history", "batches")
    unequal = [part for part, one, other in zip(parts, stock, watched, strict=True) if one != other]
    switches = ", ".join(f"{knob} {count}" for knob, count in made.items())
    return (
        f"DIFFERS in {', '.join(unequal)}" if unequal else f"equal: {switches}, refused {refused}"
    )


def main() -> int:
    import tensorflow as tf

    parser = argparse.ArgumentParser(
        description="compare stock fit with a watched one, bit for bit"
    )
    parser.add_argument(
        "--only",
        nargs="*",
        default=[""],
        help="only the combinations whose name holds one of these",
    )
    options = parser.parse_args()
    tf.config.experimental.enable_op_determinism()
    results = []
    for kind in (*kinds.KINDS, *matrix()):
        if any(part in kind.name for part in options.only):
            results.append(compare(lasting(kind)))
            print(f"{kind.name}: {results[-1]}", flush=True)
    equal = sum(result.startswith("equal") for result in results)
    print(f"{equal} of {len(results)} equal")
    return 0 if equal == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
