"""What a line of events.jsonl holds of an event."""

import json
import math
from typing import Any

import numpy as np
import pytest

from tfwatch.core.events import EpochEnded, Noted, decode, encode


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf, np.float32("nan")], ids=str)
def test_a_metric_that_is_not_finite_is_null_in_the_line_and_read_as_nan(loss: float) -> None:
    metrics: dict[str, Any] = {"loss": loss, "accuracy": np.float32(0.5)}
    line = encode(EpochEnded(1, 0, 60, metrics))

    event = decode(line)

    assert json.loads(line)["metrics"] == {"loss": None, "accuracy": 0.5}
    assert isinstance(event, EpochEnded)
    assert math.isnan(event.metrics["loss"])
    assert event.metrics["accuracy"] == 0.5


def test_a_name_that_is_no_unicode_is_written_with_a_question_mark() -> None:
    assert decode(encode(Noted(1, "caf\udce9.jpg"))) == Noted(1, "caf?.jpg")
