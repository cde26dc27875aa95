"""Whatever a tool or the kernel prints, a parser returns plausible figures or none, and quickly."""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from tests.sensors.gpu import test_ioreg
from tests.sensors.powerdocs import HEAD, document
from tests.sensors.test_kernel import KEY, SYSCTL
from tfwatch.sensors import kernel
from tfwatch.sensors.gpu import ioreg, powermetrics
from tfwatch.sensors.sensor import SensorError

if TYPE_CHECKING:
    from collections.abc import Callable


def _encoded(text: str) -> bytes:
    return text.encode(errors="replace")


def _level(sensor: type[kernel.ToolSensor], text: str) -> list[float | None]:
    match = sensor.pattern.search(text)
    return [int(match[1]) if match else None]


def _powermetrics(text: str) -> list[float | None]:
    found: list[bytes] = []
    with pytest.raises(SensorError):
        found.extend(iter(powermetrics.documents(io.BytesIO(_encoded(text)))))
    assert all(document in _encoded(text) for document in found)
    figures = powermetrics.parse(_encoded(text)).figures
    assert figures["gpu_busy"] is None or 0 <= figures["gpu_busy"] <= 1
    return [*figures.values()]


#: Each parser with an output that it can read.
PARSERS: dict[str, tuple[Callable[[str], list[float | None]], str]] = {
    "powermetrics": (_powermetrics, document().decode()),
    "ioreg": (lambda text: [*ioreg.parse(text).values()], test_ioreg.gpu()),
    "clients": (lambda text: [*ioreg.parse_clients(text).values()], test_ioreg.client(7, 55)),
    "sysctl": (lambda text: _level(kernel.MacPressureSensor, text), SYSCTL),
    "notifyutil": (lambda text: _level(kernel.MacThermalSensor, text), f"{KEY} 3\n"),
    "pressure": (
        lambda text: [kernel.parse_pressure(text)],
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=123\nfull avg10=0.00 total=4\n",
    ),
}
PARSED = pytest.mark.parametrize("name", PARSERS)


def figures_of(name: str, text: str) -> list[float]:
    """Return the figures of an output; each has to be a plausible number."""
    found = [value for value in PARSERS[name][0](text) if value is not None]
    assert all(math.isfinite(value) and 0 <= value < 2**64 for value in found)
    return found


@PARSED
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("\0" * 10**6, id="NULs"),
        pytest.param("\n" * 10**6, id="lines"),
        pytest.param(" |" * 10**6 + "+-o ", id="strokes of a tree"),
        pytest.param("<plist><" + "a" * 10**7 + "</plist>", id="one long token"),
        pytest.param(HEAD + "<dict>" * 20_000, id="deep"),
        pytest.param("<plist>" + "<" * 10**6, id="brackets"),
        pytest.param("<key>gpu</key>" * 200_000, id="keys alone"),
        pytest.param('"PerformanceStatistics" = {' * 10**5, id="statistics"),
        pytest.param('"IOUserClientCreator" = "pid ' * 10**5, id="creators"),
        pytest.param("bplist00\xd1\x01\x02", id="a binary property list"),
        pytest.param("powermetrics must be invoked as the superuser", id="a refusal"),
    ],
)
def test_other_text_has_no_figures(name: str, text: str) -> None:
    assert figures_of(name, text) == []


@PARSED
def test_an_output_cut_anywhere_has_no_other_figure_than_the_whole(name: str) -> None:
    whole = PARSERS[name][1]
    known = figures_of(name, whole)
    assert known
    for end in range(0, len(whole), 3):
        assert set(figures_of(name, whole[:end])) <= set(known), whole[:end][-60:]


@PARSED
@settings(max_examples=60, deadline=None)
@given(data=some.data())
def test_any_damage_leaves_plausible_figures_or_none(name: str, data: some.DataObject) -> None:
    text = PARSERS[name][1]
    damages = some.tuples(some.integers(0, len(text)), some.text(max_size=9), some.integers(0, 40))
    for at, put, cut in data.draw(some.lists(damages, max_size=8)):
        text = text[:at] + put + text[at + cut :]
    figures_of(name, text)
    figures_of(name, data.draw(some.text(max_size=500)))


_NUMBERS = some.one_of(
    some.floats().map(lambda number: f"<real>{number}</real>"),
    some.integers(-(10**30), 10**30).map(lambda number: f"<integer>{number}</integer>"),
    some.sampled_from(
        ["<real/>", "<true/>", "<string>0.5</string>", "<dict/>", "<real>1e999</real>", ""]
    ),
)


@settings(max_examples=100, deadline=None)
@given(text=some.text().map(_encoded), numbers=some.lists(_NUMBERS, min_size=4, max_size=4))
def test_any_numbers_of_powermetrics_are_plausible_or_none(text: bytes, numbers: list[str]) -> None:
    whole = document().decode()
    for number in ("<real>712.5</real>", "<real>0.4</real>", "<integer>3000</integer>"):
        whole = whole.replace(number, numbers.pop(), 1)
    figures_of("powermetrics", whole)
    figures_of("powermetrics", HEAD + "<dict><key>gpu</key><dict>" + text.decode())


def test_a_flood_without_documents_ends_them() -> None:
    class Flood(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            return b"y\n" * 30_000

    with pytest.raises(SensorError, match="powermetrics ended: y"):
        next(powermetrics.documents(Flood()))  # type: ignore[arg-type]
