"""The remark on the machine beside the finding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.judge.samples import make_samples
from tests.judge.situations import RUNNING, banner, changed, judged
from tfwatch.core.events import GpuFound, Noted, RunEnded, SensorMissing
from tfwatch.judge.findings.situation import MachineMemory
from tfwatch.judge.gpus import others_share
from tfwatch.judge.machine import (
    GpuFigures,
    Growth,
    MachineFigures,
    gpu_figures,
    gpu_status,
    medians,
    recent,
    summarise_machine,
)
from tfwatch.judge.machine_remark import remark, swap_time_text
from tfwatch.judge.stages import Stage, StageTable

if TYPE_CHECKING:
    from tfwatch.core.rows import Rows
    from tfwatch.judge.findings.situation import Situation

GIB = 2**30
HOUR = 3600.0
NAN = float("nan")
FOUND = GpuFound(0, "ioreg", "Apple M2 Pro", 16 * GIB, True)
LEAK = Growth(1.2 * GIB / HOUR, 4 * HOUR)


def remark_of(machine: MachineFigures, **changes: Any) -> str:
    now: Situation = changed(RUNNING, accelerated=True, judgement=judged(), machine=machine)
    return remark(changed(now, **changes))


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        pytest.param(MachineFigures(), "", id="nothing is known"),
        pytest.param(
            MachineFigures(gpu=GpuFigures(0.59, 0.57, 9.8), heat=0, pressure=0, on_mains=True),
            "",
            id="all is well",
        ),
        pytest.param(
            MachineFigures(swap_bytes_s=38 * 2**20, heat=3),
            "swapping 38 MB/s: use smaller batches, buffers or caches",
            id="swapping is worse than heat",
        ),
        pytest.param(MachineFigures(swap_bytes_s=2 * 2**20), "", id="an idle machine tidies up"),
        pytest.param(
            MachineFigures(pressure=2),
            "memory is nearly full: use smaller batches, buffers or caches",
            id="memory pressure",
        ),
        pytest.param(MachineFigures(heat=2), "heat is moderate: clocks are lowered", id="hot"),
        pytest.param(MachineFigures(heat=1), "", id="warm"),
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
        pytest.param(
            MachineFigures(on_mains=False), "on battery: clocks may be lowered", id="battery"
        ),
    ],
)
def test_the_remark_is_the_most_urgent_problem(machine: MachineFigures, words: str) -> None:
    assert remark_of(machine) == words


@pytest.mark.parametrize(
    ("held", "size", "words"),
    [
        pytest.param(
            1000,
            50_000,
            "shuffle(50000) needs 7.0 GB more once it is full, 2.0 GB are free: "
            "use a buffer of 7 985, or shuffle file names",
            id="a shuffle buffer",
        ),
        pytest.param(1000, 5000, "", id="it fits"),
        pytest.param(0, 50_000, "", id="nothing is in it yet"),
    ],
)
def test_a_buffer_that_will_not_fit_is_reported_before_it_is_full(
    held: int, size: int, words: str
) -> None:
    each = 150 * 1024 + 100
    shuffle = Stage(f"shuffle({size})", "Shuffle", 0.2, NAN, held, NAN, held * each)
    memory = MachineMemory(used=8 * GIB, available=2 * GIB, swap=0, total=16 * GIB)

    changes = {
        "memory": memory,
        "stages": StageTable(0, (Stage("batch(32)", "Batch", 0.1), shuffle)),
    }
    assert remark_of(MachineFigures(), **changes, shuffle=(held, size)) == words
    assert remark_of(MachineFigures(), **changes) == ""


def test_a_prefetch_larger_than_the_memory_is_reported() -> None:
    prefetch = Stage("prefetch(64)", "Prefetch", 0.1, NAN, 4.0, 64.0, 4 * 0.1 * GIB)
    memory = MachineMemory(used=12 * GIB, available=2 * GIB, swap=0, total=16 * GIB)

    assert remark_of(MachineFigures(), stages=StageTable(0, (prefetch,)), memory=memory) == (
        "prefetch(64) needs 6.0 GB more once it is full, 2.0 GB are free: use a buffer of 13"
    )


def test_a_leak_is_reported_only_if_memory_runs_out_before_the_end() -> None:
    assert remark_of(MachineFigures(growth=LEAK), left_s=2 * HOUR) == ""
    assert remark_of(MachineFigures(growth=LEAK), left_s=9 * HOUR).endswith(
        "swaps in 4 h, before the end"
    )
    assert remark_of(MachineFigures(growth=changed(LEAK, left_s=13 * HOUR))) == ""


def test_an_unused_gpu_is_reported_once_the_training_runs() -> None:
    idle = MachineFigures(gpu=GpuFigures(0.02), found=FOUND)

    assert (
        remark_of(idle, accelerated=False)
        == "TensorFlow does not use the GPU; tfwatch doctor shows why"
    )
    assert remark_of(idle, accelerated=False, steps_total=0) == ""
    assert remark_of(idle, accelerated=False, settings={"device": "cpu"}) == ""
    assert remark_of(idle) == ""


@pytest.mark.parametrize(
    "changes", [{"life": "not responding"}, {"ended": RunEnded(1, "finished", 3)}]
)
def test_a_run_that_is_not_running_has_no_remark(changes: dict[str, Any]) -> None:
    assert remark_of(MachineFigures(heat=4), **changes) == ""


def test_the_finding_carries_it() -> None:
    found = banner(
        changed(
            RUNNING,
            accelerated=True,
            judgement=judged(),
            machine=MachineFigures(heat=2),
        )
    )

    assert found.word == "STARVING 41 %"
    assert found.remark == "heat is moderate: clocks are lowered"


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
    assert swap_time_text(MachineFigures(growth=Growth(1.0, left_s))) == words


# -- samples ---------------------------------------------------------------------------------------


def test_the_machine_is_the_mean_of_its_samples_and_the_newest_of_its_levels() -> None:
    rows = make_samples(
        [0, 1, 2],
        gpu_busy=[0.8, NAN, 1.0],
        gpu_process_busy=[0.5, 0.8, 0.7],
        gpu_power_w=[9, 10, 11],
        thermal_level=[0, 2, NAN],
        swap_in_bytes_s=[0, 10, 20],
        on_mains=[1, 1, 0],
    )
    found = summarise_machine(rows, [FOUND])

    assert found.gpu is not None
    assert [found.gpu.busy, found.gpu.ours, found.gpu.others] == pytest.approx([0.9, 2 / 3, 0.3])
    assert (found.gpu.power_w, found.gpu.freq_mhz) == (10.0, None)
    assert (found.heat, found.on_mains, found.swap_bytes_s) == (2, False, 10.0)
    assert (found.pressure, found.stalled, found.cpu_power_w) == (None, None, None)
    assert found.found is FOUND


@pytest.mark.parametrize(
    "rows", [make_samples([]), make_samples([0, 1])], ids=["no sample", "nothing read"]
)
def test_missing_figures_are_none_and_never_zero(rows: Rows) -> None:
    found = summarise_machine(rows, [])
    assert changed(found, row={}) == MachineFigures()
    assert set(found.row.values()) == {None}
    assert gpu_figures(rows) is None
    assert medians(rows, ["gpu_busy", "process_bytes"]) == {"gpu_busy": None, "process_bytes": None}


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
    lost = SensorMissing(5, "GPU", "powermetrics ended", "tfwatch tries again")

    assert gpu_status([]) is None
    assert gpu_status([SensorMissing(0, "disk", "no counters", "")]) is None
    assert gpu_status([FOUND, Noted(1, "a note"), lost]) is lost
    assert gpu_status([FOUND, lost, FOUND]) is FOUND


def test_now_is_the_last_seconds_and_of_the_gpu_nothing_before_a_switch() -> None:
    at_s = np.arange(0, 60, 0.5)
    samples = make_samples(at_s, gpu_busy=np.where(at_s < 58, 0.5, 1.0), cpu_cores=4.0)

    seen = recent(samples, 59.5)

    assert seen["at_ns"][0] == 54.5e9
    assert summarise_machine(seen, [], since_s=58.0).gpu == GpuFigures(1.0)
    assert summarise_machine(seen, [], since_s=59.9).gpu is None
    assert summarise_machine(seen, [], since_s=59.9).row["cpu_cores"] == 4.0
    assert not len(recent(samples, 90.0))


def test_of_a_whole_run_the_machine_is_its_medians() -> None:
    rows = make_samples(np.arange(5), gpu_busy=[0.0, 0.9, 0.9, 0.9, 0.1], cpu_cores=[1, 2, 8, 8, 8])

    found = summarise_machine(rows, [], typical=True)

    assert found.gpu is not None
    assert found.gpu.busy == pytest.approx(0.9)
    assert found.row["cpu_cores"] == 8.0
