"""Buffers of a reader: rows that grow, every n-th row, and the events."""

from __future__ import annotations

import numpy as np
import pytest

from tfwatch.core.events import Event, Noted, Paused, Slept
from tfwatch.core.rows import STEP
from tfwatch.runs.buffers import EventLog, NewestRows


def noted(at_ns: int) -> Noted:
    return Noted(at_ns, f"at {at_ns}")


def log_of(*events: Event) -> EventLog:
    log = EventLog()
    for event in events:
        log.add(event)
    return log


def test_a_view_has_the_events_in_the_order_of_writing() -> None:
    written = (noted(1), Slept(2, 3.0), noted(4))

    events = log_of(*written).view()

    assert tuple(events) == written
    assert (len(events), events[0], events[-1], events[1:]) == (
        3,
        written[0],
        written[2],
        [written[1], written[2]],
    )
    assert list(reversed(events)) == [written[2], written[1], written[0]]
    with pytest.raises(IndexError):
        events[3]


def test_a_view_does_not_change_with_new_events() -> None:
    log = log_of(noted(1), Slept(2, 3.0))
    before = log.view()
    log.add(noted(3))
    log.add(Paused(4, "swap", 5.0))

    assert tuple(before) == (noted(1), Slept(2, 3.0))
    assert (before.newest(Noted), before.newest(Paused)) == (noted(1), None)
    assert before.of(Noted, Paused) == [noted(1)]
    assert before.between(Noted, 0, 10) == [noted(1)]
    assert log.view().newest(Noted) == noted(3)


@pytest.mark.parametrize("times", [[1, 2, 2, 3, 7], [7, 2, 1, 3, 2]])
def test_a_stretch_of_time_includes_its_beginning_but_not_its_end(times: list[int]) -> None:
    events = log_of(*map(noted, times)).view()

    assert sorted(event.at_ns for event in events.between(Noted, 2, 7)) == [2, 2, 3]


@pytest.mark.parametrize(
    "sizes", [[1] * 30, [3, 5, 2, 9, 1, 4, 4], [10], [25], [9, 25, 1], [0, 4, 0]], ids=str
)
def test_the_last_rows_are_kept_for_any_size_of_addition(sizes: list[int]) -> None:
    newest, every = NewestRows(STEP, 10), np.zeros(sum(sizes), dtype=STEP)
    every["step"] = np.arange(len(every))
    views = []

    came = 0
    for size in sizes:
        newest.extend(every[came : came + size])
        came += size
        views.append((newest.rows, every[max(came - 10, 0) : came]))

    for view, expected in views:
        assert view["step"].tolist() == expected["step"].tolist()


def test_a_view_is_read_only() -> None:
    newest = NewestRows(STEP, 10)
    newest.extend(np.zeros(3, dtype=STEP))

    with pytest.raises(ValueError, match="read-only"):
        newest.rows["step"][0] = 1
