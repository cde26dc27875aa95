"""For every kind of `fit`, with Watch and switches of its pipeline, the result is that of `fit`
without Watch."""

import functools
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.keras_fixtures import as_on_a_gpu, compile_built, determinism, fingerprint
from tests.watch.kinds import KINDS, Kind
from tfwatch import Watch
from tfwatch.core.events import PipelineSwitched, WatchFailed
from tfwatch.runs.run import open_run
from tfwatch.runs.snapshot import Snapshot

pytestmark = pytest.mark.tensorflow
#: The kind that is also trained with packed batches.
PACKED = "attention, arrays"


#: The switches of a `fit`, over and over.
SWITCHES: list[tuple[str, Any]] = [
    *(("prefetch", 4), ("workers", 2), ("cache", True), ("prefetch", "off"), ("pinned", True)),
    *(("multiprocessing", True), ("workers", "auto"), ("prefetch", "default"), ("cache", False)),
    *(("device_prefetch", 2), ("workers", "off"), ("prefetch", 1), ("pinned", False)),
    *(("multiprocessing", False), ("device_prefetch", "off"), ("workers", "default")),
]


class Seen:
    """The logs that a callback gets of each batch, and a switch after every so many calls."""

    def __init__(self, watch: Any, every: int, switches: Sequence[tuple[str, Any]]) -> None:
        batches: list[tuple[int, float]] = []
        due = itertools.cycle(switches)

        class Callback(keras.callbacks.Callback):
            calls = 0

            def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
                batches.append((batch, logs["loss"]))
                self.calls += 1
                if watch and self.calls % every == 0:
                    knob, value = next(due)
                    watch.set(**{knob: value})

        self.batches = batches
        self.callback = Callback()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_result_is_the_same_bit_for_bit(kind: Kind, tmp_path: Path) -> None:
    stock = train_stock(kind.name)
    watched, run = train(kind, tmp_path)
    assert watched == stock
    assert run.manifest.split == kind.rows
    assert run.steps["step"].tolist() == list(range(1, kind.steps + 1))
    outcome = [type(event) for event in run.events]
    assert WatchFailed not in outcome
    assert PipelineSwitched in outcome
    fills_the_wall(run)


def test_the_result_is_the_same_with_packed_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for batches that hold more than plain tensors, or under asynchronous execution."""
    (kind,) = (kind for kind in KINDS if kind.name == PACKED)
    stock = train_stock(PACKED)
    monkeypatch.setattr(tf.config.experimental, "get_synchronous_execution", lambda: False)
    watched, _ = train(kind, tmp_path)
    assert watched == stock


@functools.cache
def train_stock(name: str) -> Any:
    """Return the result without Watch."""
    (kind,) = (kind for kind in KINDS if kind.name == name)
    return train(kind)[0]


def train(
    kind: Kind,
    runs_dir: Path | None = None,
    every: int = 3,
    switches: Sequence[tuple[str, Any]] = SWITCHES,
) -> tuple[Any, Any]:
    """Return the result, and the run of the last recorded `fit`; None without Watch.

    every: the calls of the train function between two of the switches, which come over and over.
    """
    keras.utils.set_random_seed(3)
    watch = Watch(runs_dir) if runs_dir else None
    seen = Seen(watch, every, switches)
    callbacks = [*kind.callbacks(), *([watch] if watch else []), seen.callback]
    with determinism(kind.deterministic), as_on_a_gpu():
        model = kind.model()
        if kind.built:
            compile_built(
                model, kind.optimizer, metrics=[keras.metrics.MeanAbsoluteError()], **kind.compile
            )
        else:
            model.compile(kind.optimizer, "mse", metrics=["mae"], **kind.compile)
        history = kind.fit(model, kind.data(), kind.options, callbacks)
    result = (*fingerprint(model, history), history.history, seen.batches)
    keras.backend.clear_session(free_memory=False)
    return result, open_run(watch.run_path or "") if watch else None


def fills_the_wall(run: Snapshot) -> None:
    """wait + compute + host = wall within 0.1 %, in each epoch."""
    for epoch in np.unique(run.steps["epoch"]):
        rows = run.steps[run.steps["epoch"] == epoch]
        total_ms = sum(
            float(rows[f"{part}_ms"][:-1].sum(dtype=np.float64))
            for part in ("wait", "compute", "host")
        )
        assert total_ms == pytest.approx(
            (int(rows["start_ns"][-1]) - int(rows["start_ns"][0])) / 1e6, rel=1e-3
        )
        assert (rows["dispatch_ms"] <= rows["compute_ms"]).all()
