"""Documents of powermetrics, whole and damaged, and the tool that prints them."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

import pytest

from tests.sensors.powerdocs import HEAD, PLAIN, document, gpu
from tfwatch.sensors.gpu import powermetrics
from tfwatch.sensors.gpu.powermetrics import PowermetricsSource, documents, parse
from tfwatch.sensors.sensor import SensorError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Slow(io.RawIOBase):
    """Returns a few bytes per read, as a pipe does."""

    def __init__(self, text: bytes, size: int) -> None:
        self._text, self._size = io.BytesIO(text), size

    def read(self, size: int = -1) -> bytes:
        return self._text.read(self._size)


def whole(stream: bytes, size: int = 10**6) -> list[bytes]:
    """Return the documents of a stream up to its end."""
    found: list[bytes] = []
    with pytest.raises(SensorError, match="powermetrics ended"):
        found.extend(iter(documents(Slow(stream, size))))  # type: ignore[arg-type]
    return found


def test_a_document() -> None:
    assert parse(document()) == PLAIN


@pytest.mark.parametrize(
    ("name", "busy", "mhz", "watts", "cpu_watts", "level"),
    [
        pytest.param("powermetrics-m1-macos13", 0.0167, 714.836, 0.015353, 0.044077, 0, id="M1"),
        pytest.param(
            "powermetrics-m1-macos13-second", 0.0598, 715.009, 0.019012, 0.102663, 0, id="M1 2"
        ),
        pytest.param(
            "powermetrics-m4pro-macos15-gpu-only", 0.0047, 338, None, None, None, id="M4 Pro"
        ),
    ],
)
def test_recordings(
    name: str,
    busy: float,
    mhz: float,
    watts: float | None,
    cpu_watts: float | None,
    level: int | None,
    recording: Callable[[str], str],
) -> None:
    (found,) = whole(recording(f"{name}.plist").encode())
    figures = parse(found).figures

    assert figures["gpu_busy"] == pytest.approx(busy, abs=1e-4)
    assert (figures["gpu_freq_mhz"], figures["thermal_level"]) == (mhz, level)
    assert figures["gpu_power_w"] == (None if watts is None else pytest.approx(watts, abs=1e-6))
    assert figures["cpu_power_w"] == (
        None if cpu_watts is None else pytest.approx(cpu_watts, abs=1e-6)
    )


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        pytest.param(
            document(gpu(freq="<real>1.398e+09</real>")),
            "freq_mhz",
            1398,
            id="should it mean Hz one day",
        ),
        pytest.param(
            document(gpu(idle="<real>0.995</real>")),
            "busy",
            0.005,
            id="idle_ns is at odds with elapsed_ns",
        ),
        pytest.param(
            document(gpu(idle="<real>-0.0001</real>")), "busy", 1.0, id="idle a little below 0"
        ),
        pytest.param(
            document(elapsed="<key>elapsed_ns</key><integer>3000000000</integer>"),
            "power_w",
            1.0,
            id="late: over its time",
        ),
        pytest.param(
            document(elapsed="<key>elapsed_ns</key><integer>0</integer>"),
            "power_w",
            None,
            id="no time passed",
        ),
        pytest.param(
            document(processor="<key>gpu_energy</key><integer>6000</integer>"),
            "power_w",
            4.0,
            id="the processor's energy covers elapsed_ns, the GPU part's another window",
        ),
        pytest.param(
            document(processor="<key>gpu_power</key><real>250.5</real>"),
            "power_w",
            0.2505,
            id="the processor's mW before the GPU part's energy",
        ),
        pytest.param(
            document(processor=""),
            "power_w",
            None,
            id="the GPU part's energy, whose window is unknown",
        ),
        pytest.param(
            document(gpu(energy=""), "<key>gpu_power</key><real>250.5</real>", elapsed=""),
            "power_w",
            0.2505,
            id="mW alone",
        ),
        pytest.param(
            document(gpu("").replace("gpu</key>", "GPU</key>", 1)), "busy", None, id="no GPU part"
        ),
    ],
)
def test_traps(text: bytes, field: str, value: float | None) -> None:
    figure = parse(text).figures[f"gpu_{field}"]
    assert figure == (None if value is None else pytest.approx(value))


@pytest.mark.parametrize(
    ("word", "level", "limit"),
    [
        pytest.param("Nominal", 0, "", id="nominal"),
        pytest.param("Light", 1, "", id="light"),
        pytest.param("Moderate", 2, "", id="moderate"),
        pytest.param("Heavy", 3, "thermal pressure Heavy", id="heavy"),
        pytest.param("Critical", 4, "thermal pressure Critical", id="critical"),
        pytest.param("Trapping", 4, "thermal pressure Trapping", id="trapping"),
        pytest.param("Sleeping", 4, "thermal pressure Sleeping", id="sleeping"),
        pytest.param("Molten", None, "", id="a word of a later release"),
    ],
)
def test_heat(word: str, level: int | None, limit: str) -> None:
    reading = parse(document(thermal=f"<key>thermal_pressure</key><string>{word}</string>"))

    assert (reading.figures["thermal_level"], reading.limited_by) == (level, limit)


@pytest.mark.parametrize(
    ("was", "now", "busy"),
    [
        pytest.param("", "", 0.6, id="whole"),
        pytest.param("<real>0.4<", "<real>nan<", None, id="no activity"),
        pytest.param("<real>0.4<", "<real>7<", None, id="implausible activity"),
        pytest.param("712.5", "712.5<", None, id="a stray bracket"),
        pytest.param("</plist>", "", None, id="cut before its end"),
        pytest.param(HEAD, "\0\0\n " + HEAD, 0.6, id="NULs before it"),
    ],
)
def test_a_damaged_document_has_no_figures(was: str, now: str, busy: float | None) -> None:
    damaged = document().decode().replace(was, now, 1).encode()
    assert parse(damaged).figures["gpu_busy"] == busy


# -- framing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 7, 4096, 10**6])
def test_a_stream_is_cut_into_documents(size: int) -> None:
    first, second = document(), document(thermal="")
    stream = first + b"\n\0" + second + b"\n\0" + first[:-1]

    assert whole(stream, size) == [first, second]


def test_an_incomplete_document_is_left_out() -> None:
    one = document()
    stream = one[300:] + b"\0" + one + b"\0" + one[:500] + b"\0" + one + b"junk"

    assert whole(stream) == [one, one]


# -- the tool --------------------------------------------------------------------------------------


@pytest.fixture
def tool(tmp_path: Path) -> Callable[[str], PowermetricsSource]:
    """Return a function that makes a source whose tool runs these shell lines; `"$d"` is a
    document's path."""
    (tmp_path / "document").write_bytes(document() + b"\n\0")

    def make(lines: str) -> PowermetricsSource:
        path = tmp_path / "powermetrics"
        path.write_text(f"#!/bin/sh\nd={tmp_path}/document\n{lines}\n")
        path.chmod(0o755)
        return PowermetricsSource(command=(str(path),))

    return make


def test_a_tool_that_works(tool: Callable[[str], PowermetricsSource], tmp_path: Path) -> None:
    source = tool(f'echo $$ > {tmp_path}/pid; cat "$d" "$d" "$d"; exec sleep 600')

    assert source.why_unavailable() is None
    assert [source.read() for _ in range(2)] == [[PLAIN]] * 2
    pid = int((tmp_path / "pid").read_text())
    assert os.getsid(pid) == pid  # no terminal of the user's
    source.close()
    source.close()
    with pytest.raises(SensorError, match="does not run"):
        source.read()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param("sudo: a password is required", id="sudo"),
        pytest.param("powermetrics must be invoked as the superuser", id="not root"),
        pytest.param("user x is not allowed to execute", id="sudo has another rule"),
    ],
)
def test_without_permission_there_is_a_fix(
    words: str, tool: Callable[[str], PowermetricsSource]
) -> None:
    assert tool(f"echo {words} >&2; exit 1").why_unavailable() == Unavailable(
        "powermetrics runs as root only, and sudo has no rule for it",
        "tfwatch doctor --sudoers prints the line that permits powermetrics",
    )


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        pytest.param("exit 3", "powermetrics ended", id="exits at once"),
        pytest.param("echo no such >&2; exit 64", "ended: no such", id="prints its reason"),
        pytest.param("printf 'Pass:' >&2; read a", "ended: Pass:", id="prompts"),
        pytest.param("while :; do cat /bin/sh; done", "powermetrics ended", id="floods"),
    ],
)
def test_a_failed_tool_has_a_reason(
    lines: str, reason: str, tool: Callable[[str], PowermetricsSource]
) -> None:
    with pytest.raises(SensorError, match=reason):
        tool(lines).why_unavailable()


def test_a_missing_tool() -> None:
    source = PowermetricsSource(command=("/nowhere/sudo", "-n", "/nowhere/powermetrics"))

    assert source.why_unavailable() == Unavailable("powermetrics is a tool of macOS")


@pytest.mark.parametrize(("uid", "before"), [(0, ()), (501, ("/usr/bin/sudo", "-n"))])
def test_root_needs_no_sudo(
    uid: int, before: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)

    assert PowermetricsSource()._command == (*before, *powermetrics.COMMAND)
