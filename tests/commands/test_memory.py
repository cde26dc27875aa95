"""What does not fit into memory is told before it is made."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from tfwatch.checks.bench import Wish, doubts, specs
from tfwatch.doctor import quick_facts
from tfwatch.doctor.quick_facts import GpuHere
from tfwatch.runs import machine_info
from tfwatch.runs.machine_info import Limits

if TYPE_CHECKING:
    from collections.abc import Sequence

GB = 2**30
NO_GPU = GpuHere("no GPU here")


def test_what_fits_or_is_not_known_is_not_told() -> None:
    assert quick_facts.too_much(2 * GB, "dense", "cpu", NO_GPU, free=3 * GB) == ""
    assert quick_facts.too_much(None, "mine.py", "cpu", NO_GPU, free=0) == ""


@pytest.mark.parametrize(
    ("device", "gpu", "end"),
    [
        pytest.param("auto", NO_GPU, "are free: it may swap, or the system may end it", id="no GPU"),
        pytest.param("auto", GpuHere(metal=True), "are free: it may swap, or the system may end it", id="Apple's GPU"),
        pytest.param("cpu", GpuHere(), "are free: it may swap, or the system may end it", id="a GPU left alone"),
        pytest.param(
            "auto", GpuHere(), "are free: where no GPU holds the model and what it computes, it may swap", id="a GPU"
        ),
    ],
)
def test_what_does_not_fit_is_a_sentence_with_both_figures(device: str, gpu: GpuHere, end: str) -> None:
    told = quick_facts.too_much(round(57.6 * GB), "matmul", device, gpu, free=round(20.1 * GB))
    assert told.startswith(f"matmul needs about 57.6 GB of memory and 20.1 GB {end}")


@pytest.mark.parametrize(
    ("allowed", "used", "free"),
    [
        pytest.param(Limits(), None, 8 * GB, id="no group"),
        pytest.param(Limits(memory_bytes=4 * GB, group=Path("/g")), 3 * GB, GB, id="a tight group"),
        pytest.param(Limits(memory_bytes=4 * GB, group=Path("/g")), 5 * GB, 0, id="a full group"),
        pytest.param(Limits(memory_bytes=20 * GB, group=Path("/g")), GB, 8 * GB, id="the machine is tighter"),
        pytest.param(Limits(memory_bytes=4 * GB, group=Path("/g")), None, 8 * GB, id="nobody knows"),
    ],
)
def test_free_is_the_machines_or_the_groups(
    allowed: Limits, used: int | None, free: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=8 * GB))
    monkeypatch.setattr(machine_info, "limits", lambda: allowed)
    monkeypatch.setattr(machine_info, "used_bytes", lambda group: used)
    assert machine_info.free_bytes() == free


@pytest.mark.parametrize(
    ("wish", "free", "told"),
    [
        pytest.param(Wish(["matmul"], size=60_000), 20 * GB, ["matmul --size 60000 needs about "], id="size"),
        pytest.param(Wish(["matmul"]), 20 * GB, [], id="its own size"),
        pytest.param(
            Wish(["large-images", "dense"], batch_sizes=[32, 100_000]),
            20 * GB,
            ["large-images --batch-sizes 100000 needs about "],
            id="one of several batch sizes",
        ),
    ],
)
def test_bench_tells_each_that_may_not_fit_once(wish: Wish, free: int, told: Sequence[str]) -> None:
    found = doubts(specs(wish), free, GpuHere())
    assert len(found) == len(told)
    assert all(sentence.startswith(start) for sentence, start in zip(found, told, strict=True))


def test_where_bench_times_the_gpu_alone_its_own_memory_may_hold_it() -> None:
    (both,) = doubts(specs(Wish(["matmul"], size=60_000)), 20 * GB, GpuHere())
    (alone,) = doubts(specs(Wish(["matmul"], size=60_000, devices=["gpu"])), 20 * GB, GpuHere())
    assert "where no GPU holds" not in both
    assert "where no GPU holds" in alone
