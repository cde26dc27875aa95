"""A profile of a step, for tests."""

from tfwatch.core.events import OperationTime, StepProfiled

PROFILE = StepProfiled(
    1,
    1200,
    3,
    9.0,
    8.0,
    operations=(
        OperationTime("backward", "body/conv2d", "Conv2D", "Conv2DBackpropFilter", 4.0),
        OperationTime("metric", "auc", "AUC", "Cumsum", 2.0),
        OperationTime("optimizer", "adam", "Adam", "Mul", 1.5),
        OperationTime("forward", "body/conv2d", "Conv2D", "Conv2D", 1.0, "train.py:41 in call"),
    ),
    others_ms=0.5,
    small_ms=1.0,
)


def profile_of(*operations: OperationTime, small_ms: float = 0.0) -> StepProfiled:
    """Return a profile of these operations."""
    return StepProfiled(1, 1200, 3, 9.0, 8.0, operations=operations, small_ms=small_ms)
