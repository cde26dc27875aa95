"""Documents of powermetrics, whole and damaged."""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sensors.powerdocs import CLUSTER, HEAD, PLAIN, document, gpu, state
from tfwatch.sensors.gpu.powermetrics import documents, parse
from tfwatch.sensors.protocol import FullReading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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
            document(gpu(freq="<real>1398</real>")), "freq_mhz", 1398, id="freq_hz is MHz"
        ),
        pytest.param(
            document(gpu(freq="<real>1.398e+09</real>")),
            "freq_mhz",
            1398,
            id="should it mean Hz one day",
        ),
        pytest.param(
            document(gpu(freq="<real>nan</real>")),
            "freq_mhz",
            666.0,
            id="frequency NaN: from the states",
        ),
        pytest.param(
            document(gpu(freq="<real>nan</real>", states="")),
            "freq_mhz",
            None,
            id="frequency NaN, no states",
        ),
        pytest.param(
            document(gpu(idle="<real>0.995</real>")),
            "busy",
            0.005,
            id="idle_ns is at odds with elapsed_ns",
        ),
        pytest.param(
            document(gpu(idle="<real>nan</real>")), "busy", 0.6, id="idle NaN: from the states"
        ),
        pytest.param(
            document(gpu(idle="<real>-nan</real>", states="")),
            "busy",
            None,
            id="idle NaN, no states",
        ),
        pytest.param(
            document(gpu(idle="<real>nan</real>", states=state(396, 0.0) + state(720, 0.0))),
            "busy",
            None,
            id="idle NaN, and no state was used",
        ),
        pytest.param(
            document(
                gpu(
                    idle="<real>nan</real>",
                    states=state(396, 0.0).replace("used_ns", "no_ns"),
                    again="",
                )
            ),
            "busy",
            None,
            id="idle NaN, and no share is above 0",
        ),
        pytest.param(
            document(gpu(idle="<real>-0.0001</real>")), "busy", 1.0, id="idle a little below 0"
        ),
        pytest.param(
            document(gpu(idle="<real>7</real>", states="")), "busy", None, id="implausible idle"
        ),
        pytest.param(
            document(
                gpu(
                    again="<key>idle_ns</key><integer>400</integer><key>idle_ratio</key><real>0.4</real>"
                )
            ),
            "busy",
            0.6,
            id="keys given twice",
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
            document(processor="<key>gpu_energy</key><integer>-5</integer>"),
            "power_w",
            None,
            id="negative energy",
        ),
        pytest.param(document(processor=""), "cpu_power_w", None, id="without the processor"),
        pytest.param(
            document(clusters=CLUSTER % "M17-Cluster"),
            "cpu_power_w",
            3.0,
            id="a cluster of unknown name",
        ),
        pytest.param(
            document(gpu("").replace("gpu</key>", "GPU</key>", 1)), "busy", None, id="no GPU part"
        ),
        pytest.param(
            document(f"<key>gpu</key><array>{gpu()[15:]}</array>"), "busy", 0.6, id="a list of GPUs"
        ),
        pytest.param(document(thermal=""), "thermal_level", None, id="without heat"),
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
    "damage",
    [
        pytest.param(lambda text: text.replace(b"712.5", b"712.5<"), id="a stray bracket"),
        pytest.param(
            lambda text: text.replace(b"<integer>400<", b"<integer>nan<", 1),
            id="an integer that is none",
        ),
        pytest.param(
            lambda text: text.replace(b"2025-07-06", b"yesterday"), id="a date that is none"
        ),
        pytest.param(lambda text: text.replace(b"</plist>", b""), id="cut before its end"),
        pytest.param(
            lambda text: text.replace(b"E-Cluster", b"E\xff\xfe& Cluster"),
            id="bytes that are no text",
        ),
        pytest.param(lambda text: b"\0\0\n " + text + b"\0", id="NULs around it"),
        pytest.param(
            lambda text: text.replace(b"DOCTYPE plist", b'DOCTYPE plist [<!ENTITY a "b">]'),
            id="an entity",
        ),
    ],
)
def test_figures_of_a_damaged_document(damage: Callable[[bytes], bytes]) -> None:
    reading = parse(damage(document()))

    assert (reading.busy, reading.power_w, reading.cpu_power_w) == (0.6, 2.0, 3.0)


def test_a_document_cut_anywhere_has_no_false_figure() -> None:
    whole = document()
    for end in range(0, len(whole), 7):
        reading = parse(whole[:end])
        assert reading.busy in (None, 0.6), whole[:end][-60:]
        assert reading.power_w in (None, 2.0)
        assert reading.cpu_power_w in (None, 3.0)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\0" * 1000, id="NULs"),
        pytest.param(b"<plist><array/></plist>", id="a list"),
        pytest.param(b"<plist>", id="nothing in it"),
        pytest.param(b"bplist00\xd1\x01\x02", id="a binary property list"),
        pytest.param(b"powermetrics must be invoked as the superuser", id="a refusal"),
        pytest.param(HEAD.encode() + b"<dict>" * 20_000, id="deep"),
        pytest.param(b"<key>gpu</key>" * 200_000, id="keys alone"),
        pytest.param(b"x" * 10**7, id="10 MB"),
        pytest.param(b"<plist>" + b"<" * 10**6, id="brackets"),
        pytest.param(b"<plist><" + b"a" * 10**7 + b"</plist>", id="one long token"),
    ],
)
def test_other_text_has_no_figures(text: bytes) -> None:
    assert parse(text) == FullReading()
    assert not [found for found in documents(io.BytesIO(text)) if parse(found) != FullReading()]


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


def test_a_flood_without_documents_ends_them() -> None:
    def flood() -> Iterator[bytes]:
        yield document()
        while True:
            yield b"y\n" * 30_000

    class Flood(io.RawIOBase):
        def __init__(self) -> None:
            self._pieces = flood()

        def read(self, size: int = -1) -> bytes:
            return next(self._pieces)

    assert list(documents(Flood())) == [document()]  # type: ignore[arg-type]


# -- fuzz ------------------------------------------------------------------------------------------


def is_plausible(reading: FullReading) -> bool:
    shares = (reading.busy, reading.process_busy)
    figures = (reading.freq_mhz, reading.power_w, reading.cpu_power_w)
    return all(share is None or 0 <= share <= 1 for share in shares) and all(
        figure is None or (math.isfinite(figure) and figure >= 0) for figure in figures
    )


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=3000))
def test_any_bytes(text: bytes) -> None:
    assert is_plausible(parse(text))
    assert is_plausible(parse(HEAD.encode() + b"<dict><key>gpu</key><dict>" + text))
    for found in documents(io.BytesIO(text)):
        assert found in text


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, len(document()) - 1), st.binary(max_size=12), st.integers(0, 40)),
        max_size=8,
    ),
)
def test_a_document_with_damages(damages: list[tuple[int, bytes, int]]) -> None:
    text = document()
    for at, put, cut in damages:
        text = text[:at] + put + text[at + cut :]

    assert is_plausible(parse(text))


_numbers = st.one_of(
    st.floats().map(lambda number: f"<real>{number}</real>"),
    st.integers(-(10**30), 10**30).map(lambda number: f"<integer>{number}</integer>"),
    st.sampled_from(
        [
            "<real/>",
            "<true/>",
            "<string>0.5</string>",
            "<array/>",
            "<dict/>",
            "<real>1e999</real>",
            "",
        ]
    ),
)


@settings(max_examples=150, deadline=None)
@given(_numbers, _numbers, _numbers, _numbers)
def test_any_numbers(freq: str, idle: str, energy: str, elapsed: str) -> None:
    part = gpu(freq, idle, again="", energy=f"<key>gpu_energy</key>{energy}")

    assert is_plausible(parse(document(part, elapsed=f"<key>elapsed_ns</key>{elapsed}")))
