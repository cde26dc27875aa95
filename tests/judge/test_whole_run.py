"""A long run as a whole: learning curves and epochs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.screens.canned import COMPUTE_BOUND, STARVING, Canned
from tfwatch.core import events as facts
from tfwatch.core.rows import Flag
from tfwatch.judge.whole_run import (
    STEP_TIME,
    LearningCurves,
    better_way,
    epoch_steps,
)

if TYPE_CHECKING:
    from pathlib import Path


def _trained(losses: list[float], **metrics: list[float]) -> Canned:
    run = Canned(None).started()
    for epoch, loss in enumerate(losses):
        run.steps(50, COMPUTE_BOUND)
        figures = {"loss": loss, **{name: values[epoch] for name, values in metrics.items()}}
        run.event(facts.EpochEnded, epoch=epoch, step=run.step, metrics=figures)
        run.at_s += 0.1
        run.begin_epoch()
    return run


def test_each_metric_is_a_chart_with_its_validation_and_its_best_epoch() -> None:
    run = _trained([2.0, 1.0, 0.5, 0.4], val_loss=[2.1, 1.2, 0.9, 1.1], recall=[0.1, 0.4, 0.3, 0.2])
    loss, recall, step_time = LearningCurves().take(run.snapshot())
    assert [chart.name for chart in (loss, recall, step_time)] == ["loss", "recall", STEP_TIME]
    assert loss.training.steps.tolist() == [51, 101, 151, 201]
    assert loss.validation.values.tolist() == [2.1, 1.2, 0.9, 1.1]
    assert loss.best
    assert (loss.best.value, loss.best.epoch) == (0.9, 2)
    assert recall.best
    assert (recall.best.value, recall.best.epoch) == (0.4, 1)


def test_epochs_are_collected_once_however_often_a_frame_asks() -> None:
    run = _trained([2.0, 1.0, 0.5, 0.4])
    curves = LearningCurves()
    first = curves.take(run.snapshot())[0]
    again = curves.take(run.snapshot())[0]
    assert again.training.values.tolist() == first.training.values.tolist() == [2.0, 1.0, 0.5, 0.4]


def test_a_metric_that_comes_later_or_is_not_finite_leaves_gaps() -> None:
    run = _trained([2.0, math.nan, math.inf, 0.4, 0.5])
    run.event(facts.EpochEnded, epoch=5, step=run.step + 1, metrics={"loss": 0.3, "auc": 0.7})
    loss, auc, *_ = LearningCurves().take(run.snapshot())
    assert loss.training.values.tolist() == [2.0, 0.4, 0.5, 0.3]
    assert loss.best
    assert loss.best.value == 0.3
    assert (auc.name, auc.validation.steps.tolist()) == ("auc", [])
    assert auc.best
    assert auc.best.epoch == 5


def test_a_run_without_epochs_has_the_curve_of_its_progress() -> None:
    charts = LearningCurves().take(Canned(None).started().steps(2000, COMPUTE_BOUND).snapshot())
    loss = charts[0]
    assert loss.name == "loss"
    assert len(loss.training) > 20
    assert (np.diff(loss.training.values) < 0).all()
    assert loss.best is None


def test_the_step_time_follows_the_steps_and_not_the_clock() -> None:
    run = Canned(None).started().steps(1000, STARVING)
    run.at_s += 100.0
    chart = LearningCurves().take(run.steps(1000, COMPUTE_BOUND).snapshot())[-1]
    half = chart.training.steps > 1000
    assert np.median(chart.training.values[~half]) == pytest.approx(sum(STARVING), rel=0.05)
    assert np.median(chart.training.values[half]) == pytest.approx(sum(COMPUTE_BOUND), rel=0.05)


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("loss", "lower"),
        ("mean_absolute_error", "lower"),
        ("sparse_categorical_accuracy", "higher"),
        ("my_metric", None),
    ],
)
def test_the_name_says_which_way_a_metric_gets_better(name: str, way: str | None) -> None:
    assert better_way(name) == way


def _two_epochs(folder: Path | None, **changes: Any) -> Canned:
    run = Canned(folder, **changes).started().steps(99, STARVING)
    run.event(facts.ValidationEnded, epoch=0, took_ms=300.0)
    run.event(facts.EpochEnded, epoch=0, step=100, metrics={"loss": 1.3, "val_loss": 1.4})
    run.at_s += 0.3
    run.begin_epoch().steps(50, STARVING).switched("prefetch", "off", "4")
    return (
        run.steps(1, COMPUTE_BOUND, int(Flag.SWITCH))
        .steps(149, COMPUTE_BOUND)
        .steps(1, (4000.0, 13.0, 0.8))
    )


def test_an_epoch_has_the_mean_of_its_steps_and_their_data_wait() -> None:
    run = _two_epochs(None)
    run.event(facts.EpochEnded, epoch=1, step=301, metrics={})
    snapshot = run.snapshot()
    first, second = (
        epoch_steps(snapshot.epochs, ended) for ended in snapshot.events.of(facts.EpochEnded)
    )
    assert first
    assert second
    total_ms = 50 * 23.4 + 150 * 13.9 + 4013.8
    assert second.step_ms == pytest.approx(total_ms / 201, rel=0.03)
    assert second.wait_share == pytest.approx((50 * 9.6 + 150 * 0.2 + 4000) / total_ms, rel=0.03)


def test_an_epoch_without_steps_has_no_figures() -> None:
    snapshot = Canned(None).event(facts.EpochEnded, epoch=0, step=0, metrics={}).snapshot()
    (ended,) = snapshot.events.of(facts.EpochEnded)
    assert epoch_steps(snapshot.epochs, ended) is None
