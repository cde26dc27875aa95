from __future__ import annotations

import numpy as np
import pytest

from tests.judge.step_rows import make_steps, spike_steps
from tfwatch.core.rows import Rows
from tfwatch.judge.steps.steady_steps import breakdown, judge, spread_hosts, steady


def in_calls(calls: int, size: int, host: float, compute: float = 5.0) -> Rows:
    """Rows of steps that run `size` in a call, each call followed by `host` ms."""
    rows = make_steps(np.zeros(calls * size), compute=compute, host=0.0)
    rows["host_ms"][size - 1 :: size] = host
    return rows


def test_a_step_costs_its_share_of_what_follows_its_call() -> None:
    split = breakdown(steady(in_calls(30, 10, host=100.0)))

    assert split is not None
    assert (split.step.median, split.host.median) == pytest.approx((15, 10))
    assert split.step.mean == pytest.approx(15)


@pytest.mark.parametrize(("part", "more"), [("host", 200), ("wait", 60)])
def test_a_call_that_takes_much_more_than_the_others_is_a_spike(part: str, more: float) -> None:
    rows = in_calls(30, 10, host=20.0)
    rows[f"{part}_ms"][149] += more

    assert spike_steps(rows) == [150]


def test_the_window_counts_the_host_of_whole_calls() -> None:
    part = judge(in_calls(60, 10, host=60.0))

    assert part
    assert part.host.mean == pytest.approx(6.0)


def test_calls_in_progress_and_calls_of_one_step_are_unchanged() -> None:
    hosts = in_calls(2, 4, host=8.0)["host_ms"]
    assert spread_hosts(hosts[:6]).tolist() == [2, 2, 2, 2, 0, 0]
    assert hosts.tolist() == [0, 0, 0, 8, 0, 0, 0, 8]
    single = make_steps(np.zeros(5), compute=1.0, host=2.0)["host_ms"]
    assert spread_hosts(single) is single
    none = make_steps(np.zeros(5), compute=1.0, host=0.0)["host_ms"]
    assert spread_hosts(none) is none
