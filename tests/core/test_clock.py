"""The clocks that measure time asleep on each system."""

import time

import pytest

from tfwatch.core.clock import asleep_ns

SECOND_NS = 10**9


@pytest.mark.parametrize(
    ("clocks", "slept_ns"),
    [
        pytest.param({"CLOCK_BOOTTIME": 90, "CLOCK_MONOTONIC": 30}, 60 * SECOND_NS, id="Linux"),
        pytest.param(
            {"CLOCK_MONOTONIC": 7, "CLOCK_MONOTONIC_RAW": 90, "CLOCK_UPTIME_RAW": 50},
            40 * SECOND_NS,
            id="macOS",
        ),
        pytest.param({"CLOCK_MONOTONIC": 30}, None, id="neither"),
    ],
)
def test_time_asleep_is_the_difference_of_two_clocks(
    clocks: dict[str, int], slept_ns: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CLOCK_BOOTTIME", "CLOCK_UPTIME_RAW", "CLOCK_MONOTONIC", "CLOCK_MONOTONIC_RAW"):
        monkeypatch.delattr(time, name, raising=False)
    for name in clocks:
        monkeypatch.setattr(time, name, name, raising=False)
    monkeypatch.setattr(time, "clock_gettime_ns", lambda name: clocks[name] * SECOND_NS)

    assert asleep_ns() == slept_ns
