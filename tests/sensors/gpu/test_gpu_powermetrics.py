"""Documents of powermetrics, whole and damaged."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from tests.sensors.powerdocs import HEAD, PLAIN, document, gpu
from tfwatch.sensors.gpu.powermetrics import documents, parse

if TYPE_CHECKING:
    from collections.abc import Callable


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
    (found,) = documents(io.BytesIO(recording(f"{name}.plist").encode()))
    reading = parse(found)

    assert reading.busy == pytest.approx(busy, abs=1e-4)
    assert reading.freq_mhz == mhz
    assert reading.power_w == (None if watts is None else pytest.approx(watts, abs=1e-6))
    assert reading.cpu_power_w == (
        None if cpu_watts is None else pytest.approx(cpu_watts, abs=1e-6)
    )
    assert reading.thermal_level == level


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
    assert getattr(parse(text), field) == (None if value is None else pytest.approx(value))


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

    assert (reading.thermal_level, reading.limited_by) == (level, limit)


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
    assert parse(document().decode().replace(was, now, 1).encode()).busy == busy


# -- framing ---------------------------------------------------------------------------------------


class Slow(io.RawIOBase):
    """Returns a few bytes per read, as a pipe does."""

    def __init__(self, text: bytes, size: int) -> None:
        self._text, self._size = io.BytesIO(text), size

    def read(self, size: int = -1) -> bytes:
        return self._text.read(self._size)


@pytest.mark.parametrize("size", [1, 7, 4096, 10**6])
def test_a_stream_is_cut_into_documents(size: int) -> None:
    first, second = document(), document(thermal="")
    stream = first + b"\n\0" + second + b"\n\0" + first[:-1]

    assert list(documents(Slow(stream, size))) == [first, second]  # type: ignore[arg-type]
    assert list(documents(io.BytesIO(stream))) == [first, second]


def test_an_incomplete_document_is_left_out() -> None:
    whole = document()
    stream = whole[300:] + b"\0" + whole + b"\0" + whole[:500] + b"\0" + whole + b"junk"

    assert list(documents(io.BytesIO(stream))) == [whole, whole]
