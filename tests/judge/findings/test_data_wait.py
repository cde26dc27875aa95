from __future__ import annotations

import numpy as np
import pytest

from tests.judge.situations import RUNNING, changed
from tests.judge.step_rows import make_steps
from tfwatch.core import units
from tfwatch.core.events import StallLocated
from tfwatch.judge.findings.advice import stall_sentence, wait_sentence
from tfwatch.judge.steps.verdict import breakdown


def test_the_ratio_of_the_figures_in_the_sentence_is_the_share() -> None:
    """Every fourth batch is slow: the median step waits for nothing."""
    split = breakdown(make_steps(np.tile([0.0, 0.0, 0.0, 40.0], 10), compute=10.0, host=0.0))
    assert split

    assert wait_sentence(RUNNING, split) == "each step waits 10.0 of 20.0 ms for data"
    assert units.percent(split.wait_share) == "50 %"


def located(stage: str, place: str = "", thread: str = "") -> StallLocated:
    return StallLocated(23 * 10**9, 412, stage, 20 * 10**9, place, thread)


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        pytest.param(
            located("map(read)", "train.py:9 in <module>", "training"),
            "Step 412 waits in map(read): no output for 20.3 s.",
            id="a stage of tf.data's: the training only fetches",
        ),
        pytest.param(
            located("from_generator(rows)", "feed.py:41 in rows", "generator"),
            "Step 412 waits in from_generator(rows), at feed.py:41 in rows: no output for 20.3 s.",
            id="a generator",
        ),
        pytest.param(
            located("", "feed.py:41 in rows", "training"),
            "Step 412 waits for its batch: the training is at feed.py:41 in rows.",
            id="no stages",
        ),
        pytest.param(
            None,
            "Step 412 waits for its batch: the input pipeline has delivered none.",
            id="not located yet",
        ),
    ],
)
def test_a_stall_names_the_stage_and_the_line(where: StallLocated | None, sentence: str) -> None:
    assert stall_sentence(changed(RUNNING, step=412, now_s=40.3, located=where)) == sentence


def test_a_shuffle_buffer_that_fills_comes_first() -> None:
    now = changed(RUNNING, step=412, now_s=40.3, shuffle=(4298, 50_000), located=located("range"))

    assert stall_sentence(now) == "Step 412 waits: filling the shuffle buffer, 4 298 of 50 000."
