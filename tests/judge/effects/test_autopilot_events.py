"""The autopilot in words."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tfwatch.core.events import (
    AutopilotBegan,
    AutopilotEnded,
    MoveJudged,
    MoveMade,
    Noted,
    PipelineSwitched,
)
from tfwatch.core.knobs import KnobChange
from tfwatch.judge.effects.tuner_text import (
    autopilot_end_text,
    autopilot_gain_text,
    autopilot_runs,
    find_undecided_move,
    move_line,
    running_autopilot,
)

BEGAN = AutopilotBegan(0, 1, 2e9)
MADE = MoveMade(1, 20, "workers", "off", "8", "on several cores", forecast_ms=9.1)
KEPT = MoveJudged(2, 90, "workers", "off", "8", 23.4, 9.24, 60, True)
SECOND = MoveMade(3, 90, "prefetch", "off", "4", "it overlaps")
UNDONE = MoveJudged(4, 160, "prefetch", "off", "4", 9.24, 9.21, 60, False, "no gain beyond noise")
BACK = MoveMade(5, 160, "prefetch", "4", "off", "it did not help", undoes=True)
ENDED = AutopilotEnded(
    6, 170, "not_starving", "each step waits 0.1 of 9.2 ms for data", 169, 23.4, 9.24
)
ENDED = replace(ENDED, ratio=2.53, low=2.41, high=2.66)


def test_a_flight_is_told_move_by_move() -> None:
    words = [
        autopilot_run.progress
        for n in range(1, 7)
        if (autopilot_run := running_autopilot([BEGAN, MADE, KEPT, SECOND, UNDONE, BACK][:n]))
    ]
    assert words == [
        "measuring the current setting",
        "move 1: workers off → 8, forecast 9.1 ms",
        "workers off → 8 kept: 23.4 to 9.2 ms",
        "move 2: prefetch off → 4; workers off → 8 kept: 23.4 to 9.2 ms",
        "prefetch off → 4 undone: 9.2 to 9.2 ms, no gain beyond noise",
        "prefetch off → 4 undone: 9.2 to 9.2 ms, no gain beyond noise",
    ]


def test_one_that_has_ended_goes_on_no_more() -> None:
    events = [Noted(0, "x"), BEGAN, MADE, KEPT, SECOND, UNDONE, BACK, ENDED]
    assert running_autopilot(events) is None
    (autopilot_run,) = autopilot_runs(events)
    assert (autopilot_run.moves, autopilot_run.ended) == ((KEPT, UNDONE), ENDED)
    assert running_autopilot([*events, BEGAN]) is not None
    assert autopilot_runs([ENDED, BEGAN, MADE, Noted(2, "x")])[0].ended is None


def test_what_it_gave_is_of_the_moves_that_it_kept() -> None:
    (helped,) = autopilot_runs([BEGAN, MADE, KEPT, SECOND, UNDONE, BACK, ENDED])
    (idle,) = autopilot_runs([BEGAN, SECOND, UNDONE, BACK, ENDED])
    assert (
        autopilot_gain_text(helped) == "autopilot: 2.53 x faster (2.41 to 2.66), 1 of 2 moves kept"
    )
    assert autopilot_gain_text(idle) == "autopilot: unchanged, 0 of 1 moves kept"


def test_two_knobs_turned_at_once_are_told_as_one_move() -> None:
    both = MoveJudged(
        2,
        90,
        "prefetch",
        "off",
        "4",
        38.5,
        6.15,
        20,
        True,
        beside=(KnobChange("workers", "off", "4"),),
    )
    assert move_line(both) == "prefetch off → 4 with workers off → 4 kept: 38.5 to 6.2 ms"
    likely = MoveJudged(
        2, 90, "prefetch", "off", "4", 4.2, 3.5, 20, True, "within noise, faster as forecast", 1.3
    )
    assert (
        move_line(likely)
        == "prefetch off → 4 kept: 4.2 to 3.5 ms, within noise, faster as forecast, forecast 1.3"
    )


def test_the_end_says_what_waiting_is_left() -> None:
    told = AutopilotEnded(
        6,
        170,
        "not_starving",
        "each step waits 0.1 of 9.2 ms for data",
        169,
        23.4,
        9.24,
        0.612,
        0.011,
    )
    assert (
        autopilot_end_text(told)
        == "autopilot: 23.4 to 9.2 ms/step, data wait 61 % to 1 %, in 169 steps; each step waits"
        " 0.1 of 9.2 ms for data"
    )
    assert (
        autopilot_end_text(ENDED)
        == "autopilot: 2.53 x faster (2.41 to 2.66), 23.4 to 9.2 ms/step, in 169 steps; "
        "each step waits 0.1 of 9.2 ms for data"
    )


def test_a_gain_is_claimed_only_where_its_interval_excludes_1() -> None:
    unclear, older = (
        replace(ENDED, ratio=1.05, low=0.97, high=1.13),
        replace(ENDED, ratio=None, low=None, high=None),
    )
    drifted = replace(ENDED, compute_drift=-0.09)
    texts = [
        autopilot_gain_text(autopilot_run)
        for ended in (unclear, older, drifted)
        for autopilot_run in autopilot_runs([BEGAN, MADE, KEPT, ended])
    ]
    assert texts == [
        "autopilot: not clear (0.97 to 1.13), 1 of 1 moves kept",
        "autopilot: 23.4 to 9.2 ms/step, 1 of 1 moves kept",
        "autopilot: compute drifted by 9 %, not the data wait, 1 of 1 moves kept",
    ]
    assert "not clear (0.97 to 1.13)" in autopilot_end_text(unclear)
    assert "faster" not in autopilot_end_text(older)


def test_an_autopilot_that_still_runs_claims_nothing_yet() -> None:
    (running,) = autopilot_runs([BEGAN, MADE, KEPT])
    assert (
        autopilot_gain_text(running) == "autopilot: 23.4 to 9.2 ms/step so far, 1 of 1 moves kept"
    )


def turned(knob: str, old: str, new: str, by: str = "autopilot") -> PipelineSwitched:
    return PipelineSwitched(0, knob, old, new, 20, 22, 1.0, by)


TURNED = turned("workers", "off", "8")


@pytest.mark.parametrize(
    ("events", "move"),
    [
        pytest.param([], None, id="nothing flew"),
        pytest.param([BEGAN, MADE], None, id="asked, not in effect"),
        pytest.param([BEGAN, MADE, TURNED], MADE, id="not judged"),
        pytest.param([BEGAN, MADE, TURNED, ENDED], MADE, id="the run ended first"),
        pytest.param([BEGAN, MADE, TURNED, KEPT], None, id="kept"),
        pytest.param(
            [BEGAN, SECOND, turned("prefetch", "off", "4"), UNDONE],
            SECOND,
            id="judged, not taken back",
        ),
        pytest.param(
            [BEGAN, SECOND, turned("prefetch", "off", "4"), UNDONE, BACK], SECOND, id="asked back"
        ),
        pytest.param(
            [
                BEGAN,
                SECOND,
                turned("prefetch", "off", "4"),
                UNDONE,
                BACK,
                turned("prefetch", "4", "off"),
            ],
            None,
            id="taken back",
        ),
        pytest.param(
            [BEGAN, MADE, TURNED, turned("workers", "8", "4", "key")], None, id="turned by a hand"
        ),
        pytest.param(
            [BEGAN, MADE, TURNED, turned("prefetch", "off", "4", "key")],
            MADE,
            id="another knob by a hand",
        ),
    ],
)
def test_a_move_is_undecided_while_it_is_in_effect_and_not_kept(
    events: list[object], move: MoveMade | None
) -> None:
    assert find_undecided_move(events) == move
