"""The machine in figures, the remark on it, and memory that grows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.judge.samples import make_samples
from tests.judge.situations import RUNNING, changed, judged
from tests.screens.canned import COMPUTE_BOUND, Canned
from tfwatch.core.events import GpuFound, Noted, RunEnded, SensorMissing
from tfwatch.judge.banner import remark
from tfwatch.judge.machine import (
    LEAST_S,
    WINDOW_S,
    GpuFigures,
    Growth,
    MachineFigures,
    gpu_figures,
    gpu_status,
    growth,
    machine_now,
    machine_of_run,
    others_share,
)

if TYPE_CHECKING:
    from tfwatch.core.rows import Rows

GIB = 2**30
HOUR = 3600.0
NAN = float("nan")
FOUND = GpuFound(0, "ioreg", "Apple M2 Pro", 16 * GIB, True)
LEAK = Growth(1.2 * GIB / HOUR, 4 * HOUR)


# -- the remark ------------------------------------------------------------------------------------


def of(**figures: float) -> MachineFigures:
    return MachineFigures(figures)


def remark_of(machine: MachineFigures, **changes: Any) -> str:
    now = changed(RUNNING, accelerated=True, split=judged(), machine=machine)
    return remark(changed(now, **changes))


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        pytest.param(MachineFigures(), "", id="nothing is known"),
        pytest.param(of(thermal_level=0, memory_level=0), "", id="all is well"),
        pytest.param(
            of(swap_in_bytes_s=38 * 2**20, thermal_level=3),
            "swapping 38 MB/s: use smaller batches, buffers or caches",
            id="swapping is worse than heat",
        ),
        pytest.param(of(swap_out_bytes_s=2 * 2**20), "", id="an idle machine tidies up"),
        pytest.param(
            of(memory_level=2),
            "memory is nearly full: use smaller batches, buffers or caches",
            id="memory pressure",
        ),
        pytest.param(of(thermal_level=2), "heat is moderate: clocks are lowered", id="hot"),
        pytest.param(of(thermal_level=1), "", id="warm"),
        pytest.param(
            MachineFigures(gpu=GpuFigures(0.91, 0.57, others=0.34)),
            "other programs use 34 % of the GPU",
            id="a browser eats the GPU",
        ),
        pytest.param(
            MachineFigures(gpu=GpuFigures(0.30, 0.15, others=0.15)),
            "",
            id="an idle desktop is no browser",
        ),
        pytest.param(
            MachineFigures(growth=LEAK), "memory grows 1.2 GB/h: swaps in 4 h", id="a leak"
        ),
    ],
)
def test_the_remark_is_the_most_urgent_problem(machine: MachineFigures, words: str) -> None:
    assert remark_of(machine) == words


def test_a_leak_is_reported_only_if_memory_runs_out_before_the_end() -> None:
    leak = MachineFigures(growth=LEAK)
    assert remark_of(leak, left_s=2 * HOUR) == ""
    assert remark_of(leak, left_s=9 * HOUR).endswith("swaps in 4 h, before the end")
    assert remark_of(MachineFigures(growth=changed(LEAK, left_s=13 * HOUR))) == ""


def test_an_unused_gpu_is_reported_once_the_training_runs() -> None:
    idle = MachineFigures(gpu=GpuFigures(0.02), found=FOUND)
    unused = "TensorFlow does not use the GPU; tfwatch doctor shows why"

    assert remark_of(idle, accelerated=False) == unused
    assert remark_of(idle, accelerated=False, steps_total=0) == ""
    assert remark_of(idle) == ""


@pytest.mark.parametrize(
    "changes", [{"life": "not responding"}, {"ended": RunEnded(1, "finished", 3)}]
)
def test_a_run_that_is_not_running_has_no_remark(changes: dict[str, Any]) -> None:
    assert remark_of(of(thermal_level=4), **changes) == ""


@pytest.mark.parametrize(
    ("left_s", "words"),
    [
        (None, ""),
        (20.0, "swaps in 1 min"),
        (4000.0, "swaps in 67 min"),
        (4 * HOUR, "swaps in 4 h"),
        (90 * HOUR, ""),
    ],
)
def test_the_time_to_swapping_in_words(left_s: float | None, words: str) -> None:
    assert Growth(1.0, left_s).left_text == words


# -- figures ---------------------------------------------------------------------------------------


def sampled(*samples: dict[str, float]) -> Canned:
    """Return a run with these samples half a second apart, the last ones."""
    run = Canned(None).started().pass_s(6.0)
    for sample in samples:
        run.sample(**sample).pass_s(0.5)
    return run


def test_the_machine_is_the_mean_of_its_samples_and_the_newest_of_its_levels() -> None:
    shares = [(0.8, 0.5), (NAN, 0.8), (1.0, 0.7)]
    levels = [0, 2, NAN]
    run = sampled(
        *(
            {
                "gpu_busy": busy,
                "gpu_process_busy": ours,
                "thermal_level": heat,
                "swap_in_bytes_s": 10.0 * at,
            }
            for at, ((busy, ours), heat) in enumerate(zip(shares, levels, strict=True))
        )
    )
    found = machine_now(run.snapshot())

    assert found.gpu is not None
    assert [found.gpu.busy, found.gpu.ours, found.gpu.others] == pytest.approx([0.9, 2 / 3, 0.3])
    assert found.gpu.freq_mhz is None
    assert (found.heat, found.swap_bytes_s) == (2, 10.0)
    assert found.pressure is None


def test_missing_figures_are_none_and_never_zero() -> None:
    assert gpu_figures(make_samples([0, 1])) is None
    assert MachineFigures().swap_bytes_s is None


@pytest.mark.parametrize(
    ("busy", "ours", "others"),
    [
        pytest.param([0.97] * 10, [0.61] * 10, 0.36, id="another program"),
        pytest.param(
            [0.99, 1.0] * 5, [0.95, 0.96] * 5, None, id="counters that differ by 4 points"
        ),
        pytest.param(
            [1.0, 0.1, 0.9, 0.8, 1.0],
            [0.4, 0.8, 0.2, 0.9, 0.8],
            None,
            id="bursts, seen at other times",
        ),
        pytest.param([0.9] * 10, [1.3] * 10, None, id="queues that run at the same time"),
        pytest.param([0.9] * 10, [NAN] * 10, None, id="an unknown share"),
        pytest.param([], [], None, id="no sample"),
    ],
)
def test_others_are_seen_beyond_the_disagreement_of_the_counters(
    busy: list[float], ours: list[float], others: float | None
) -> None:
    rows = make_samples(range(len(busy)), gpu_busy=busy, gpu_process_busy=ours)

    assert others_share(rows["gpu_busy"], rows["gpu_process_busy"]) == (
        None if others is None else pytest.approx(others)
    )


def test_the_newest_event_on_the_gpu_counts() -> None:
    lost = SensorMissing(5, "GPU", "NVML: GPU is lost", "tfwatch tries again")

    assert gpu_status([]) is None
    assert gpu_status([SensorMissing(0, "disk", "no counters", "")]) is None
    assert gpu_status([FOUND, Noted(1, "a note"), lost]) is lost
    assert gpu_status([FOUND, lost, FOUND]) is FOUND


def test_of_the_gpu_nothing_before_a_switch_counts_now() -> None:
    run = sampled({"gpu_busy": 0.5}).switched("prefetch", "off", "4").steps(1, COMPUTE_BOUND)
    assert machine_now(run.snapshot()).gpu is None
    run.pass_s(6.0).sample(gpu_busy=1.0, cpu_cores=4.0)

    found = machine_now(run.snapshot())
    assert found.gpu == GpuFigures(1.0)
    assert found.figures["cpu_cores"] == 4.0


def test_of_a_whole_run_the_machine_is_its_medians_while_steps_ran() -> None:
    run = Canned(None).started()
    for cores in (2.0, 8.0, 8.0, 8.0):
        run.steps(50, COMPUTE_BOUND).sample(gpu_busy=0.9, cpu_cores=cores)
    run.steps(50, COMPUTE_BOUND).pass_s(5.0).sample(gpu_busy=0.1, cpu_cores=1.0)

    found = machine_of_run(run.ended().snapshot())
    assert found.gpu is not None
    assert found.gpu.busy == pytest.approx(0.9)
    assert found.figures["cpu_cores"] == 8.0


# -- growth ----------------------------------------------------------------------------------------


def memory_samples(available: np.ndarray) -> Rows:
    return make_samples(np.arange(len(available)) * 0.5, memory_available_bytes=available)


def ramp(seconds: float, bytes_h: float, start: float = 6 * GIB) -> np.ndarray:
    return start - np.arange(0, seconds, 0.5) * bytes_h / HOUR


def test_a_leak_has_a_slope_and_an_end() -> None:
    found = growth(memory_samples(ramp(600, 1.2 * GIB)))

    assert found is not None
    assert found.bytes_h == pytest.approx(1.2 * GIB, rel=0.02)
    assert found.left_s == pytest.approx((6 - 0.2) / 1.2 * HOUR, rel=0.02)


def test_noise_and_single_jumps_do_not_move_it() -> None:
    noise = np.random.default_rng(1).normal(0, 30 * 2**20, 1200)
    noise[100:110] += 2 * GIB
    found = growth(memory_samples(ramp(600, 2 * GIB) + noise))

    assert found is not None
    assert found.bytes_h == pytest.approx(2 * GIB, rel=0.1)


@pytest.mark.parametrize(
    "available",
    [
        pytest.param(np.full(1200, 6.0 * GIB), id="steady"),
        pytest.param(
            6 * GIB + np.random.default_rng(2).normal(0, 200 * 2**20, 3600),
            id="other programs come and go",
        ),
        pytest.param(ramp(600, -2 * GIB), id="memory is given back"),
        pytest.param(np.maximum(ramp(1200, 12 * GIB), 5 * GIB), id="a buffer that has filled up"),
        pytest.param(ramp(150, 0.1 * GIB), id="not enough growth"),
    ],
)
def test_what_is_no_leak_is_steady(available: np.ndarray) -> None:
    assert growth(memory_samples(available)) == Growth()


@pytest.mark.parametrize(
    "available",
    [
        pytest.param(np.array([]), id="no sample"),
        pytest.param(np.full(600, np.nan), id="never read"),
        pytest.param(ramp(LEAST_S - 1, 2 * GIB), id="too short"),
    ],
)
def test_without_enough_samples_there_is_no_growth(available: np.ndarray) -> None:
    assert growth(memory_samples(available)) is None


def test_half_an_hour_is_one_also_where_samples_are_rare() -> None:
    steady_then_leaking = np.concatenate(
        [np.full(round(WINDOW_S), 6.0 * GIB), ramp(WINDOW_S / 2, 4 * GIB)]
    )
    rare = make_samples(
        np.arange(len(steady_then_leaking)) * 1.0, memory_available_bytes=steady_then_leaking
    )
    found = growth(rare)

    assert found is not None
    assert found.bytes_h == pytest.approx(2 * GIB, rel=0.02)


def test_a_leak_is_reported_from_64_megabytes_on() -> None:
    found = [growth(memory_samples(ramp(600, mb * 6 * 2**20))) for mb in (60, 70)]

    assert found[0] == Growth()
    assert found[1] is not None
    assert found[1].bytes_h == pytest.approx(420 * 2**20, rel=0.02)
