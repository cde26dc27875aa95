"""Whole runs of the workloads with custom loops."""

from __future__ import annotations

import functools
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests import whole
from tests.whole import digest, events_of, generate_arrays, result
from tfwatch.core.errors import BadInputError
from tfwatch.core.events import EpochEnded, PipelineSwitched, TrainingFailed, ValidationEnded
from tfwatch.core.knobs import Knobs
from tfwatch.core.rows import Flag
from tfwatch.runs.control.requests import Control, Scheduled
from tfwatch.runs.writer import RunWriter
from tfwatch.workloads import registry
from tfwatch.workloads.models import array
from tfwatch.workloads.workload import Settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import keras

    from tfwatch.runs.reading.opened import Run
    from tfwatch.training.trainer import Outcome

pytestmark = pytest.mark.tensorflow

CUSTOM_LOOPS = ("cnn-loop", "array")
#: 13 batches of 8 an epoch, the last of them ragged.
EXAMPLES, BATCH, STEPS = 99, 8, 13
SETTINGS = Settings(batch_size=BATCH, epochs=2, seed=7, optimizer="sgd")


@pytest.fixture(autouse=True)
def _few_generated_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    generate_arrays(monkeypatch, EXAMPLES)


def train(
    name: str,
    runs_dir: Path,
    *switches: Scheduled,
    control: Control | None = None,
    settings: Settings = SETTINGS,
) -> tuple[Run, Outcome]:
    return whole.train(name, settings, runs_dir, *switches, control=control)


@pytest.fixture(scope="module")
def unswitched(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """Train a workload without a switch, once for all tests."""

    @functools.cache
    def run(name: str) -> Run:
        return train(name, tmp_path_factory.mktemp("unswitched"))[0]

    return run


def plain_loop(name: str, settings: Settings = SETTINGS) -> tuple[float, str]:
    """Run the same loop without tfwatch; the loss is the last epoch's mean over the examples."""
    import keras

    keras.utils.set_random_seed(settings.seed)
    prepared = registry.load(name).prepare(settings, lambda _: None)
    model: keras.Model = prepared.model()
    assert prepared.loop
    body = prepared.loop(model)
    for _ in range(settings.epochs):
        total = 0.0
        for batch in prepared.pipeline(prepared.source, Knobs()):
            total += float(body.train(batch)["loss"]) * len(batch[1])
    return total / EXAMPLES, digest(model)


@pytest.mark.parametrize("name", CUSTOM_LOOPS)
def test_random_switches_change_no_bit_and_a_plain_loop_gives_the_same(
    name: str, unswitched: Callable[[str], Run], tmp_path: Path
) -> None:
    rng = random.Random(2)
    choices: list[tuple[str, Any]] = [
        *(("prefetch", value) for value in ("off", "default", "auto", 1, 5)),
        *(("workers", value) for value in ("off", "default", "auto", 2)),
        *(("fast_pipeline", value) for value in ("on", "off")),
    ]
    switches = [Scheduled(rng.randrange(2 * STEPS), *rng.choice(choices)) for _ in range(14)]
    switched, outcome = train(name, tmp_path, *switches)
    assert outcome.cause == "finished"
    assert len(events_of(switched, PipelineSwitched)) >= 3
    assert result(switched) == result(unswitched(name)) == plain_loop(name)


@pytest.mark.parametrize("name", CUSTOM_LOOPS)
def test_every_step_has_its_parts_and_every_epoch_its_end(
    name: str, unswitched: Callable[[str], Run]
) -> None:
    run = unswitched(name)
    steps = run.steps
    assert steps["step"].tolist() == list(range(1, 2 * STEPS + 1))
    assert all(
        (steps[part] > 0).all() for part in ("wait_ms", "dispatch_ms", "compute_ms", "host_ms")
    )
    assert (steps["dispatch_ms"] <= steps["compute_ms"]).all()
    assert steps["flags"][0] & (Flag.EPOCH_START | Flag.COMPILE) == Flag.EPOCH_START | Flag.COMPILE
    # The ragged batch is another shape.
    assert np.flatnonzero(steps["flags"] & Flag.RETRACE).tolist() == [STEPS - 1]
    assert np.flatnonzero(steps["flags"] & Flag.EPOCH_START).tolist() == [0, STEPS]
    assert np.flatnonzero(steps["flags"] & Flag.VALIDATION).tolist() == [STEPS - 1, 2 * STEPS - 1]
    first, last = events_of(run, EpochEnded)
    assert len(events_of(run, ValidationEnded)) == 2
    assert set(last.metrics) == {"loss", "accuracy", "val_loss", "val_accuracy"}
    assert last.metrics["loss"] < first.metrics["loss"]
    assert not last.by_keras
    assert run.manifest.split == "exact"


@pytest.mark.parametrize("name", CUSTOM_LOOPS)
def test_op_by_op_python_is_separated_from_operations_and_the_result_is_the_same(
    name: str, unswitched: Callable[[str], Run], tmp_path: Path
) -> None:
    eager = replace(SETTINGS, mode="eager", epochs=1)
    run, _ = train(name, tmp_path, settings=eager)
    steps = run.steps[2:]
    assert run.manifest.op_by_op
    assert (steps["dispatch_ms"] > 0).all()
    assert (steps["dispatch_ms"] < steps["compute_ms"]).all()
    assert not (run.steps["flags"] & (Flag.COMPILE | Flag.RETRACE)).any()
    assert result(run) == plain_loop(name, eager)
    assert not unswitched(name).manifest.op_by_op


def test_a_stop_ends_it_after_the_current_batch_and_skips_validation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control, taken, take = Control(Knobs()), [], array.LoopBody.train

    def train_and_stop(body: array.LoopBody, batch: Any) -> Any:
        taken.append(batch)
        if len(taken) == 5:
            control.stop.set()
        return take(body, batch)

    monkeypatch.setattr(array.LoopBody, "train", train_and_stop)
    run, outcome = train("array", tmp_path, control=control)
    assert (outcome.cause, len(run.steps), len(taken)) == ("stopped", 5, 5)
    assert events_of(run, ValidationEnded) == []


@pytest.mark.parametrize("late", [False, True])
def test_a_stop_before_its_first_batch_trains_nothing(
    late: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the model is built, or later."""
    control, name = Control(Knobs()), "LoopBody" if late else "_model"
    make = getattr(array, name)

    def make_and_stop(given: Any) -> Any:
        control.stop.set()
        return make(given)

    monkeypatch.setattr(array, name, make_and_stop)
    run, outcome = train("array", tmp_path, control=control)
    assert (outcome.cause, outcome.message, len(run.steps)) == ("stopped", "", 0)


def test_an_error_of_a_step_is_recorded_with_its_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = []

    def fail(body: array.LoopBody, batch: Any) -> Any:
        taken.append(batch)
        if len(taken) > 3:
            raise RuntimeError("no such thing")
        return body._model.train_on_batch(*batch, return_dict=True)

    monkeypatch.setattr(array.LoopBody, "train", fail)
    run, outcome = train("array", tmp_path)
    assert (outcome.cause, outcome.message) == ("failed", "RuntimeError: no such thing")
    assert "in fail" in events_of(run, TrainingFailed)[0].traceback
    assert len(run.steps) == 3


def test_a_lost_step_log_affects_only_the_record(
    unswitched: Callable[[str], Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = unswitched("cnn-loop")
    monkeypatch.setattr(RunWriter, "step", lambda *_: 1 / 0)
    lost, outcome = train("cnn-loop", tmp_path)
    assert (outcome.cause, len(lost.steps)) == ("finished", 0)
    assert result(lost) == result(whole)


@pytest.mark.parametrize("name", CUSTOM_LOOPS)
def test_a_loop_runs_one_step_at_a_time(name: str) -> None:
    assert registry.settle(name, {"steps_per_execution": 1}).steps_per_execution == 1
    with pytest.raises(BadInputError, match=f"^{name} takes no --steps-per-execution: .*one step"):
        registry.settle(name, {"steps_per_execution": 2})
