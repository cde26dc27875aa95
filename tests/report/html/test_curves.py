"""Learning curves."""

from __future__ import annotations

import math

import pytest

from tfwatch.core.events import EpochEnded, Event
from tfwatch.report.html.curves import make_curves


def epochs(*metrics: dict[str, float]) -> list[Event]:
    return [EpochEnded(n * 10**9, n, n * 10, one) for n, one in enumerate(metrics)]


def test_a_metric_has_its_validation_beside_it() -> None:
    found = make_curves(
        epochs(
            {"auc": 0.5, "loss": 2.0, "val_loss": 3.0}, {"auc": 0.7, "loss": 1.0, "val_loss": 1.5}
        )
    )

    assert [curve.name for curve in found] == ["loss", "auc"]
    loss, auc = found
    assert (loss.train, loss.validation) == ("M0 333L1000 667", "M0 0L1000 500")
    assert loss.last == "train 1, validation 1.5"
    assert auc.validation == ""


@pytest.mark.parametrize(
    ("name", "best"),
    [
        ("loss", "best 0.2, epoch 2"),
        ("mae", "best 0.2, epoch 2"),
        ("accuracy", "best 0.9, epoch 1"),
        ("f1_score", "best 0.9, epoch 1"),
        ("customers", None),
    ],
)
def test_the_best_value_is_marked_where_its_direction_is_known(name: str, best: str | None) -> None:
    (curve,) = make_curves(epochs({name: 0.9}, {name: 0.2}, {name: 0.5}))

    assert (curve.best.text if curve.best else None) == best


def test_the_best_is_that_of_the_validation() -> None:
    (curve,) = make_curves(epochs({"loss": 0.5, "val_loss": 0.6}, {"loss": 0.1, "val_loss": 0.9}))

    assert curve.best
    assert curve.best.text == "best 0.6, epoch 1"


def test_a_value_that_is_missing_interrupts_the_line() -> None:
    (curve,) = make_curves(epochs({"loss": 1.0}, {"loss": math.nan}, {"loss": 1.0}, {"loss": 2.0}))

    assert curve.train.count("M") == 2


def test_one_epoch_is_no_line() -> None:
    (curve,) = make_curves(epochs({"loss": 1.0}))

    assert not curve.is_line
    assert curve.last == "train 1"


def test_of_many_epochs_some_are_drawn() -> None:
    (curve,) = make_curves(epochs(*({"loss": 1.0 + n} for n in range(5000))))

    assert curve.train.count("L") == 999


def test_a_run_without_epochs_has_no_curve() -> None:
    assert make_curves([]) == []
    assert make_curves(epochs({"loss": math.nan})) == []


def test_a_value_that_never_changes_has_a_scale() -> None:
    (curve,) = make_curves(epochs({"loss": 1.0}, {"loss": 1.0}))

    assert curve.train == "M0 1000L1000 1000"
    assert len({tick.text for tick in curve.heights}) > 1
