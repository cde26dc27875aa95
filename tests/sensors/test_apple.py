"""An Apple GPU: the outputs of ioreg and of powermetrics, whole and damaged, and the source over
both tools."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil
import pytest

from tests.runs.folders import FakeClock
from tests.runs.processes import wait_until
from tests.sensors.conftest import Tools
from tfwatch.sensors import apple
from tfwatch.sensors.apple import AppleSource, parse_ioreg, parse_powermetrics, sudoers
from tfwatch.sensors.sensor import SensorError

# -- what the tools print -------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("name", "busy", "memory"),
    [
        pytest.param("ioreg-m4pro-compute-load.txt", 1.0, 10977263616, id="M4 Pro"),
        pytest.param("ioreg-m5pro-abridged.txt", 0.87, 19327352832, id="M5 Pro"),
    ],
)
def test_recordings_of_ioreg(
    name: str, busy: float, memory: int, recording: Callable[[str], str]
) -> None:
    assert parse_ioreg(recording(name)) == figures(busy, memory)


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
def test_figures_of_ioreg(text: str, busy: float | None, memory: int | None) -> None:
    assert parse_ioreg(text) == figures(busy, memory)


FIGURES = {"gpu_busy": 0.6, "gpu_freq_mhz": 712.5, "gpu_power_w": 2.0, "thermal_level": 0}


#: 1.5 s with 2 W of GPU; the energy in the GPU part covers another window, and a key stands twice.
DOCUMENT = """<?xml version="1.0" encoding="UTF-8"?>\n<plist version="1.0"><dict>
<key>elapsed_ns</key><integer>1500000000</integer><key>processor</key><dict>
<key>clusters</key><array><dict><key>idle_ratio</key><real>0.25</real></dict></array>
<key>gpu_energy</key><integer>3000</integer></dict>
<key>thermal_pressure</key><string>Nominal</string><key>gpu</key><dict>
<key>freq_hz</key><real>712.5</real><key>idle_ns</key><integer>400</integer>
<key>idle_ratio</key><real>0.4</real><key>idle_ns</key><integer>400</integer>
<key>gpu_energy</key><integer>3600</integer></dict></dict></plist>"""


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        pytest.param("m1-macos13", (0.0167, 714.836, 0.015353, 0), id="M1"),
        pytest.param("m4pro-macos15-gpu-only", (0.0047, 338), id="M4 Pro: neither watts nor heat"),
    ],
)
def test_recordings_of_powermetrics(
    name: str, figures: tuple[float, ...], recording: Callable[[str], str]
) -> None:
    found = parse_powermetrics(recording(f"powermetrics-{name}.plist").encode())
    assert found == pytest.approx(dict(zip(FIGURES, figures, strict=False)), abs=1e-4)


@pytest.mark.parametrize(
    ("was", "now", "changed"),
    [
        pytest.param("", "", {}, id="whole"),
        pytest.param("<real>0.4<", "<real>-0.001<", {"gpu_busy": 1.0}, id="idle below 0"),
        pytest.param("<real>0.4<", "<real>nan<", {"gpu_busy": None}, id="no number"),
        pytest.param("1500000000", "3000000000", {"gpu_power_w": 1.0}, id="late: over its time"),
        pytest.param("Nominal", "Trapping", {"thermal_level": 4}, id="heat"),
        pytest.param("</plist>", "", dict.fromkeys(FIGURES), id="cut"),
        pytest.param("<?xml", "<?xml <dict>\0<?xml", {}, id="the rest of another before it"),
    ],
)
def test_a_document(was: str, now: str, changed: Mapping[str, float | None]) -> None:
    expected = {name: value for name, value in {**FIGURES, **changed}.items() if value is not None}
    assert parse_powermetrics(DOCUMENT.replace(was, now, 1).encode()) == pytest.approx(expected)


# -- the source -----------------------------------------------------------------------------------


@pytest.fixture
def mac(
    tools: Tools, tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., AppleSource]:
    """Return a function that makes a source whose powermetrics runs these shell lines, `"$d"` is a
    document's path, and whose ioreg prints a text, else 87 %."""
    (tmp_path / "document").write_text(DOCUMENT + "\n\0")
    monkeypatch.setattr(apple, "_TIMEOUT_S", 20)

    def make(lines: str = "exit 1", text: str | None = None) -> AppleSource:
        tool = tools.does("powermetrics", f"d={tmp_path}/document\n{lines}")
        printed = gpu() if text is None else text
        monkeypatch.setattr(apple, "IOREG", (tools.print("ioreg", printed),))
        return AppleSource(clock.clock, (tool,))

    return make


def test_a_reading_names_the_gpu(mac: Callable[..., AppleSource]) -> None:
    source = mac()
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
def test_no_gpu_is_a_reason(text: str, reason: str, mac: Callable[..., AppleSource]) -> None:
    missing = mac(text=text).why_unavailable()

    assert missing
    assert missing.reason == reason


def test_activity_that_is_missing_has_its_reason(mac: Callable[..., AppleSource]) -> None:
    source = mac(text=gpu(busy=""))
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
    lines: str,
    reason: str,
    mac: Callable[..., AppleSource],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = mac()
    (tmp_path / "ioreg").write_text(f"#!/bin/sh\n{lines}\n")
    monkeypatch.setattr(apple, "_TIMEOUT_S", 20 if "exit" in lines else 0.3)

    with pytest.raises(SensorError) as raised:
        source.read()
    assert str(raised.value) == reason


def busy(source: AppleSource) -> float | None:
    return source.read()[0].figures["gpu_busy"]


def test_its_figures_come_first_and_it_ends_with_the_run(
    mac: Callable[..., AppleSource], tmp_path: Path
) -> None:
    source = mac(f'echo $$ > {tmp_path}/pid; cat "$d" "$d"; exec sleep 600')
    assert source.why_unavailable() is None
    wait_until(lambda: busy(source) == 0.6)
    (reading,) = source.read()

    assert {**reading.figures, **FIGURES} == reading.figures
    assert reading.figures["gpu_memory_bytes"] == 3 * 2**30
    assert (source.name, reading.name) == ("powermetrics", "Apple M9 Max")
    assert set(source.gaps()) == {"gpu_process_busy"}
    pid = int((tmp_path / "pid").read_text())
    assert os.getsid(pid) == pid  # no terminal of the user's
    (tmp_path / "ioreg").write_text("#!/bin/sh\nexit 1\n")
    assert source.read()[0].figures == FIGURES
    source.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


_REFUSED = "powermetrics runs as root only, and sudo has no rule for it; ioreg shows the activity"


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        pytest.param("echo sudo: a password is required >&2; exit 1", _REFUSED, id="no rule"),
        pytest.param("echo must be invoked as the superuser", _REFUSED, id="not root"),
        pytest.param("echo no such >&2; exit 64", "powermetrics ended: no such; ", id="fails"),
        pytest.param("printf Pass: >&2; read a", "powermetrics ended: Pass:", id="prompts"),
        pytest.param('cat "$d"; exit 1', "powermetrics ended; ioreg", id="ends later"),
        pytest.param('head -c 300 "$d"', "powermetrics ended: <?xml", id="is cut"),
        pytest.param("while :; do cat /bin/sh; done", "powermetrics prints too much", id="floods"),
    ],
)
def test_without_it_ioreg_gives_the_activity(
    lines: str, reason: str, mac: Callable[..., AppleSource]
) -> None:
    source = mac(lines)
    source.why_unavailable()
    wait_until(lambda: source.read() and "gpu_power_w" in source.gaps())
    why = source.gaps()["gpu_power_w"]

    assert (source.name, busy(source)) == ("ioreg", 0.87)
    assert why.reason.startswith(reason)
    assert ("doctor --sudoers prints the line" in why.fix) == (reason == _REFUSED)
    assert source.why_unavailable() is None  # and no second try
    assert source.gaps()["gpu_power_w"] == source.gaps()["gpu_freq_mhz"] == why
    source.close()


def test_a_tool_that_prints_nothing_readable_is_given_up(
    mac: Callable[..., AppleSource], clock: FakeClock
) -> None:
    source = mac('cat "$d"; echo "junk</plist>"; exec sleep 600')
    source.why_unavailable()
    wait_until(lambda: source.read() and source.name == "powermetrics")
    clock.at_s += 3
    assert (busy(source), source.name) == (0.87, "powermetrics")
    clock.at_s += 8

    assert (busy(source), source.name) == (0.87, "ioreg")
    assert "nothing readable for 10 s" in source.gaps()["gpu_power_w"].reason


def test_a_figure_that_is_never_printed_has_a_reason(mac: Callable[..., AppleSource]) -> None:
    source = mac('while sleep 0.02; do sed s/gpu_energy/other/ "$d"; done')
    source.why_unavailable()
    wait_until(lambda: source.read() and "gpu_power_w" in source.gaps())

    assert "gpu_freq_mhz" not in source.gaps()
    source.close()


def test_the_line_pins_the_whole_command_and_all_else_is_a_comment() -> None:
    *comments, line = sudoers(501).splitlines()
    arguments = "-s cpu_power\\,gpu_power\\,thermal -f plist -i 1000 -n 604800"

    assert line == f"#501 ALL=(root) NOPASSWD: /usr/bin/powermetrics {arguments}"
    assert all(comment.startswith("# ") for comment in comments)
