"""Whatever a tool or the kernel prints, a parser returns plausible figures or none, and quickly."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from tests.sensors.gpu import test_ioreg
from tests.sensors.gpu.test_powermetrics import DOCUMENT
from tests.sensors.test_host import KEY, SYSCTL
from tfwatch.sensors import host
from tfwatch.sensors.gpu import ioreg
from tfwatch.sensors.gpu.powermetrics import parse

if TYPE_CHECKING:
    from collections.abc import Callable


def _level(sensor: type[host.ToolSensor], text: str) -> list[float | None]:
    match = sensor.pattern.search(text)
    return [int(match[1]) if match else None]


#: Each parser with an output that it can read.
PARSERS: dict[str, tuple[Callable[[str], list[float | None]], str]] = {
    "powermetrics": (lambda text: [*parse(text.encode("utf-8", "replace")).values()], DOCUMENT),
    "ioreg": (lambda text: [*ioreg.parse(text).values()], test_ioreg.gpu()),
    "clients": (lambda text: [*ioreg.parse_clients(text).values()], test_ioreg.client(7, 55)),
    "sysctl": (lambda text: _level(host.MacPressureSensor, text), SYSCTL),
    "notifyutil": (lambda text: _level(host.MacThermalSensor, text), f"{KEY} 3\n"),
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
        pytest.param("<plist><" + "a" * 2**20 + "</plist>", id="one long token"),
        pytest.param('"PerformanceStatistics" = {' * 10**5, id="statistics"),
        pytest.param('"IOUserClientCreator" = "pid ' * 10**5, id="creators"),
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
