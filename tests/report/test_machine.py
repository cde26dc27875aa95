"""The machine and its energy in the facts of canned runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.runs.folders import read_back
from tests.screens import hardware
from tests.screens.canned import COMPUTE_BOUND, Canned, usual
from tfwatch.core import events as facts
from tfwatch.report import run_facts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tfwatch.runs.snapshot import Snapshot


def run_of(canned: Canned) -> Snapshot:
    canned.ended().writer.flush()
    return read_back(canned.writer, canned.clock)


def test_the_json_holds_energy_and_medians() -> None:
    found = run_facts.as_json(run_of(hardware.starving(None)))
    machine = found["machine"]

    assert json.loads(json.dumps(found, allow_nan=False)) == found
    # 900 steps of 23.4 ms at 6.5 W, and 8.7 s of import and compiling at 11.4 W and less.
    assert found["energy_per_step_j"] == pytest.approx(0.0234 * 6.51, rel=0.02)
    assert found["energy_data_wait_j"] == pytest.approx(8.6 * 6.51, rel=0.05)
    assert found["energy_data_wait_j"] < found["energy_j"]
    assert found["energy_missing"] is None
    assert (machine["gpu"], machine["unified_memory"]) == ("Apple M2 Pro", True)
    assert machine["gpu_busy"] == pytest.approx(0.556, abs=0.001)
    assert machine["gpu_others_busy"] is None
    assert machine["gpu_memory_bytes"] == pytest.approx(4.1 * 2**30)
    assert machine["gpu_temperature_c"] is None
    assert machine["missing"] == {}


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        pytest.param(
            hardware.unseen, "no permission: sudo -n refused powermetrics", id="no permission"
        ),
        pytest.param(usual, "the steps ran on the CPU, and no sensor read its power", id="a CPU"),
        pytest.param(
            lambda folder: Canned(folder, accelerated=True).started().steps(30, COMPUTE_BOUND),
            "the machine was not sampled",
            id="one sample",
        ),
    ],
)
def test_energy_that_is_not_known_is_null_and_says_why(
    make: Callable[[Path | None], Canned], reason: str
) -> None:
    found = run_facts.as_json(run_of(make(None)))

    energy = [found[f"energy_{name}"] for name in ("j", "per_step_j", "data_wait_j")]
    assert energy == [None, None, None]
    assert found["energy_missing"] == reason
    assert found["machine"]["gpu_busy"] is None


def test_a_missing_figure_has_its_reason_and_fix() -> None:
    canned = hardware.starving(None)
    canned.event(facts.SensorMissing, sensor="GPU temperature", reason="macOS shows none", fix="")

    assert run_facts.as_json(run_of(canned))["machine"]["missing"] == {
        "GPU temperature": {"reason": "macOS shows none", "fix": None}
    }


def test_a_gpu_that_was_found_after_all_is_not_missing() -> None:
    canned = hardware.unseen(None)
    assert set(run_facts.as_json(run_of(canned))["machine"]["missing"]) == {"GPU"}

    again = hardware.unseen(None)
    again.event(
        facts.GpuFound, source="ioreg", name="Apple M2 Pro", memory_bytes=None, unified=True
    )
    assert run_facts.as_json(run_of(again))["machine"]["missing"] == {}
