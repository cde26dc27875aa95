"""The events of a reader."""

import time

import pytest

from tfwatch.core.events import Event, Noted, Paused, Slept
from tfwatch.runs.buffers import EventLog


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


def test_an_event_that_comes_late_makes_no_stretch_of_a_long_run_slower() -> None:
    """Pauses do: the sensors find where one ended at their next reading."""
    many = [*range(0, 200_000), 199_990]
    took_s = []
    for times in (many[:-1], many):
        events = log_of(*map(noted, times)).view()
        begin_s = time.process_time()
        for _ in range(50):
            assert len(events.between(Noted, 100_000, 100_010)) == 10
        took_s.append(time.process_time() - begin_s)

    assert took_s[1] < 50 * took_s[0]
