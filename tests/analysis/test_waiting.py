from __future__ import annotations

import numpy as np

from tests.analysis.steps import make_steps
from tfwatch.analysis.breakdown import breakdown
from tfwatch.analysis.situation import Situation
from tfwatch.analysis.waiting import waits
from tfwatch.core import units


def test_the_figures_of_the_sentence_have_the_share_for_their_ratio() -> None:
    """Every fourth batch is slow: the median step waits for nothing."""
    split = breakdown(make_steps(np.tile([0.0, 0.0, 0.0, 40.0], 10), compute=10.0, host=0.0))
    assert split

    assert waits(Situation(device="the GPU"), split) == "the GPU waits 10.0 of 20.0 ms a step"
    assert units.percent(split.wait_share) == "50 %"
