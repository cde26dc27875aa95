"""The machine and its energy in the summary and in the JSON object, of canned runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.runs.folders import read_back
from tests.screens import hardware
from tests.screens.canned import COMPUTE_BOUND, STARVING, Canned, usual
from tfwatch.core import events as facts
from tfwatch.report import document
from tfwatch.report.text import as_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.runs.snapshot import Snapshot


def run_of(canned: Canned) -> Snapshot:
    canned.ended().writer.flush()
    return read_back(canned.writer, canned.clock)


def lines_of(canned: Canned) -> list[str]:
    return as_text(run_of(canned), Path("/home/ada")).splitlines()


def test_the_summary_tells_what_the_gpu_did_and_drew() -> None:
    lines = lines_of(hardware.starving(None))

    assert "the GPU was 56 % busy (53 % ours) at 6.5 W, median" in lines
    assert "energy: 0.15 J/step, 160 J total, 56 J (35 %) starving" in lines


def test_the_summary_tells_what_held_it_back() -> None:
    assert "slowed down by heat for 10.0 s" in lines_of(hardware.throttled(None))
    assert "slowed down by swapping for 15.0 s" in lines_of(hardware.swapping(None))


def test_without_figures_the_summary_says_why_and_how_to_get_them() -> None:
    (line,) = [
        line
        for line in lines_of(hardware.unseen(None))
        if line.startswith(("GPU", "energy", "the GPU was"))
    ]

    assert line.startswith(
        "GPU n/a: no permission: sudo -n refused powermetrics; tfwatch doctor --sudoers prints"
    )


def test_a_leak_that_a_median_hides_is_shown_by_begin_end_and_peak() -> None:
    run = hardware.starving(None)
    for size in (8, 8, 8, 20, 28.5, 28):
        run.sensors = hardware.apple(process_bytes=size * 2**30)
        run.steps(40, STARVING)
    machine = document.as_json(run_of(run))["machine"]
    sizes = [machine[f"process_{when}_bytes"] / 2**30 for when in ("begin", "end", "peak")]

    assert sizes[1:] == [28.0, 28.5]
    assert sizes[0] < 8
    (line,) = (line for line in lines_of(run) if line.startswith("memory of the process"))
    assert line.endswith("GB at the start, 28.0 at the end, peak 28.5")


def test_memory_that_stays_has_no_line_of_its_own() -> None:
    assert not [
        line
        for line in lines_of(hardware.starving(None))
        if line.startswith("memory of the process")
    ]


def test_where_no_gpu_trains_none_is_missed() -> None:
    told = [
        line for line in lines_of(usual(None)) if not line.startswith("next: ")
    ]  # which may advise to get one

    assert not [line for line in told if "GPU" in line or "energy" in line]


def test_the_json_holds_energy_and_medians() -> None:
    found = document.as_json(run_of(hardware.starving(None)))
    machine = found["machine"]

    assert json.loads(json.dumps(found, allow_nan=False)) == found
    # 900 steps of 23.4 ms at 6.5 W, and 8.7 s of import and compiling at 11.4 W and less.
    assert found["energy_per_step_j"] == pytest.approx(0.0234 * 6.51, rel=0.02)
    assert found["energy_data_wait_j"] == pytest.approx(8.6 * 6.51, rel=0.05)
    assert found["energy_data_wait_j"] < found["energy_j"]
    assert found["energy_missing"] is None
    assert (machine["gpu"], machine["gpu_source"], machine["unified_memory"]) == (
        "Apple M2 Pro",
        "powermetrics",
        True,
    )
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
    found = document.as_json(run_of(make(None)))

    assert [found[f"energy_{name}"] for name in ("j", "per_step_j", "data_wait_j")] == [
        None,
        None,
        None,
    ]
    assert found["energy_missing"] == reason
    assert found["machine"]["gpu_busy"] is None


def test_a_missing_figure_has_its_reason_and_fix() -> None:
    canned = hardware.starving(None)
    canned.event(facts.SensorMissing, sensor="GPU temperature", reason="macOS shows none", fix="")

    assert document.as_json(run_of(canned))["machine"]["missing"] == {
        "GPU temperature": {"reason": "macOS shows none", "fix": None}
    }


def test_a_gpu_that_was_found_after_all_is_not_missing() -> None:
    canned = hardware.unseen(None)
    assert set(document.as_json(run_of(canned))["machine"]["missing"]) == {"GPU"}

    again = hardware.unseen(None)
    again.event(
        facts.GpuFound, source="ioreg", name="Apple M2 Pro", memory_bytes=None, unified=True
    )
    assert document.as_json(run_of(again))["machine"]["missing"] == {}
