"""The machine in figures, the remark on it, and memory that grows."""

from typing import Any

import pytest

from tests.judge.samples import make_samples
from tests.judge.situations import RUNNING, changed, judged
from tests.screens.canned import COMPUTE_BOUND, Canned
from tfwatch.core.events import Event, GpuFound, Noted, RunEnded, SensorMissing
from tfwatch.judge.banner import remark
from tfwatch.judge.machine import (
    GpuFigures,
    MachineFigures,
    gpu_figures,
    machine_now,
    machine_of_run,
    others_share,
)

GIB = 2**30
NAN = float("nan")
FOUND = GpuFound(0, "ioreg", "Apple M2 Pro", 16 * GIB, True)


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
            of(swap_bytes_s=38 * 2**20, thermal_level=3),
            "swapping 38 MB/s: use smaller batches, buffers or caches",
            id="swapping is worse than heat",
        ),
        pytest.param(of(swap_bytes_s=2 * 2**20), "", id="an idle machine tidies up"),
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
    ],
)
def test_the_remark_is_the_most_urgent_problem(machine: MachineFigures, words: str) -> None:
    assert remark_of(machine) == words


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
                "swap_bytes_s": 10.0 * at,
            }
            for at, ((busy, ours), heat) in enumerate(zip(shares, levels, strict=True))
        )
    )
    found = machine_now(run.snapshot())

    assert found.gpu is not None
    assert [found.gpu.busy, found.gpu.ours, found.gpu.others] == pytest.approx([0.9, 2 / 3, 0.3])
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
    disk = SensorMissing(0, "disk", "no counters", "")

    def found(*events: Event) -> tuple[GpuFound | None, list[str]]:
        run = Canned(None).started()
        for event in events:
            run.writer.event(event)
        machine = machine_now(run.snapshot())
        return machine.found, [one.sensor for one in machine.missing]

    assert found(disk) == (None, ["GPU", "disk"])
    assert found(FOUND, Noted(1, "a note"), lost) == (None, ["GPU"])
    assert found(FOUND, lost, FOUND) == (FOUND, [])


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
