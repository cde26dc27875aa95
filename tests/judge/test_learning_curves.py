"""Learning curves."""

from __future__ import annotations

import math

import numpy as np

from tests.screens.canned import COMPUTE_BOUND, Canned
from tfwatch.core import events as facts
from tfwatch.judge.learning_curves import LearningCurves


def _trained(losses: list[float], **metrics: list[float]) -> Canned:
    run = Canned(None).started()
    for epoch, loss in enumerate(losses):
        run.steps(50, COMPUTE_BOUND)
        figures = {"loss": loss, **{name: values[epoch] for name, values in metrics.items()}}
        run.event(facts.EpochEnded, epoch=epoch, step=run.step, metrics=figures)
        run.at_s += 0.1
        run.begin_epoch()
    return run


def test_each_metric_is_a_chart_with_its_validation() -> None:
    run = _trained([2.0, 1.0, 0.5, 0.4], val_loss=[2.1, 1.2, 0.9, 1.1], recall=[0.1, 0.4, 0.3, 0.2])
    loss, recall = LearningCurves().take(run.snapshot())
    assert [chart.name for chart in (loss, recall)] == ["loss", "recall"]
    assert loss.training.steps.tolist() == [51, 101, 151, 201]
    assert loss.validation.values.tolist() == [2.1, 1.2, 0.9, 1.1]


def test_epochs_are_collected_once_however_often_a_frame_asks() -> None:
    run = _trained([2.0, 1.0, 0.5, 0.4])
    curves = LearningCurves()
    first = curves.take(run.snapshot())[0]
    again = curves.take(run.snapshot())[0]
    assert again.training.values.tolist() == first.training.values.tolist() == [2.0, 1.0, 0.5, 0.4]


def test_a_metric_that_comes_later_or_is_not_finite_leaves_gaps() -> None:
    run = _trained([2.0, math.nan, math.inf, 0.4, 0.5])
    run.event(facts.EpochEnded, epoch=5, step=run.step + 1, metrics={"loss": 0.3, "auc": 0.7})
    loss, auc = LearningCurves().take(run.snapshot())
    assert loss.training.values.tolist() == [2.0, 0.4, 0.5, 0.3]
    assert (auc.name, auc.validation.steps.tolist()) == ("auc", [])


def test_a_run_without_epochs_has_the_curve_of_its_progress() -> None:
    charts = LearningCurves().take(Canned(None).started().steps(2000, COMPUTE_BOUND).snapshot())
    loss = charts[0]
    assert loss.name == "loss"
    assert len(loss.training) > 20
    assert (np.diff(loss.training.values) < 0).all()
