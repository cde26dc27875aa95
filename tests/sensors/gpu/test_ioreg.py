"""ioreg's output about GPUs, whole and damaged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psutil
import pytest

from tfwatch.sensors.gpu import ioreg
from tfwatch.sensors.gpu.ioreg import IoregSource, parse
from tfwatch.sensors.sensor import SensorError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.sensors.conftest import Tools


def gpu(
    busy: str = '"Device Utilization %"=87,',
    memory: str = '"In use system memory"=3221225472',
    model: str = '"Apple M9 Max"',
) -> str:
    """Return an entry in ioreg's form, with misleading text around the figures."""
    return f"""+-o AGXAcceleratorG99X  <class AGXAcceleratorG99X, id 0x100000a42, registered, retain 82>
    {{
      "IONameMatched" = "gpu,t9999"
      "AGCInfo" = {{"fLastSubmissionPID"=4242,"fSubmissionsSinceLastCheck"=3,"fBusyCount"=1}}
      "PerformanceStatistics" = {{"In use system memory (driver)"=5,"Alloc system memory"=99285996544,\
"Tiler Utilization %"=12,"recoveryCount"=0,"Renderer Utilization %"=7,"Device Utilization % at cur p-state"=3,\
{busy}"Allocated PB Size"=150994944,{memory}}}
      "model" = {model}
      "gpu-core-count" = 40
      "IOReportLegend" = ({{"IOReportChannels"=((1,64,"Alloc system memory"),(2,64,"In use system memory"))}})
    }}

"""  # noqa: E501


def figures(busy: float | None, memory: int | None) -> dict[str, float]:
    """Return the figures that are known."""
    named = {"gpu_busy": busy, "gpu_memory_bytes": memory}
    return {name: value for name, value in named.items() if value is not None}


# -- activity and memory ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "busy", "memory", "model"),
    [
        pytest.param("ioreg-m4pro-compute-load.txt", 1.0, 10977263616, "Apple M4 Pro", id="M4 Pro"),
        pytest.param("ioreg-m5pro-abridged.txt", 0.87, 19327352832, "Apple M5 Pro", id="M5 Pro"),
    ],
)
def test_recordings(
    name: str,
    busy: float,
    memory: int,
    model: str,
    recording: Callable[[str], str],
    tools: Tools,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = recording(name)
    source = make_source(tools, monkeypatch, text)

    assert parse(text) == figures(busy, memory)
    assert source.read()[0].name == model


@pytest.mark.parametrize(
    ("text", "busy", "memory"),
    [
        pytest.param("", None, None, id="no GPU, as in a virtual machine"),
        pytest.param(gpu(busy=""), None, 3 * 2**30, id="no activity"),
        pytest.param(gpu(memory='"x"=1'), 0.87, None, id="no memory"),
        pytest.param(gpu(busy='"Device Utilization %"=0,'), 0.0, 3 * 2**30, id="idle"),
        pytest.param(gpu(busy='"Device Utilization %"=104,'), 1.0, 3 * 2**30, id="a little over"),
        pytest.param(
            gpu(busy='"Device Utilization %"=18446744073709551612,'), None, 3 * 2**30, id="negative"
        ),
        pytest.param(
            gpu(memory=f'"In use system memory"={2**64 - 4096}'), 0.87, None, id="negative memory"
        ),
        pytest.param(
            gpu(busy="") + gpu(busy='"Device Utilization %"=9,'),
            0.09,
            3 * 2**30,
            id="two: the second",
        ),
        pytest.param(
            "| " + gpu().replace("\n", "\n| "), 0.87, 3 * 2**30, id="with the tree's strokes"
        ),
        pytest.param(
            '"In use system memory"=5 "Device Utilization %"=5',
            None,
            None,
            id="outside of the statistics",
        ),
    ],
)
def test_traps(text: str, busy: float | None, memory: int | None) -> None:
    assert parse(text) == figures(busy, memory)


# -- the sensor ------------------------------------------------------------------------------------


def make_source(tools: Tools, monkeypatch: pytest.MonkeyPatch, text: str) -> IoregSource:
    """Return a source whose tool prints this text."""
    monkeypatch.setattr(ioreg, "COMMAND", (tools.print("ioreg", text),))
    monkeypatch.setattr(ioreg, "_TIMEOUT_S", 20)
    return IoregSource()


def test_a_reading_names_the_gpu(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    source = make_source(tools, monkeypatch, gpu())
    assert source.why_unavailable() is None
    (reading,) = source.read()

    assert reading.figures == figures(0.87, 3 * 2**30)
    assert set(source.gaps()) == {"gpu_process_busy"}
    assert (reading.name, reading.unified, source.gpus) == ("Apple M9 Max", True, 1)
    assert reading.total_bytes == psutil.virtual_memory().total


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("", "macOS shows no GPU, as in a virtual machine", id="no GPU"),
        pytest.param(
            "+-o Other <class IOAccelerator>\n{}",
            "ioreg prints no activity of this GPU",
            id="another kind",
        ),
    ],
)
def test_no_gpu_is_a_reason(
    text: str, reason: str, tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = make_source(tools, monkeypatch, text).why_unavailable()

    assert missing
    assert missing.reason == reason


def test_activity_that_is_missing_has_its_reason(
    tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make_source(tools, monkeypatch, gpu(busy=""))
    assert source.why_unavailable() is None
    assert "gpu_busy" not in source.read()[0].figures
    assert source.gaps()["gpu_busy"].reason == 'ioreg prints no "Device Utilization %" for this GPU'


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        pytest.param("exit 1", "ioreg: it ended with 1", id="fails"),
        pytest.param("exit 0", "ioreg no longer prints the activity of a GPU", id="prints nothing"),
        pytest.param("exec sleep 600", "ioreg: did not respond within 0.3 s", id="hangs"),
    ],
)
def test_a_tool_that_fails_during_a_run_has_a_reason(
    lines: str, reason: str, tools: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make_source(tools, monkeypatch, gpu())
    assert source.why_unavailable() is None
    (tmp_path / "ioreg").write_text(f"#!/bin/sh\n{lines}\n")
    monkeypatch.setattr(ioreg, "_TIMEOUT_S", 20 if "exit" in lines else 0.3)

    with pytest.raises(SensorError) as raised:
        source.read()
    assert str(raised.value) == reason
