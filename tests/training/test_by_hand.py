"""Whole runs of the workloads whose loops are written by hand."""

from __future__ import annotations

import functools
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests import whole
from tests.whole import digest, generate_arrays, result, told
from tfwatch import workloads
from tfwatch.core.events import EpochEnded, PipelineSwitched, TrainingFailed, ValidationEnded
from tfwatch.core.knobs import Knobs
from tfwatch.core.rows import Flag
from tfwatch.runs.control import Control
from tfwatch.runs.writer import RunWriter
from tfwatch.training.plan import Scheduled
from tfwatch.workloads import BadInputError, Settings, array

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import keras

    from tfwatch.runs.opened import Run
    from tfwatch.training.trainer import Outcome

pytestmark = pytest.mark.tensorflow

BY_HAND = ("cnn-loop", "array")
#: 26 batches of 8 an epoch, the last of them ragged.
EXAMPLES, BATCH, STEPS = 203, 8, 26
SETTINGS = Settings(batch_size=BATCH, epochs=2, seed=7)


@pytest.fixture(autouse=True)
def _few_generated_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    generate_arrays(monkeypatch, EXAMPLES)


def train(
    name: str, runs_dir: Path, *switches: Scheduled, control: Control | None = None, settings: Settings = SETTINGS
) -> tuple[Run, Outcome]:
    return whole.train(name, settings, runs_dir, *switches, control=control)


@pytest.fixture(scope="module")
def still(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """The run of a workload in which nothing is switched: it is the same in each test, and trains once."""

    @functools.cache
    def run(name: str) -> Run:
        return train(name, tmp_path_factory.mktemp("still"))[0]

    return run


def by_itself(name: str, settings: Settings = SETTINGS) -> tuple[float, str]:
    """The same loop without any of tfwatch's training; the loss is the last epoch's mean over the examples."""
    import keras

    keras.utils.set_random_seed(settings.seed)
    prepared = workloads.load(name).prepare(settings, lambda _: None)
    model: keras.Model = prepared.model()
    assert prepared.loop
    body = prepared.loop(model)
    for _ in range(settings.epochs):
        total = 0.0
        for batch in prepared.pipeline(prepared.source, Knobs()):
            total += float(body.train(batch)["loss"]) * len(batch[1])
    return total / EXAMPLES, digest(model)


@pytest.mark.parametrize("name", BY_HAND)
def test_random_switches_change_no_bit_and_a_plain_loop_gives_the_same(
    name: str, still: Callable[[str], Run], tmp_path: Path
) -> None:
    rng = random.Random(2)
    choices: list[tuple[str, Any]] = [
        *(("prefetch", value) for value in ("off", "default", "auto", 1, 5)),
        *(("workers", value) for value in ("off", "default", "auto", 2)),
        *(("fast_form", value) for value in ("on", "off")),
    ]
    switches = [Scheduled(rng.randrange(2 * STEPS), *rng.choice(choices)) for _ in range(40)]
    switched, outcome = train(name, tmp_path, *switches)
    assert outcome.cause == "finished"
    assert len(told(switched, PipelineSwitched)) >= 3
    assert result(switched) == result(still(name)) == by_itself(name)


@pytest.mark.parametrize("name", BY_HAND)
def test_every_step_has_its_parts_and_every_epoch_its_end(name: str, still: Callable[[str], Run]) -> None:
    run = still(name)
    steps = run.steps
    assert steps["step"].tolist() == list(range(1, 2 * STEPS + 1))
    assert all((steps[part] > 0).all() for part in ("wait_ms", "dispatch_ms", "compute_ms", "host_ms"))
    assert (steps["dispatch_ms"] <= steps["compute_ms"]).all()
    assert steps["flags"][0] & (Flag.EPOCH_START | Flag.COMPILE) == Flag.EPOCH_START | Flag.COMPILE
    # The ragged batch is another shape.
    assert np.flatnonzero(steps["flags"] & Flag.RETRACE).tolist() == [STEPS - 1]
    assert np.flatnonzero(steps["flags"] & Flag.EPOCH_START).tolist() == [0, STEPS]
    assert np.flatnonzero(steps["flags"] & Flag.VALIDATION).tolist() == [STEPS - 1, 2 * STEPS - 1]
    first, last = told(run, EpochEnded)
    assert len(told(run, ValidationEnded)) == 2
    assert set(last.metrics) == {"loss", "accuracy", "val_loss", "val_accuracy"}
    assert last.metrics["loss"] < first.metrics["loss"]
    assert not last.by_keras
    assert run.manifest.split == "exact"


@pytest.mark.parametrize("name", BY_HAND)
def test_op_by_op_python_is_told_from_the_operations_and_nothing_changes(
    name: str, still: Callable[[str], Run], tmp_path: Path
) -> None:
    eager = replace(SETTINGS, mode="eager", epochs=1)
    run, _ = train(name, tmp_path, settings=eager)
    steps = run.steps[2:]
    assert run.manifest.op_by_op
    assert (steps["dispatch_ms"] > 0).all()
    assert (steps["dispatch_ms"] < steps["compute_ms"]).all()
    assert not (run.steps["flags"] & (Flag.COMPILE | Flag.RETRACE)).any()
    assert result(run) == by_itself(name, eager)
    assert not still(name).manifest.op_by_op


def test_an_epoch_of_unknown_length_ends_with_its_data(
    still: Callable[[str], Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = still("array")
    prepare = array.prepare
    monkeypatch.setattr(array, "prepare", lambda *asked: replace(prepare(*asked), steps_per_epoch=None))
    run, outcome = train("array", tmp_path)
    assert (outcome.cause, len(run.steps), len(told(run, EpochEnded))) == ("finished", 2 * STEPS, 2)
    assert result(run) == result(whole)


def test_a_stop_ends_it_after_the_batch_in_flight_and_leaves_validation_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control, taken, take = Control(Knobs()), [], array.Body.train

    def train_and_stop(body: array.Body, batch: Any) -> Any:
        taken.append(batch)
        if len(taken) == 5:
            control.stop.set()
        return take(body, batch)

    monkeypatch.setattr(array.Body, "train", train_and_stop)
    run, outcome = train("array", tmp_path, control=control)
    assert (outcome.cause, len(run.steps), len(taken)) == ("stopped", 5, 5)
    assert told(run, ValidationEnded) == []


@pytest.mark.parametrize("late", [False, True])
def test_a_stop_before_its_first_batch_is_no_empty_data_set(
    late: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the model is built, or later."""
    control, name = Control(Knobs()), "Body" if late else "_model"
    make = getattr(array, name)

    def make_and_stop(given: Any) -> Any:
        control.stop.set()
        return make(given)

    monkeypatch.setattr(array, name, make_and_stop)
    run, outcome = train("array", tmp_path, control=control)
    assert (outcome.cause, outcome.message, len(run.steps)) == ("stopped", "", 0)


def test_what_a_step_raises_is_told_with_its_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []

    def fail(body: array.Body, batch: Any) -> Any:
        taken.append(batch)
        if len(taken) > 3:
            raise RuntimeError("no such thing")
        return body._model.train_on_batch(*batch, return_dict=True)

    monkeypatch.setattr(array.Body, "train", fail)
    run, outcome = train("array", tmp_path)
    assert (outcome.cause, outcome.message) == ("failed", "RuntimeError: no such thing")
    assert "in fail" in told(run, TrainingFailed)[0].traceback
    assert len(run.steps) == 3


def test_books_that_are_lost_cost_the_record_alone(
    still: Callable[[str], Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = still("cnn-loop")
    monkeypatch.setattr(RunWriter, "step", lambda *_: 1 / 0)
    lost, outcome = train("cnn-loop", tmp_path)
    assert (outcome.cause, len(lost.steps)) == ("finished", 0)
    assert result(lost) == result(whole)


@pytest.mark.parametrize("name", BY_HAND)
def test_a_loop_runs_one_step_at_a_time(name: str) -> None:
    assert workloads.settle(name, {"steps_per_execution": 1}).steps_per_execution == 1
    with pytest.raises(BadInputError, match=f"^{name} takes no --steps-per-execution: .*one step"):
        workloads.settle(name, {"steps_per_execution": 2})
