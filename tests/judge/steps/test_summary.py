"""A whole run in figures."""

from __future__ import annotations

import numpy as np
import pytest

from tests.judge.effects.test_comparison import asked, switched
from tests.judge.step_rows import plain, restart
from tfwatch.core.rows import Flag
from tfwatch.judge.steps.steady_steps import Verdict
from tfwatch.judge.steps.summary import between, summarise


def test_flagged_steps_and_single_spikes_are_left_out() -> None:
    rows = plain(200)
    rows["flags"][0], rows["compute_ms"][0] = Flag.COMPILE, 900.0
    rows["wait_ms"][120] = 400.0

    found = summarise(restart(rows), ())

    assert found.steady is not None
    assert (found.steps, found.steady.steps) == (200, 198)
    assert found.steady.step.mean == pytest.approx(20.0)


def test_the_last_setting_is_judged_by_itself() -> None:
    rows = np.concatenate([plain(100, share=0.5), plain(100, share=0.01)])
    rows["step"] = np.arange(1, 201)
    rows["flags"][100] = Flag.SWITCH

    found = summarise(restart(rows), [asked(98), switched(101, 98)], accelerated=True)

    assert found.steady is not None
    assert found.steady.wait_share == pytest.approx(0.25, abs=0.01)
    judgement = found.setting.judgement
    assert (judgement.verdict, judgement.steps) == (Verdict.NOT, 99)
    assert found.setting.stretches == ((101, 200),)
    assert [(switch.step, switch.settled) for switch in found.switches] == [(101, True)]


def test_too_few_steps_have_no_verdict() -> None:
    judgement = summarise(plain(19), ()).setting.judgement

    assert (judgement.verdict, judgement.steps) == (None, 19)
    assert summarise(plain(0), ()).steady is None


def test_a_wait_that_has_not_ended_is_a_stall_and_no_step() -> None:
    rows = plain(101)
    rows["wait_ms"][100] = 20_000.0

    found = summarise(rows[:100], (), open_wait=rows[100:])

    assert found.steps == 100
    assert [(stall.step, stall.lost_ms) for stall in found.stalls] == [(101, 20_000.0)]


def test_rows_that_a_full_disk_dropped_are_in_no_stretch() -> None:
    rows = plain(10)
    rows[4] = 0

    assert between(rows, 4, 6)["step"].tolist() == [4, 6]
    assert between(rows, -3, 2)["step"].tolist() == [1, 2]
