"""The learning curves: lines as dots of braille, or a character each, and their axes."""

import math

import numpy as np
import pytest

from tests.screens.canned import COMPUTE_BOUND, Canned
from tfwatch.core import events as facts
from tfwatch.screens.live.curves import (
    Frame,
    MetricChart,
    MetricCurve,
    _labels,
    axis_bounds,
    draw_plot,
    figure,
    metric_charts,
)


def curve(*values: float) -> MetricCurve:
    return MetricCurve(np.arange(len(values), dtype=float), np.array(values))


def chart(name: str, *values: float) -> MetricChart:
    return MetricChart(name, curve(*values), curve())


def text(frame: Frame, *values: float, fine: bool = False) -> list[str]:
    rows = draw_plot([curve(*values)], frame, fine)
    return ["".join(piece for piece, _ in row) for row in rows]


def test_a_steep_line_has_no_gaps() -> None:
    rows = text(Frame(4, 6, 3.0, 0.0, 10.0), 0, 0, 10, 10)
    assert all("*" in row for row in rows)
    assert rows[0].endswith("*")
    assert rows[-1].startswith("*")


def test_braille_has_two_by_four_dots_in_a_cell() -> None:
    frame = Frame(2, 1, 1.0, 0.0, 4.0)
    assert [text(frame, y, y, fine=True) for y in (0, 1.5, 2.5, 4)] == [
        ["⣀⣀"],
        ["⠤⠤"],
        ["⠒⠒"],
        ["⠉⠉"],
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.12345, "0.123"),
        (1234.5, "1e+03"),
        (0.00012, "1e-04"),
    ],
)
def test_a_figure_has_at_most_five_characters(value: float, text: str) -> None:
    assert figure(value) == text


@pytest.mark.parametrize(
    ("values", "bounds"),
    [
        pytest.param((1.77, 0.5, 0.038), (0.0, 1.83), id="a loss is not shown below 0"),
        pytest.param((0.27, 0.8, 0.994), (0.24, 1.0), id="an accuracy is not shown above 1"),
        pytest.param((-1.0, 1.0), (-1.1, 1.1), id="a metric of both signs has room on both sides"),
        pytest.param((4.0, 6.0), (3.9, 6.1), id="far from both"),
    ],
)
def test_the_room_of_an_axis_crosses_no_limit_that_the_values_keep(
    values: tuple[float, ...], bounds: tuple[float, float]
) -> None:
    assert axis_bounds(chart("loss", *values)) == pytest.approx(bounds, abs=0.05)


def test_the_ends_of_an_axis_are_told_apart() -> None:
    axis = _labels(Frame(10, 5, 9.0, 1.0954, 1.1046))
    assert [label.strip() for label in axis if label.strip()] == ["1.105", "1.1", "1.095"]


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
    loss, recall = metric_charts(run.snapshot())
    assert [chart.name for chart in (loss, recall)] == ["loss", "recall"]
    assert loss.training.steps.tolist() == [51, 101, 151, 201]
    assert loss.validation.values.tolist() == [2.1, 1.2, 0.9, 1.1]


def test_a_metric_that_comes_later_or_is_not_finite_leaves_gaps() -> None:
    run = _trained([2.0, math.nan, math.inf, 0.4, 0.5])
    run.event(facts.EpochEnded, epoch=5, step=run.step + 1, metrics={"loss": 0.3, "auc": 0.7})
    loss, auc = metric_charts(run.snapshot())
    assert loss.training.values.tolist() == [2.0, 0.4, 0.5, 0.3]
    assert (auc.name, auc.validation.steps.tolist()) == ("auc", [])


def test_a_run_without_epochs_has_the_curve_of_its_progress() -> None:
    charts = metric_charts(Canned(None).started().steps(2000, COMPUTE_BOUND).snapshot())
    loss = charts[0]
    assert loss.name == "loss"
    assert len(loss.training) > 20
    assert (np.diff(loss.training.values) < 0).all()
