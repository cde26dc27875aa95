"""Whole runs, as `tfwatch train` makes them: of cnn on a tiny folder of images, else of matmul."""

from __future__ import annotations

import functools
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.whole import digest, events_of, only, result, train, write_images
from tfwatch.core.events import (
    DatasetReady,
    EpochEnded,
    EpochStarted,
    PipelineSwitched,
    RunEnded,
    SwitchAsked,
    SwitchFailed,
    SwitchMissed,
    TrainingFailed,
    WatchFailed,
)
from tfwatch.core.knobs import Knobs
from tfwatch.runs.control.requests import Control, Request, Scheduled
from tfwatch.runs.reading.reader import RunReader
from tfwatch.runs.reading.streams import FolderSource
from tfwatch.runs.writer import RunWriter
from tfwatch.tfdata.live_switch import SwitchablePipeline
from tfwatch.training import setup
from tfwatch.watch.tensorflow_info import host_device
from tfwatch.workloads.data import numbered_examples
from tfwatch.workloads.models import cnn, matmul
from tfwatch.workloads.workload import Prepared, Settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tfwatch.runs.reading.opened import Run

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("own_cache", "one_block")]

EPOCHS = 2
#: Of an epoch: 20 batches of 8 and a ragged one of the images, and of matmul.
STEPS = 21
MATMUL = Settings(size=8, epochs=EPOCHS, seed=7, optimizer="sgd")


@pytest.fixture(autouse=True)
def _few_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matmul, "_STEPS", STEPS)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Two classes of 90 images, 18 of them for validation."""
    folder = write_images(tmp_path_factory.mktemp("data"), 90, "disk", "dots")
    return Settings(
        batch_size=8, image_size=16, epochs=EPOCHS, seed=7, data=folder, optimizer="sgd"
    )


@pytest.fixture(scope="module")
def unswitched(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Run]:
    """Train cnn with everything off, once for all tests."""

    @functools.cache
    def run() -> Run:
        return train("cnn", settings, tmp_path_factory.mktemp("unswitched"))[0]

    return run


def test_random_switches_change_no_bit_of_the_result_and_plain_fit_gives_the_same(
    settings: Settings, unswitched: Callable[[], Run], tmp_path: Path
) -> None:
    rng = random.Random(1)
    choices: list[tuple[str, Any]] = [
        *(("prefetch", value) for value in ("off", "default", "auto", 1, 5)),
        *(("workers", value) for value in ("off", "default", "auto", 2)),
        ("latency_ms", 1.0),
        ("latency_ms", 0.0),
    ]
    switches = tuple(
        Scheduled(rng.randrange(EPOCHS * STEPS), *rng.choice(choices)) for _ in range(20)
    )
    switched, _ = train("cnn", settings, tmp_path, *switches)
    # The number depends on how far the pipelines work ahead, which grows with the cores: requests meanwhile merge.
    assert len(events_of(switched, PipelineSwitched)) >= 3
    assert result(switched) == result(unswitched()) == plain_fit(settings)


def plain_fit(settings: Settings) -> tuple[float, str]:
    """Train the same workload without tfwatch."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(settings.seed)
    prepared = cnn.prepare(settings, lambda _: None)
    model = prepared.model()
    # More than one iterator per epoch over the source would shuffle it once more. Keras makes some: one to build its
    # metrics on a first batch, and one at the end of each epoch of a data set that it does not see repeat.
    zeros = tf.data.Dataset.from_tensors((tf.zeros((1, 16, 16, 3)), tf.zeros((1,), tf.int32)))
    model.fit(zeros, epochs=0, verbose=0)
    data = prepared.pipeline(prepared.source, Knobs()).repeat(EPOCHS)
    history = model.fit(data, epochs=EPOCHS, steps_per_epoch=prepared.steps_per_epoch, verbose=0)
    return history.history["loss"][-1], digest(model)


def test_a_lost_step_log_affects_the_record_and_changes_no_bit_of_the_result(
    settings: Settings,
    unswitched: Callable[[], Run],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The placeholder that Keras gets is zeros: it must never train on them."""
    monkeypatch.setattr(RunWriter, "step", lambda *_: 1 / 0)
    lost, _ = train("cnn", settings, tmp_path, knobs=Knobs(3))
    assert len(lost.steps) == 0
    assert only(lost, WatchFailed).reason.startswith("ZeroDivisionError")
    assert result(lost) == result(unswitched())


def test_scheduled_switches_take_effect_after_the_buffered_batches(tmp_path: Path) -> None:
    run, outcome = train(
        "matmul", MATMUL, tmp_path, Scheduled(5, "prefetch", 3), Scheduled(12, "prefetch", "off")
    )
    first, second = events_of(run, PipelineSwitched)
    assert outcome.cause == "finished"
    assert (first.asked_step, first.step, first.old, first.new) == (5, 6, "off", "3")
    # Three in the buffer and one in preparation.
    assert second.asked_step == 12
    assert 13 <= second.step <= 12 + 3 + 2


def test_a_scheduled_switch_whose_step_is_never_reached_is_reported(tmp_path: Path) -> None:
    short = replace(MATMUL, steps=5)
    switches = (
        Scheduled(9, "prefetch", 4),
        Scheduled(12, "prefetch", 4),
        Scheduled(15, "prefetch", "off"),
    )
    run, _ = train("matmul", short, tmp_path, *switches)
    missed = [
        (event.step, event.knob, event.old, event.new) for event in events_of(run, SwitchMissed)
    ]
    assert missed == [(9, "prefetch", "off", "4"), (15, "prefetch", "4", "off")]
    assert not events_of(run, SwitchAsked)


def test_a_switch_requested_before_the_first_step_takes_effect_with_it(tmp_path: Path) -> None:
    control = Control(Knobs())
    control.ask(Request("workers", 2))
    run, _ = train("matmul", MATMUL, tmp_path, control=control)
    assert only(run, SwitchAsked).step == 0
    assert only(run, PipelineSwitched).step == 1


def test_the_last_figures_are_those_of_the_last_epoch(unswitched: Callable[[], Run]) -> None:
    run = unswitched()
    assert run.path
    latest = RunReader(FolderSource(run.path)).tail().latest
    last = events_of(run, EpochEnded)[-1]
    assert latest
    assert (latest.step, latest.loss, latest.metric) == (
        last.step,
        last.metrics["loss"],
        last.metrics[run.manifest.metric],
    )


@pytest.mark.parametrize(("steps", "epochs"), [(7, 1), (25, 2)])
def test_steps_end_the_run(steps: int, epochs: int, tmp_path: Path) -> None:
    run, outcome = train("matmul", replace(MATMUL, steps=steps), tmp_path)
    assert outcome.cause == "finished"
    assert len(run.steps) == steps
    assert len(events_of(run, EpochStarted)) == epochs
    assert run.manifest.steps_per_epoch == STEPS
    assert only(run, DatasetReady).images == 8 * STEPS


def test_stop_ends_the_run_at_the_next_batch(tmp_path: Path) -> None:
    control = Control(Knobs())
    control.stop.set()
    run, outcome = train("matmul", MATMUL, tmp_path, control=control)
    assert outcome.cause == "stopped"
    assert only(run, RunEnded).cause == "stopped"
    assert len(run.steps) == 0


def test_a_workload_that_raises_leaves_its_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Prepared:
        raise RuntimeError("no such thing [/red]")

    monkeypatch.setattr(matmul, "prepare", broken)
    run, outcome = train("matmul", MATMUL, tmp_path)
    assert outcome.cause == "failed"
    assert outcome.message == "RuntimeError: no such thing [/red]"
    assert "Traceback" in only(run, TrainingFailed).traceback
    assert only(run, RunEnded).cause == "failed"


def break_at_three(monkeypatch: pytest.MonkeyPatch) -> None:
    build = numbered_examples.pipeline

    def broken_at_three(source: Any, knobs: Knobs, **options: Any) -> Any:
        if knobs.prefetch == 3:
            raise ValueError("no such shape")
        return build(source, knobs, **options)

    monkeypatch.setattr(numbered_examples, "pipeline", broken_at_three)


def test_a_pipeline_that_cannot_be_built_is_refused_and_training_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = replace(MATMUL, epochs=1)
    still, _ = train("matmul", short, tmp_path)
    break_at_three(monkeypatch)
    run, outcome = train("matmul", short, tmp_path, Scheduled(3, "prefetch", 3))
    assert outcome.cause == "finished"
    assert only(run, SwitchFailed).reason == "ValueError: no such shape"
    assert result(run) == result(still)


def test_a_pipeline_that_cannot_be_built_with_an_epoch_is_refused_and_training_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = Control(Knobs())
    short = replace(MATMUL, epochs=1)
    still, _ = train("matmul", short, tmp_path)
    break_at_three(monkeypatch)
    control.ask(Request("prefetch", 3, "key"))
    run, outcome = train("matmul", short, tmp_path, control=control)
    assert outcome.cause == "finished"
    assert only(run, SwitchFailed).now == "off"
    assert result(run) == result(still)


def test_a_switch_that_does_not_take_over_leaves_the_setting_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = replace(MATMUL, epochs=1)
    still, _ = train("matmul", short, tmp_path)
    monkeypatch.setattr(SwitchablePipeline, "take_over", lambda _: 1 / 0)
    run, outcome = train("matmul", short, tmp_path, Scheduled(3, "prefetch", 3))
    assert outcome.cause == "finished"
    assert (only(run, SwitchFailed).new, only(run, SwitchFailed).now) == ("3", "off")
    assert not events_of(run, PipelineSwitched)
    assert result(run) == result(still)


def test_a_folder_without_a_readable_image_is_bad_input(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "data" / name).mkdir(parents=True)
        (tmp_path / "data" / name / "x.jpg").write_bytes(b"\xff\xd8\xff" + bytes(200))
    _, outcome = train("cnn", Settings(data=tmp_path / "data"), tmp_path / "runs")
    assert outcome.cause == "bad-input"
    assert "\n" not in outcome.message


@pytest.mark.parametrize(
    "asked",
    [{"mode": "eager"}, {"mixed_precision": True, "steps_per_execution": 3}, {"optimizer": None}],
)
def test_start_knobs_train(asked: dict[str, Any], settings: Settings, tmp_path: Path) -> None:
    run, outcome = train("cnn", replace(settings, steps=9, **asked), tmp_path)
    assert (outcome.cause, len(run.steps)) == ("finished", 9)
    assert run.ended
    assert run.ended.final_loss is not None


def test_a_missing_device_is_bad_input(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "find_device", host_device)
    run, outcome = train("cnn", replace(settings, device="gpu"), tmp_path)
    assert outcome.cause == "bad-input"
    assert outcome.message == f"TensorFlow sees no GPU here, only {host_device().name}"
    assert len(run.steps) == 0
