"""The machine in the facts of canned runs."""

import json

import pytest

from tests.runs.folders import read_back
from tests.screens import hardware
from tests.screens.canned import Canned
from tfwatch.core import events as facts
from tfwatch.report import run_facts
from tfwatch.runs.snapshot import Snapshot


def run_of(canned: Canned) -> Snapshot:
    canned.ended().writer.flush()
    return read_back(canned.writer, canned.clock)


def test_the_json_holds_the_medians() -> None:
    found = run_facts.as_json(run_of(hardware.starving(None)))
    machine = found["machine"]

    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert machine["gpu"] == "Apple M2 Pro"
    assert machine["gpu_busy"] == pytest.approx(0.556, abs=0.001)
    assert machine["gpu_others_busy"] is None
    assert machine["gpu_memory_bytes"] == pytest.approx(4.1 * 2**30)
    assert machine["missing"] == {}


def test_a_missing_figure_has_its_reason_and_fix() -> None:
    canned = hardware.starving(None)
    canned.event(facts.SensorMissing, sensor="GPU process share", reason="macOS shows none", fix="")

    assert run_facts.as_json(run_of(canned))["machine"]["missing"] == {
        "GPU process share": {"reason": "macOS shows none", "fix": None}
    }


def test_a_gpu_that_was_found_after_all_is_not_missing() -> None:
    canned = hardware.unseen(None)
    assert set(run_facts.as_json(run_of(canned))["machine"]["missing"]) == {"GPU"}

    again = hardware.unseen(None)
    again.event(
        facts.GpuFound, source="ioreg", name="Apple M2 Pro", memory_bytes=None, unified=True
    )
    assert run_facts.as_json(run_of(again))["machine"]["missing"] == {}
