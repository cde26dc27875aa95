"""The marks below the axis, as a row of text."""

from __future__ import annotations

import numpy as np
import pytest

from tests.screens.live.timeline.test_step_bars import COMPUTE_BOUND, GAP, columns
from tfwatch.core.events import (
    EpochEnded,
    Event,
    Noted,
    Paused,
    PipelineSwitched,
    Slept,
    SwitchFailed,
    TrainingFailed,
    ValidationEnded,
    WatchFailed,
)
from tfwatch.core.rows import Flag
from tfwatch.screens.live.timeline.marks import (
    EventMark,
    Kind,
    Label,
    bar_marks,
    clip_labels,
    event_marks,
    place,
    runs,
)
from tfwatch.screens.live.timeline.window import ago, tick_step

SECOND = 10**9
STARTS = np.arange(40, dtype=np.float64) * 0.25


def row(labels: list[Label], count: int = 40) -> str:
    text = [" "] * count
    for label in labels:
        text[label.column : label.column + len(label.text)] = label.text
    return "".join(text)


def placed(*marks: EventMark) -> str:
    return row(place(marks, STARTS, 10.0)).rstrip()


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (PipelineSwitched(0, "prefetch", "off", "4", 1, 3, 2.0, "key"), "p prefetch off>4"),
        (PipelineSwitched(0, "workers", "off", "auto", 1, 3, 2.0, "key"), "w workers off>auto"),
        (
            PipelineSwitched(0, "device_prefetch", "off", "2", 1, 3, 2.0, "key"),
            "g device prefetch off>2",
        ),
        (
            SwitchFailed(0, "device_prefetch", "no", "off", "2", 1, "off"),
            "X device prefetch switch failed",
        ),
        (ValidationEnded(3 * SECOND, 0, 2100.0), "EV 2.1 s"),
        (EpochEnded(0, 1, 500, {}), "E 2"),
        (TrainingFailed(0, 412, "ValueError", ""), "X failed"),
        (WatchFailed(0, "full"), "X not measured"),
        (SwitchFailed(0, "prefetch", "no", "off", "4", 1, "off"), "X prefetch switch failed"),
        (Slept(0, 90_000.0), "Z asleep 1:30"),
        (Paused(9 * SECOND, "thermal limit", 5000.0), "H heat 5.0 s"),
        (Paused(9 * SECOND, "swap", 5000.0, "120 MB"), "M swap 5.0 s"),
    ],
)
def test_events_become_marks(event: Event, text: str) -> None:
    (mark,) = event_marks([event, Noted(0, "nothing to mark")], to=">")
    assert mark.texts[0] == text


def test_a_validation_stands_where_it_began() -> None:
    (mark,) = event_marks([ValidationEnded(3 * SECOND, 0, 2000.0)], to=">")
    assert (mark.at_s, mark.length_s) == (1.0, 2.0)


def test_labels_stand_at_their_columns_and_never_overlap() -> None:
    switch = EventMark(2.5, Kind.SWITCH, ("p prefetch off>4", "p off>4", "p"))
    epoch = EventMark(1.5, Kind.EPOCH, ("E 1", "E"))
    stall = EventMark(1.0, Kind.STALL, ("S stall 3.5 s", "S 3.5 s", "S"))
    assert placed(switch, epoch) == "      E 1 p prefetch off>4"
    assert placed(switch, stall) == "    S     p prefetch off>4"
    assert placed(stall, epoch) == "    S stall 3.5 s"


def test_at_the_right_edge_a_label_ends_at_the_edge() -> None:
    assert (
        placed(EventMark(9.9, Kind.SWITCH, ("p prefetch off>4",))) == " " * 24 + "p prefetch off>4"
    )


def test_a_mark_from_before_the_view_shows_while_it_lasts_in_the_view() -> None:
    assert placed(EventMark(-3.0, Kind.VALIDATION, ("EV 5.0 s",), length_s=5.0)) == "EV 5.0 s"
    assert placed(EventMark(-3.0, Kind.VALIDATION, ("EV 2.0 s",), length_s=2.0)) == ""
    assert placed(EventMark(11.0, Kind.SWITCH, ("p",))) == ""


def test_a_stall_and_a_compile_are_found_in_the_bars() -> None:
    wait, compiled = (3500.0, 1.0, 10.0), (10.0, 1.0, 2400.0)
    bars = columns(
        compiled,
        compiled,
        COMPUTE_BOUND,
        wait,
        wait,
        GAP,
        steps=[1, 0, 10, 1, 0, 0],
        flags=[int(Flag.COMPILE)] + [0] * 5,
    )
    marks = bar_marks(bars, 30.0, np.zeros(6, dtype=np.bool_))
    assert [(mark.at_s, mark.texts[0]) for mark in marks] == [
        (0.0, "C compile 2.4 s"),
        (0.75, "S stall 3.5 s"),
    ]


def test_a_wait_that_filled_a_shuffle_buffer_is_named() -> None:
    bars = columns(COMPUTE_BOUND, (900.0, 1.0, 10.0), steps=[10, 0])
    (mark,) = bar_marks(bars, 30.0, np.array([True, False]))
    assert mark.texts == ("S shuffle 0.9 s", "S 0.9 s", "S shuffle", "S")


def test_where_every_step_waits_for_long_no_step_is_a_stall() -> None:
    slow = columns(*[(600.0, 10.0, 200.0)] * 4, steps=1)
    assert bar_marks(slow, 1000.0, np.zeros(4, dtype=np.bool_)) == []


def test_a_length_is_left_out_where_the_column_holds_other_steps_too() -> None:
    (mark,) = bar_marks(columns((700.0, 1.0, 10.0), steps=5), 30.0, np.array([False]))
    assert mark.texts == ("S stall", "S")


@pytest.mark.parametrize(
    ("clipped", "expected"),
    [
        pytest.param("..########", (4, ">20 s", True), id="on a wide wall"),
        pytest.param("..##......", (4, ">20 s", False), id="right of a narrow one"),
        pytest.param("......##..", (1, ">20 s", False), id="left of it at the edge"),
    ],
)
def test_clipped_columns_show_their_height(clipped: str, expected: tuple[int, str, bool]) -> None:
    over = np.array([char == "#" for char in clipped])
    assert clip_labels(np.where(over, 20_300.0, 14.0), over, ~over) == [expected]


def test_a_clip_label_that_fits_nowhere_is_left_out() -> None:
    over = np.array([False, True, False])
    assert clip_labels(np.array([1.0, 412.7, 1.0]), over, ~over) == []


@pytest.mark.parametrize(
    ("value_ms", "text"), [(412.7, ">412 ms"), (3590.0, ">3.5 s"), (20_900.0, ">20 s")]
)
def test_clip_labels_round_down_so_that_they_hold(value_ms: float, text: str) -> None:
    over = np.ones(20, dtype=np.bool_)
    assert clip_labels(np.full(20, value_ms), over, ~over)[0][1] == text


def test_stretches_are_found_at_both_edges() -> None:
    assert runs(np.array([True, False, True, True])) == [(0, 1), (2, 4)]


@pytest.mark.parametrize(
    ("window_s", "most", "step"), [(22.75, 6, 5.0), (364, 6, 120.0), (3640, 6, 900.0)]
)
def test_ticks_are_round(window_s: float, most: int, step: float) -> None:
    assert tick_step(window_s, most) == step


@pytest.mark.parametrize(
    ("seconds", "text"), [(16.0, "-16 s"), (300.0, "-5 min"), (7200.0, "-2 h")]
)
def test_ticks_read_in_their_largest_unit(seconds: float, text: str) -> None:
    assert ago(seconds) == text
