"""The GPU's counter beside the step times: reported where they disagree over the same seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.judge.samples import make_samples
from tests.judge.step_rows import make_steps
from tfwatch.core.rows import Flag
from tfwatch.judge.findings.machine import GpuCheck, check_gpu, disagreement_text
from tfwatch.judge.steps.verdict import Bound

if TYPE_CHECKING:
    from tfwatch.core.rows import Rows

HIGH = "short kernels keep it high; step times decide"
NAN = float("nan")


@pytest.mark.parametrize(
    ("wait_share", "busy", "disagrees"),
    [
        pytest.param(0.41, 0.59, False, id="starving 41 %, busy for the rest"),
        pytest.param(0.41, 0.68, False, id="within what a counter averages"),
        pytest.param(0.41, 0.70, True, id="busier than the rest"),
        pytest.param(0.20, 0.91, True, id="starving 20 %, busy 91 %"),
        pytest.param(0.20, 0.88, False, id="starving 20 %, busy 88 %"),
        pytest.param(0.19, 0.97, False, id="not highly input-bound"),
    ],
)
def test_a_starving_device_cannot_be_busy_for_more_than_the_rest(
    wait_share: float, busy: float, disagrees: bool
) -> None:
    words = disagreement_text(GpuCheck(wait_share, busy), Bound.INPUT, accelerated=True)

    assert words == (f"GPU counter reads {busy * 100:.0f} %: {HIGH}" if disagrees else "")


def test_an_idle_gpu_without_data_wait_is_reported() -> None:
    idle = GpuCheck(0.01, 0.12)

    words = "GPU counter reads 12 %: gaps between short kernels, or work on the CPU"
    assert disagreement_text(idle, Bound.COMPUTE, accelerated=True) == words
    assert disagreement_text(GpuCheck(0.01, 0.31), Bound.COMPUTE, accelerated=True) == ""
    assert disagreement_text(idle, Bound.HOST, accelerated=True) == "", (
        "host code keeps it idle: nothing to wonder at"
    )


@pytest.mark.parametrize(
    ("found", "bound", "accelerated"),
    [
        (None, Bound.INPUT, True),
        (GpuCheck(0.4, 0.99), None, True),
        (GpuCheck(0.4, 0.99), Bound.INPUT, False),
    ],
    ids=["no counter", "no verdict", "the CPU trains"],
)
def test_without_both_sides_nothing_disagrees(
    found: GpuCheck | None, bound: Bound | None, accelerated: bool
) -> None:
    assert disagreement_text(found, bound, accelerated) == ""


# -- the same seconds ---------------------------------------------------------------------------------


def steps() -> Rows:
    """Ten seconds of steps of 20 ms that wait for 8 of it."""
    return make_steps(np.full(500, 8.0), compute=11.0, host=1.0)


def samples(busy: float = 0.9, ours: float = NAN) -> Rows:
    return make_samples(np.arange(0, 10.5, 0.5), gpu_busy=busy, gpu_process_busy=ours)


def test_both_are_of_the_last_five_seconds() -> None:
    early = samples()
    early["gpu_busy"][:11] = 0.0

    found = check_gpu(steps(), early, now_s=10.0)

    assert found is not None
    assert found.wait_share == pytest.approx(0.4)
    assert found.busy == pytest.approx(0.9)


def test_the_trainings_own_share_counts_where_it_is_known() -> None:
    found = check_gpu(steps(), samples(0.97, ours=0.55), now_s=10.0)

    assert found is not None
    assert found.busy == pytest.approx(0.55)


def test_nothing_from_before_a_switch_counts() -> None:
    changed = samples()
    changed["gpu_busy"][:17] = 0.0

    found = check_gpu(steps(), changed, now_s=10.0, since_s=8.0)

    assert found is not None
    assert found.busy == pytest.approx(0.9)
    assert check_gpu(steps(), samples(), now_s=10.0, since_s=9.0) is None, (
        "two samples say too little"
    )


def flagged() -> Rows:
    rows = steps()
    rows["flags"][400] = Flag.VALIDATION
    return rows


def with_a_gap() -> Rows:
    """Validation ran for a second, which no step holds."""
    rows = steps()
    rows["start_ns"][400:] += np.uint64(10**9)
    return rows


@pytest.mark.parametrize(
    ("rows", "now_s"),
    [
        pytest.param(steps(), 11.0, id="a step is open for a second"),
        pytest.param(flagged(), 10.0, id="a step that is not steady"),
        pytest.param(with_a_gap(), 11.0, id="something lay between the steps"),
        pytest.param(steps()[:0], 10.0, id="no step"),
    ],
)
def test_figures_of_different_seconds_are_not_compared(rows: Rows, now_s: float) -> None:
    assert check_gpu(rows, samples(), now_s) is None


@pytest.mark.parametrize(
    "rows", [samples(NAN), samples()[:0], samples()[:12]], ids=["never read", "none", "too old"]
)
def test_without_a_counter_there_is_no_comparison(rows: Rows) -> None:
    assert check_gpu(steps(), rows, now_s=10.0) is None
