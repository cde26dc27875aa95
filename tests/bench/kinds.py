"""Compare stock `fit` with a watched one, bit for bit: every kind of `tests/watch/kinds.py`, and
every model below over every data, in every way of stepping.

Compared are weights, losses and every batch's logs: with a switch after each call, of all knobs in
turn; then of each knob that takes effect with 50 switches of it alone. The last batch is ragged.
The options are those of `tests/bench/numbered.py`.
"""

import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import tensorflow as tf

from tests.bench.numbered import Result, run_trials
from tests.watch import kinds
from tests.watch.fit.test_kinds import SWITCHES, train
from tests.watch.kinds import STEPS, Kind
from tfwatch.core.events import PipelineSwitched, WatchFailed
from tfwatch.core.knobs import KNOBS

#: Switches of a training; one of a knob that takes effect with an epoch is asked for in every third
#: epoch, and any other after every second call.
COUNT, WANTED, EPOCHS, CALLS = 55, 50, 3, 2
PARTS = ("weights", "iterations", "losses", "history", "batches")
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
    for (model, one), (data, two), (way, steps) in product(
        MODELS.items(), DATA.items(), WAYS.items()
    ):
        make, inputs, compiled = one
        read, options = two
        yield Kind(
            f"{model}, {data}, {way}",
            partial(read, inputs),
            options=options,
            model=make,
            compile={**compiled, **steps},
            deterministic=not compiled,
        )


class Comparison:
    """A kind of `fit`, as stock and watched."""

    def __init__(self, kind: Kind) -> None:
        self._kind, self._calls = kind, -(-STEPS // kind.compile.get("steps_per_execution", 1))
        self._stock: dict[int, Any] = {}
        self.counts: Counter[str] = Counter()

    def differences(self) -> Iterator[str]:
        """Yield what differs."""
        yield from self._compare("all knobs", SWITCHES, 1)
        for knob in [name for name in KNOBS if self.counts[name]]:
            of_epochs = KNOBS[knob].epochs or self._kind.name.startswith("PyDataset")
            every = self._calls * EPOCHS if of_epochs else CALLS
            yield from self._compare(knob, [one for one in SWITCHES if one[0] == knob], every)

    def _compare(self, name: str, switches: Sequence[tuple[str, Any]], every: int) -> Iterator[str]:
        kind = self._lasting(COUNT * every)
        epochs = kind.options["epochs"]
        if epochs not in self._stock:
            self._stock[epochs] = train(kind)[0]
        with tempfile.TemporaryDirectory() as folder:
            watched, run = train(kind, Path(folder), every, switches)
            made = Counter(event.knob for event in run.events.of(PipelineSwitched))
            lost = [run.manifest.not_split, *(one.reason for one in run.events.of(WatchFailed))]
        self.counts += made
        if made[name] < WANTED and name in KNOBS:
            self.counts[f"kinds with fewer switches of {name}"] += 1
        stock = self._stock[epochs]
        unequal = [part for part, a, b in zip(PARTS, stock, watched, strict=True) if a != b]
        if any(lost) or unequal:
            yield f"{name}: {unequal} {lost}"

    def _lasting(self, calls: int) -> Kind:
        """Return the kind for so many calls of the train function."""
        epochs = -(-calls // self._calls) + 1
        kind = replace(self._kind, options={**self._kind.options, "epochs": epochs})
        if kind.callbacks is kinds.early_stopping:
            return replace(kind, callbacks=partial(kinds.early_stopping, epochs - 2))
        return kind


def make_trial() -> Callable[[int], Result]:
    """Return the function of a trial."""
    tf.config.experimental.enable_op_determinism()
    chosen = [*kinds.KINDS, *matrix()]

    def compare(number: int) -> Result:
        compared = Comparison(kind := chosen[number])
        failure = "; ".join(compared.differences())
        return Result(number, f"{kind.name}: {failure}" if failure else "", {**compared.counts})

    return compare


if __name__ == "__main__":
    count = len([*kinds.KINDS, *matrix()])
    sys.exit(run_trials("tests.bench.kinds", make_trial, count=count, each=4, most_s=900))
