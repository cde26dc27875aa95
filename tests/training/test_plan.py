"""Switches and settings on the command line."""

from __future__ import annotations

import pytest

from tfwatch.runs.control.requests import Scheduled
from tfwatch.training.request import parse_switch


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("100:prefetch=4", Scheduled(100, "prefetch", 4)),
        ("0:workers=auto", Scheduled(0, "workers", "auto")),
        ("7:storage-latency=2.5", Scheduled(7, "latency_ms", 2.5)),
        ("7:cache=on", Scheduled(7, "cache", True)),
        ("7:shuffle=2000", Scheduled(7, "shuffle", 2000)),
        ("7:shuffle=off", Scheduled(7, "shuffle", "off")),
        ("7:storage-latency=off", Scheduled(7, "latency_ms", 0.0)),
    ],
)
def test_a_switch_is_read(text: str, expected: Scheduled) -> None:
    assert parse_switch(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "100", "100:", "100:prefetch", "x:prefetch=4", "-1:prefetch=4", "1:depth=4", "1:prefetch=0", "1:workers=x",
     "1:prefetch=9999", "1:storage-latency=-1", "1:storage-latency=nan", "²:prefetch=4",
     "1:cache=4", "1:shuffle=0", "1:shuffle=default"],
)  # fmt: skip
def test_any_other_text_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"give|choose|neither"):
        parse_switch(text)


@pytest.mark.parametrize("text", ["1:workers=2/4", "1:workers:decode=4"])
def test_a_setting_of_one_map_of_a_workload_is_refused(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"the maps of a workload have one setting together, e\.g\. 1:workers=4"
    ):
        parse_switch(text)
