"""The last setting of a run."""

from __future__ import annotations

import numpy as np
import pytest

from tests.judge.effects.test_comparison import asked, switched
from tests.judge.step_rows import plain, restart
from tests.judge.stretches import alternating
from tfwatch.core.rows import Flag
from tfwatch.judge.judged_run import find_last_setting
from tfwatch.judge.steps.steady_steps import Verdict


def test_flagged_steps_and_single_spikes_are_left_out() -> None:
    rows = plain(200)
    rows["flags"][0], rows["compute_ms"][0] = Flag.COMPILE, 900.0
    rows["wait_ms"][120] = 400.0

    found = find_last_setting(restart(rows), ())

    assert found.stretches == ((1, 200),)
    assert found.split
    assert found.split.steps == 198
    assert found.split.step.mean == pytest.approx(20.0)


def test_the_last_setting_is_judged_by_itself() -> None:
    rows = np.concatenate([plain(100, share=0.5), plain(100, share=0.01)])
    rows["step"] = np.arange(1, 201)
    rows["flags"][100] = Flag.SWITCH

    found = find_last_setting(restart(rows), [asked(98), switched(101, 98)])

    assert found.split
    assert (found.split.verdict, found.split.steps) == (Verdict.NOT, 99)
    assert found.stretches == ((101, 200),)


def test_after_an_ab_test_all_its_blocks_with_the_setting_count() -> None:
    rows, events = alternating(["off", "4", "off", "4"], "4")

    found = find_last_setting(rows, events)

    assert found.split
    assert len(found.stretches) == 2
    assert found.split.wait_share < 0.01


def test_without_steps_there_is_none() -> None:
    assert find_last_setting(plain(0), ()).split is None
