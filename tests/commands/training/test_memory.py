"""A size that does not fit into memory is reported before the training starts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from tfwatch.checks.bench import BenchOptions, find_memory_warnings, list_specs
from tfwatch.doctor import quick_facts
from tfwatch.doctor.quick_facts import GpuPresence
from tfwatch.runs import machine_info
from tfwatch.runs.machine_info import ProcessLimits

if TYPE_CHECKING:
    from collections.abc import Sequence

GB = 2**30
NO_GPU = GpuPresence("no GPU")


def test_a_size_that_fits_is_not_reported() -> None:
    assert quick_facts.describe_memory_shortage(2 * GB, "dense", "cpu", NO_GPU, free=3 * GB) == ""


@pytest.mark.parametrize(
    ("device", "gpu", "end"),
    [
        pytest.param(
            "auto", NO_GPU, "are free: it may swap, or the system may end it", id="no GPU"
        ),
        pytest.param(
            "auto",
            GpuPresence(is_metal=True),
            "are free: it may swap, or the system may end it",
            id="Apple's GPU",
        ),
        pytest.param(
            "cpu",
            GpuPresence(),
            "are free: it may swap, or the system may end it",
            id="a GPU left alone",
        ),
        pytest.param(
            "auto",
            GpuPresence(),
            "are free: unless a GPU holds the model and its activations, it may swap",
            id="a GPU",
        ),
    ],
)
def test_what_does_not_fit_is_a_sentence_with_both_figures(
    device: str, gpu: GpuPresence, end: str
) -> None:
    reported = quick_facts.describe_memory_shortage(
        round(57.6 * GB), "matmul", device, gpu, free=round(20.1 * GB)
    )
    assert reported.startswith(f"matmul needs about 57.6 GB of memory and 20.1 GB {end}")


@pytest.mark.parametrize(
    ("allowed", "used", "free"),
    [
        pytest.param(ProcessLimits(), None, 8 * GB, id="no group"),
        pytest.param(
            ProcessLimits(memory_bytes=4 * GB, group=Path("/g")), 3 * GB, GB, id="a tight group"
        ),
        pytest.param(
            ProcessLimits(memory_bytes=4 * GB, group=Path("/g")), 5 * GB, 0, id="a full group"
        ),
        pytest.param(
            ProcessLimits(memory_bytes=20 * GB, group=Path("/g")),
            GB,
            8 * GB,
            id="the machine is tighter",
        ),
        pytest.param(
            ProcessLimits(memory_bytes=4 * GB, group=Path("/g")), None, 8 * GB, id="nobody knows"
        ),
    ],
)
def test_free_is_the_machines_or_the_groups(
    allowed: ProcessLimits, used: int | None, free: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=8 * GB))
    monkeypatch.setattr(machine_info, "limits", lambda: allowed)
    monkeypatch.setattr(machine_info, "used_bytes", lambda group: used)
    assert machine_info.free_bytes() == free


@pytest.mark.parametrize(
    ("options", "free", "reported"),
    [
        pytest.param(
            BenchOptions(["matmul"], size=60_000),
            20 * GB,
            ["matmul --size 60000 needs about "],
            id="size",
        ),
        pytest.param(BenchOptions(["matmul"]), 20 * GB, [], id="its own size"),
        pytest.param(
            BenchOptions(["large-images", "dense"], batch_sizes=[32, 100_000]),
            20 * GB,
            ["large-images --batch-sizes 100000 needs about "],
            id="one of several batch sizes",
        ),
    ],
)
def test_bench_reports_each_size_that_may_not_fit_once(
    options: BenchOptions, free: int, reported: Sequence[str]
) -> None:
    found = find_memory_warnings(list_specs(options), free, GpuPresence())
    assert len(found) == len(reported)
    assert all(sentence.startswith(start) for sentence, start in zip(found, reported, strict=True))


def test_where_bench_times_the_gpu_alone_its_own_memory_may_hold_it() -> None:
    (both,) = find_memory_warnings(
        list_specs(BenchOptions(["matmul"], size=60_000)), 20 * GB, GpuPresence()
    )
    (alone,) = find_memory_warnings(
        list_specs(BenchOptions(["matmul"], size=60_000, devices=["gpu"])), 20 * GB, GpuPresence()
    )
    assert "unless a GPU holds" not in both
    assert "unless a GPU holds" in alone
