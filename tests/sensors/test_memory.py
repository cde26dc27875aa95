"""Memory, swap traffic and pressure on Linux and macOS."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as some

from tfwatch.runs.machine_info import ProcessLimits
from tfwatch.sensors import linux, macos
from tfwatch.sensors.macos import MemoryStatus, VmStat, parse_sysctl, parse_vm_stat
from tfwatch.sensors.protocol import Available, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.sensors.conftest import Tools

SECOND_NS = 10**9
GB = 2**30

#: In the form of vm_stat, with a few of its lines.
VM_STAT = """\
Mach Virtual Memory Statistics: (page size of 4096 bytes)
Pages free:                                     1000.
Pages wired down:                                300.
Pages purgeable:                                  10.
"Translation faults":                      412339021.
Anonymous pages:                                 200.
Pages stored in compressor:                      900.
Pages occupied by compressor:                    100.
Swapins:                                          5.
Swapouts:                                         7.
"""
SYSCTL = """\
vm.swapusage: total = 2048.00M  used = 512.50M  free = 1535.50M  (encrypted)
kern.memorystatus_vm_pressure_level: 2
"""


@pytest.mark.parametrize(
    ("file", "page", "pages", "swapped_in", "swapped_out"),
    [
        ("vm_stat-plain.txt", 16384, 821395 + 1102336 + 208844 - 6112, 402113, 918224),
        ("vm_stat-pressure.txt", 16384, 821395 + 2211904 + 498211 - 402, 9120334, 16604112),
    ],
)
def test_recorded_vm_stat(
    recording: Callable[[str], str],
    file: str,
    page: int,
    pages: int,
    swapped_in: int,
    swapped_out: int,
) -> None:
    assert parse_vm_stat(recording(file)) == VmStat(
        pages * page, swapped_in * page, swapped_out * page
    )


@pytest.mark.parametrize(
    ("file", "status"),
    [
        ("sysctl-all-keys.txt", MemoryStatus(0.0, 0)),
        ("sysctl-pressure-4.txt", MemoryStatus(9811.5 * 2**20, 2)),
    ],
)
def test_recorded_sysctl(recording: Callable[[str], str], file: str, status: MemoryStatus) -> None:
    assert parse_sysctl(recording(file)) == status


@pytest.mark.parametrize(
    ("text", "stat"),
    [
        pytest.param(VM_STAT, VmStat(590 * 4096, 5 * 4096, 7 * 4096), id="whole"),
        pytest.param(
            VM_STAT.replace("\n", "\r\n"),
            VmStat(590 * 4096, 5 * 4096, 7 * 4096),
            id="other line ends",
        ),
        pytest.param(VM_STAT[: VM_STAT.index("Swapins")], VmStat(590 * 4096), id="cut off"),
        pytest.param(
            VM_STAT.replace("Anonymous", "Other"),
            VmStat(None, 5 * 4096, 7 * 4096),
            id="a count is missing",
        ),
        pytest.param(
            VM_STAT + VM_STAT.replace("5.", "9."),
            VmStat(590 * 4096, 5 * 4096, 7 * 4096),
            id="printed twice",
        ),
        pytest.param(
            VM_STAT.replace("5.", "5"),
            VmStat(590 * 4096, 5 * 4096, 7 * 4096),
            id="without its full stop",
        ),
        pytest.param(
            VM_STAT.replace("5.", f"{'9' * 40}."),
            VmStat(590 * 4096, None, 7 * 4096),
            id="an absurd count",
        ),
        pytest.param(
            VM_STAT.replace("5.", "nan."), VmStat(590 * 4096, None, 7 * 4096), id="no number"
        ),
        pytest.param(VM_STAT.replace("4096", "0"), None, id="pages of nothing"),
        pytest.param(VM_STAT[VM_STAT.index("\n") :], None, id="no page size"),
        pytest.param(VM_STAT[: VM_STAT.index("\n")], None, id="no counts"),
        pytest.param("", None, id="nothing"),
        pytest.param("\0" * 10**6, None, id="a flood"),
    ],
)
def test_vm_stat(text: str, stat: VmStat | None) -> None:
    assert parse_vm_stat(text) == stat


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_vm_stat_that_is_cut_off_gives_no_smaller_figure(end: str) -> None:
    text = VM_STAT.replace("\n", end)
    whole = parse_vm_stat(text)
    assert whole
    reads = [parse_vm_stat(text[:length]) or VmStat() for length in range(len(text))]

    assert {read.used for read in reads} == {None, whole.used}
    assert {read.swapped_in for read in reads} == {None, whole.swapped_in}
    assert {read.swapped_out for read in reads} <= {None, whole.swapped_out}


def test_a_sysctl_that_is_cut_off_gives_no_smaller_figure() -> None:
    reads = [parse_sysctl(SYSCTL[:length]) or MemoryStatus() for length in range(len(SYSCTL))]

    assert {read.swap_used for read in reads} == {None, 512.5 * 2**20}
    assert {read.level for read in reads} == {None, 1}


@pytest.mark.parametrize(
    ("text", "status"),
    [
        pytest.param(SYSCTL, MemoryStatus(512.5 * 2**20, 1), id="whole"),
        pytest.param(
            SYSCTL.replace(": ", " = "), MemoryStatus(512.5 * 2**20, 1), id="the older form"
        ),
        pytest.param(
            SYSCTL.replace("512.50M", "1.50G"), MemoryStatus(1.5 * 2**30, 1), id="another unit"
        ),
        pytest.param(SYSCTL.split("\n")[0], MemoryStatus(512.5 * 2**20, None), id="no level"),
        pytest.param(SYSCTL.split("\n")[1], MemoryStatus(None, 1), id="no swap"),
        pytest.param(
            SYSCTL.replace("level: 2", "level: 3"),
            MemoryStatus(512.5 * 2**20, None),
            id="an unknown level",
        ),
        pytest.param(SYSCTL.replace("512.50M", "nan"), MemoryStatus(None, 1), id="no number"),
        pytest.param("vm.swapusage:\nkern.memorystatus_vm_pressure_level:", None, id="keys alone"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_sysctl(text: str, status: MemoryStatus | None) -> None:
    assert parse_sysctl(text) == status


def torn(text: str) -> some.SearchStrategy[str]:
    """Generate the text with a part cut out and another put in."""
    at = some.integers(0, len(text))
    return some.builds(
        lambda a, b, other: text[: min(a, b)] + other + text[max(a, b) :],
        at,
        at,
        some.text(max_size=9),
    )


@given(some.text() | torn(VM_STAT))
def test_any_text_is_vm_stats_or_none(text: str) -> None:
    read = parse_vm_stat(text)
    assert read is None or all(
        value is None or 0 <= value < 2**100 for value in (read.used, read.swapped_in)
    )


@given(some.text() | torn(SYSCTL))
def test_any_text_is_sysctls_or_none(text: str) -> None:
    read = parse_sysctl(text)
    assert read is None or (read.swap_used is None or 0 <= read.swap_used < 2**100)


@given(
    some.text()
    | torn("some avg10=0.00 avg60=0.00 avg300=0.00 total=123\nfull avg10=0.00 total=4\n")
)
def test_any_text_is_a_pressure_or_none(text: str) -> None:
    read = linux.parse_pressure(text)
    assert read is None or read >= 0


def test_memory_on_macos(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=GB))
    vm_stat = tools.print("vm_stat", VM_STAT)
    monkeypatch.setattr(macos, "VM_STAT", (vm_stat,))
    sensor = macos.MemorySensor()
    first = tools.settled(sensor, 0, lambda figures: bool(figures))
    tools.print("vm_stat", VM_STAT.replace("5.", "1005."))
    then = tools.settled(sensor, 2 * SECOND_NS, lambda figures: figures is not first)

    assert first["memory_used_bytes"] == 590 * 4096
    assert first["memory_available_bytes"] == GB - 590 * 4096
    assert math.isnan(first["swap_in_bytes_s"])
    assert then["swap_in_bytes_s"] == 500 * 4096
    assert then["swap_out_bytes_s"] == 0
    assert sensor.read(3 * SECOND_NS) is then


def test_memory_pressure_on_macos(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(macos, "SYSCTL", (tools.print("sysctl", SYSCTL),))
    sensor = macos.PressureSensor()

    assert sensor.available() == Available()
    assert sensor.read(0) == {"memory_level": 1, "swap_used_bytes": 512.5 * 2**20}


def test_missing_tools_are_reasons() -> None:
    if Path(macos.VM_STAT[0]).exists():
        pytest.skip("this is a Mac")
    reason = "No such file or directory"
    assert macos.MemorySensor().available() == Unavailable(f"vm_stat: {reason}", "")


@pytest.mark.parametrize(
    ("current", "figures"),
    [
        pytest.param(
            "3000\n", {"memory_used_bytes": 2500, "memory_available_bytes": 5500}, id="limited"
        ),
        pytest.param(
            "9000\n", {"memory_used_bytes": 8500, "memory_available_bytes": 0}, id="over the limit"
        ),
        pytest.param(
            "", {"memory_used_bytes": 7_000_000, "memory_available_bytes": 6000}, id="unknown use"
        ),
    ],
)
def test_memory_in_a_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, current: str, figures: Mapping[str, float]
) -> None:
    monkeypatch.setattr(
        psutil,
        "virtual_memory",
        lambda: SimpleNamespace(total=10**7, used=7_000_000, available=6000),
    )
    (tmp_path / "memory.current").write_text(current)
    (tmp_path / "memory.stat").write_text("inactive_file 500\n")
    sensor = linux.MemorySensor(ProcessLimits(8000, tmp_path))

    assert sensor.read(0) == figures


def test_a_container_cannot_have_more_than_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        psutil, "virtual_memory", lambda: SimpleNamespace(total=10**7, used=10**7, available=60)
    )
    (tmp_path / "memory.current").write_text("3000")

    assert linux.MemorySensor(ProcessLimits(8000, tmp_path)).read(0)["memory_available_bytes"] == 60


def test_memory_without_a_container(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        psutil, "virtual_memory", lambda: SimpleNamespace(total=10, used=4, available=5)
    )

    assert linux.MemorySensor(ProcessLimits()).read(0) == {
        "memory_used_bytes": 4,
        "memory_available_bytes": 5,
    }


def test_swap_traffic_on_linux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "swap_memory", lambda: SimpleNamespace(used=77))
    monkeypatch.setattr("os.sysconf", lambda _: 65536)
    vmstat = tmp_path / "vmstat"
    vmstat.write_text("nr_free_pages 5\npswpin 10\npswpout 100\n")
    sensor = linux.SwapSensor(vmstat)
    first = sensor.read(0)
    vmstat.write_text("nr_free_pages 5\npswpin 12\npswpout 100\n")
    then = sensor.read(2 * SECOND_NS)
    vmstat.write_text("nr_free_pages 5\n")
    none = sensor.read(4 * SECOND_NS)

    assert math.isnan(first["swap_in_bytes_s"])
    assert then == {"swap_used_bytes": 77.0, "swap_in_bytes_s": 65536.0, "swap_out_bytes_s": 0.0}
    assert math.isnan(none["swap_in_bytes_s"])


@pytest.mark.parametrize(
    ("waited_us", "stalled"),
    [
        pytest.param(250_000, 0.25, id="a quarter of the time"),
        pytest.param(0, 0.0, id="none"),
        pytest.param(2_000_000, 1.0, id="counted late: never more than all"),
        pytest.param(-5, math.nan, id="counter reset"),
    ],
)
def test_time_lost_to_waiting_for_memory(tmp_path: Path, waited_us: int, stalled: float) -> None:
    path = tmp_path / "memory.pressure"
    path.write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=100\nfull avg10=0.00 total=7\n")
    sensor = linux.PressureSensor(ProcessLimits(8000, tmp_path))

    assert sensor.available() == Available()
    assert math.isnan(sensor.read(0)["memory_stalled"])
    path.write_text(f"some avg10=9.00 avg60=0.00 avg300=0.00 total={100 + waited_us}\n")
    assert sensor.read(SECOND_NS)["memory_stalled"] == pytest.approx(stalled, nan_ok=True)


def test_a_kernel_that_counts_no_waits_has_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linux, "_PRESSURE", tmp_path / "none")
    sensor = linux.PressureSensor(ProcessLimits(8000, tmp_path))
    fix = "start Linux 4.20 or newer with psi=1"

    assert sensor.available() == Unavailable(
        "this kernel does not count waits for memory (PSI)", fix
    )
