"""The autopilot in words."""

import pytest
from msgspec.structs import replace

from tfwatch.core.events import AutopilotBegan, AutopilotEnded, MoveJudged, MoveMade, Noted
from tfwatch.core.knobs import KnobChange
from tfwatch.judge.effects.switching_state import autopilot_runs, running_autopilot
from tfwatch.judge.effects.wording import autopilot_parts, autopilot_text, move_line

BEGAN = AutopilotBegan(0, 1)
WORKERS, PREFETCH = (KnobChange("workers", "off", "8"),), (KnobChange("prefetch", "off", "4"),)
MADE = MoveMade(1, 20, WORKERS, forecast_ms=9.1)
KEPT = MoveJudged(2, 90, WORKERS, 23.4, 9.24, 60, True)
SECOND = MoveMade(3, 90, PREFETCH)
UNDONE = MoveJudged(4, 160, PREFETCH, 9.24, 9.21, 60, False, "no gain of 2 %")
ENDED = AutopilotEnded(6, 170, "not_starving", "data wait is only 1 % of a step", 169, 23.4, 9.24)
ENDED = replace(ENDED, ratio=2.53, low=2.41, high=2.66, knobs={"workers": "8", "prefetch": "off"})


def test_a_run_is_reported_move_by_move() -> None:
    words = [
        "; ".join(autopilot_parts(autopilot_run))
        for n in range(1, 6)
        if (autopilot_run := running_autopilot([BEGAN, MADE, KEPT, SECOND, UNDONE][:n]))
    ]
    assert words == [
        "measuring the current setting",
        "move 1: workers off → 8, forecast 9.1 ms",
        "workers off → 8 kept: 23.4 to 9.2 ms",
        "move 2: prefetch off → 4; workers off → 8 kept: 23.4 to 9.2 ms",
        "prefetch off → 4 undone: 9.2 to 9.2 ms, no gain of 2 %",
    ]


def test_one_that_has_ended_no_longer_runs() -> None:
    events = [Noted(0, "x"), BEGAN, MADE, KEPT, SECOND, UNDONE, ENDED]
    assert running_autopilot(events) is None
    (autopilot_run,) = autopilot_runs(events)
    assert (autopilot_run.moves, autopilot_run.ended) == ((KEPT, UNDONE), ENDED)
    assert running_autopilot([*events, BEGAN]) is not None
    assert autopilot_runs([ENDED, BEGAN, MADE, Noted(2, "x")])[0].ended is None


def test_two_knobs_switched_together_are_one_move() -> None:
    changes = (KnobChange("prefetch", "off", "4"), KnobChange("workers", "off", "4"))
    both = MoveJudged(2, 90, changes, 38.5, 6.15, 20, True)
    assert move_line(both) == "prefetch off → 4, workers off → 4 kept: 38.5 to 6.2 ms"


RESTORED = replace(
    ENDED,
    cause="budget",
    reason="the gain of all moves together is not proved",
    ratio=None,
    knobs={"workers": "off"},
)
OVER = replace(
    ENDED,
    cause="over",
    reason="the run has ended",
    ratio=None,
    knobs={"workers": "8", "prefetch": "4"},
)


@pytest.mark.parametrize(
    ("moves", "ended", "text"),
    [
        pytest.param(
            [MADE, KEPT, SECOND, UNDONE],
            ENDED,
            "2.53 x faster (2.41 to 2.66), kept workers off → 8; data wait is only 1 % of a step",
            id="proved",
        ),
        pytest.param(
            [MADE, KEPT],
            replace(ENDED, cause="user", reason="it was cancelled", ratio=None),
            "kept workers off → 8; it was cancelled",
            id="cancelled",
        ),
        pytest.param(
            [SECOND, UNDONE, SECOND, UNDONE],
            replace(ENDED, cause="nothing_left", reason="no other switch is left to try"),
            "nothing helped (tried prefetch off → 4); the settings are as before: no other switch"
            " is left to try",
            id="nothing kept",
        ),
        pytest.param(
            [MADE, KEPT],
            RESTORED,
            "nothing helped (tried workers off → 8); the settings are as before: the gain of all"
            " moves together is not proved",
            id="taken back at the end",
        ),
        pytest.param(
            [MADE, KEPT, SECOND],
            OVER,
            "kept workers off → 8; prefetch off → 4 until the end, not proved; the run has ended",
            id="over with an open move",
        ),
        pytest.param(
            [SECOND, UNDONE],
            replace(OVER, knobs={"workers": "off", "prefetch": "4"}),
            "prefetch off → 4 until the end, not proved; the run has ended",
            id="over before a move is undone",
        ),
        pytest.param(
            [SECOND],
            replace(OVER, knobs={"workers": "off", "prefetch": "off"}),
            "nothing changed: the run has ended",
            id="over before a move is in effect",
        ),
        pytest.param(
            [], ENDED, "nothing to gain: data wait is only 1 % of a step", id="nothing to gain"
        ),
        pytest.param(
            [],
            replace(ENDED, cause="budget", reason="fewer than 20 of 400 steps were steady"),
            "nothing changed: fewer than 20 of 400 steps were steady",
            id="no move",
        ),
    ],
)
def test_its_end_says_in_one_sentence_what_it_did(
    moves: list[MoveMade | MoveJudged], ended: AutopilotEnded, text: str
) -> None:
    (autopilot_run,) = autopilot_runs([BEGAN, *moves, ended])
    assert autopilot_text(autopilot_run) == text
