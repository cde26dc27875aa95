"""The live screen of a training over several GPUs of a strategy, and its summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.runs.folders import read_back
from tests.screens import hardware
from tests.screens.canned import COMPUTE_BOUND, STARVING
from tests.screens.showing import shown
from tfwatch.core.events import GpusFound
from tfwatch.report.run_facts import as_json

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_gpu_without_rows_is_not_available(tmp_path: Path) -> None:
    run = hardware.on_nvidia(tmp_path, hardware.nvidia())
    names = {"GPU:0": "NVIDIA H200", "GPU:1": "NVIDIA H200"}
    run.event(GpusFound, names=names, memory_bytes={}).steps(100, STARVING)
    async with shown(run) as show:
        assert "n/a" in "".join(row for row in show.rows if row[1:6] == "GPU:0")


@pytest.mark.parametrize(("gpus", "idlest"), [(2, 1), (8, 5)])
def test_the_summary_and_json_name_the_busiest_and_the_idlest(
    gpus: int, idlest: int, tmp_path: Path
) -> None:
    canned = hardware.on_several(None, gpus, idlest).steps(600, COMPUTE_BOUND).ended()
    canned.writer.flush()
    run = read_back(canned.writer, canned.clock)

    document = as_json(run)
    machine = document["machine"]

    assert [gpu["device"] for gpu in machine["strategy_gpus"]] == document["replicas"]
    assert machine["strategy_gpus"][1]["memory_bytes"] == pytest.approx(39.2 * 2**30, rel=1e-6)
    assert machine["strategy_gpus"][idlest]["busy"] == pytest.approx(0.464, abs=0.01)
