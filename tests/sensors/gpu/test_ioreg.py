"""ioreg's output about GPUs and their clients, whole and damaged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psutil
import pytest

from tests.runs.folders import FakeClock
from tfwatch.sensors.gpu import ioreg
from tfwatch.sensors.gpu.ioreg import IoregSource, parse, parse_clients
from tfwatch.sensors.sensor import SensorError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.sensors.conftest import Tools

OWN = 4242


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


def client(pid: int, *times: int, name: str = "Python", mark: str = "+-o ") -> str:
    usage = ",".join(
        f'{{"API"="Metal","lastSubmittedTime"=99887766,"accumulatedGPUTime"={time}}}'
        for time in times
    )
    return f"""{mark}AGXDeviceUserClient  <class AGXDeviceUserClient, id 0x100001f2b, !registered, retain 10>
    {{
      "AppUsage" = ({usage})
      "CommandQueueCount" = 2
      "IOUserClientCreator" = "pid {pid}, {name}"
    }}
"""  # noqa: E501


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


# -- clients ---------------------------------------------------------------------------------------


def test_clients_are_summed_for_each_process() -> None:
    text = (
        client(440, 5, name="WindowServer") + client(OWN, 1000, 20) + client(OWN, 300) + client(7)
    )

    assert parse_clients(text) == {440: 5, OWN: 1320, 7: 0}


# -- the sensor ------------------------------------------------------------------------------------


def make_source(
    tools: Tools,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    clients: str = "",
    clock: FakeClock | None = None,
) -> IoregSource:
    """Return a source whose tools print these texts."""
    monkeypatch.setattr(ioreg, "COMMAND", (tools.print("ioreg", text),))
    monkeypatch.setattr(ioreg, "CLIENTS", (tools.print("clients", clients),))
    monkeypatch.setattr(ioreg, "_TIMEOUT_S", 20)
    return IoregSource(clock.clock, OWN) if clock else IoregSource(pid=OWN)


def test_a_reading_has_the_share_of_this_process(
    tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    source = make_source(tools, monkeypatch, gpu(), client(OWN, 10**9) + client(7, 5), clock)
    assert source.why_unavailable() is None
    (first,) = source.read()
    assert first.figures == {**figures(0.87, 3 * 2**30), "gpu_process_busy": None}

    shares = []
    for at_s, spent in (
        (0.5, 5),
        (1.0, 1_250_000_000),
        (1.25, 9),
        (2.0, 0),
        (3.0, 0),
        (4.0, 2 * 10**9),
    ):
        clock.at_s = at_s
        tools.print("clients", client(OWN, spent) if spent else client(7, 5))
        shares.append(source.read()[0].figures["gpu_process_busy"])

    assert shares == [None, 0.25, 0.25, None, 0.0, 1.0]
    assert set(source.gaps()) == {"gpu_temperature_c"}
    assert (first.name, first.unified, source.gpus) == ("Apple M9 Max", True, 1)
    assert first.total_bytes == psutil.virtual_memory().total


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


def test_without_clients_the_other_figures_remain(
    tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    source = make_source(tools, monkeypatch, gpu(), "", clock)
    assert source.read()[0].figures["gpu_busy"] == 0.87
    assert source.gaps()["gpu_process_busy"].reason == "ioreg lists no process that uses this GPU"

    monkeypatch.setattr(ioreg, "CLIENTS", ("/nowhere/ioreg",))
    clock.at_s = 11
    assert source.read()[0].figures["gpu_busy"] == 0.87
    assert source.gaps()["gpu_process_busy"].reason == "ioreg: No such file or directory"


def test_activity_that_is_missing_has_its_reason(
    tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make_source(tools, monkeypatch, gpu(busy=""), client(OWN, 5))
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
    source = make_source(tools, monkeypatch, gpu(), client(OWN, 5))
    assert source.why_unavailable() is None
    (tmp_path / "ioreg").write_text(f"#!/bin/sh\n{lines}\n")
    monkeypatch.setattr(ioreg, "_TIMEOUT_S", 20 if "exit" in lines else 0.3)

    with pytest.raises(SensorError) as raised:
        source.read()
    assert str(raised.value) == reason
