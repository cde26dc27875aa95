"""What does not fit into memory is told before it is made."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from tfwatch.commands import memory
from tfwatch.commands.bench import Wish, doubts, specs
from tfwatch.runs import container
from tfwatch.runs.container import Limits

if TYPE_CHECKING:
    from collections.abc import Sequence

GB = 2**30


def test_what_fits_or_is_not_known_is_not_told() -> None:
    assert memory.too_much(2 * GB, "dense", free=3 * GB) == ""
    assert memory.too_much(None, "mine.py", free=0) == ""


def test_what_does_not_fit_is_a_sentence_with_both_figures() -> None:
    told = memory.too_much(round(57.6 * GB), "matmul", free=round(20.1 * GB))
    assert told.startswith("matmul needs about 57.6 GB of memory and 20.1 GB are free: it may swap")


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
    monkeypatch.setattr(container, "limits", lambda: allowed)
    monkeypatch.setattr(container, "used_bytes", lambda group: used)
    assert container.free_bytes() == free


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
    found = doubts(specs(wish), free)
    assert len(found) == len(told)
    assert all(sentence.startswith(start) for sentence, start in zip(found, told, strict=True))
