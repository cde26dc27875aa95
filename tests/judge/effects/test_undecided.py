"""The settings that a run left undecided at its end."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tfwatch.core.events import (
    ExperimentBegan,
    ExperimentBlock,
    ExperimentEnded,
    MoveJudged,
    MoveMade,
    PipelineSwitched,
)
from tfwatch.core.knobs import KnobChange
from tfwatch.judge.effects.tuner_events import Undecided, find_undecided

BEGAN = ExperimentBegan(10, "prefetch", ["off", "4"], 150, 600, 0)


def turned(
    step: int, old: str, new: str, by: str = "experiment", knob: str = "prefetch"
) -> PipelineSwitched:
    return PipelineSwitched(0, knob, old, new, step, step, 1.0, by)


def block(number: int, value: str, first: int) -> ExperimentBlock:
    return ExperimentBlock(
        10 + number, number, (number + 1) // 2, value, first, first + 9, 10, 12.5, "4"
    )


def ended(cause: str, kept: str) -> ExperimentEnded:
    values: dict[str, Any] = {"knob": "prefetch", "values": ["off", "4"], "began": 150, "step": 200}
    return ExperimentEnded(
        20,
        **values,
        cause=cause,
        answer="faster",
        value="4",
        against="off",
        rounds=1,
        steps=20,
        spent=50,
        kept=kept,
    )


ROUND = [BEGAN, block(1, "off", 152), turned(170, "off", "4"), block(2, "4", 172)]
BACK = [*ROUND, turned(190, "4", "off")]


@pytest.mark.parametrize(
    ("events", "found"),
    [
        pytest.param([], None, id="nothing"),
        pytest.param(ROUND[:2], None, id="no switch yet"),
        pytest.param(ROUND, ("off", ((1, 150), (152, 161)), 11), id="killed in a block"),
        pytest.param(
            [*ROUND, ended("stopped", "4")],
            ("off", ((1, 150), (152, 161)), 11),
            id="stopped in a block",
        ),
        pytest.param(
            [*ROUND, ended("ended", "4")], ("off", ((1, 150), (152, 161)), 11), id="the run ended"
        ),
        pytest.param(BACK, None, id="stands at what it stood at before"),
        pytest.param(
            [*BACK, ended("clear", "4")],
            ("4", ((172, 181),), 12),
            id="the answer not yet in effect",
        ),
        pytest.param(
            [*BACK, ended("clear", "4"), turned(210, "off", "4")], None, id="the answer in effect"
        ),
        pytest.param([*ROUND, ended("clear", "4")], None, id="the last block was the answer's"),
        pytest.param([*ROUND, ended("key", "")], None, id="somebody else decides"),
        pytest.param([*ROUND, turned(190, "4", "8", "key")], None, id="somebody else decided"),
        pytest.param(
            [*BACK[:3], ended("failed", "8")],
            ("off", ((1, 150), (152, 161)), 11),
            id="left at what had no block",
        ),
        pytest.param([*ROUND, ended("clear", "4"), BEGAN], None, id="another that began"),
    ],
)
def test_an_experiments_setting_is_tried_until_its_answer_is_in_effect(
    events: list[object], found: tuple[Any, ...] | None
) -> None:
    assert find_undecided(events) == (found and Undecided({"prefetch": found[0]}, *found[1:]))


def test_of_a_move_of_two_knobs_both_are_tried() -> None:
    made = MoveMade(5, 100, "prefetch", "off", "4", beside=(KnobChange("workers", "off", "8"),))
    both = [
        made,
        turned(101, "off", "4", "autopilot"),
        turned(101, "off", "8", "autopilot", "workers"),
    ]
    given_back = turned(101, "on", "off", "autopilot", "cache")
    assert find_undecided([*both, given_back]) == Undecided(
        {"prefetch": "off", "workers": "off"}, ((1, 100),), 5
    )
    assert find_undecided([*both, turned(120, "8", "2", "key", "workers")]) == Undecided(
        {"prefetch": "off"}, ((1, 100),), 5
    )
    by_key = [turned(120, "8", "off", "key", "workers"), turned(121, "off", "8", "key", "workers")]
    assert find_undecided([*both, *by_key]) == Undecided({"prefetch": "off"}, ((1, 100),), 5)


MADE = MoveMade(5, 100, "workers", "off", "8")
TURNED = turned(101, "off", "8", "autopilot", "workers")
JUDGED = MoveJudged(6, 150, "workers", "off", "8", 23.4, 23.2, 40, False)
BACK_ASKED = MoveMade(7, 150, "workers", "8", "off", undoes=True)


@pytest.mark.parametrize(
    ("events", "is_undecided"),
    [
        pytest.param([MADE], False, id="requested, not in effect"),
        pytest.param([MADE, TURNED, replace(JUDGED, kept=True)], False, id="kept"),
        pytest.param([MADE, TURNED, JUDGED], True, id="judged, not undone"),
        pytest.param([MADE, TURNED, JUDGED, BACK_ASKED], True, id="its end requested"),
        pytest.param(
            [MADE, TURNED, JUDGED, BACK_ASKED, turned(160, "8", "off", "autopilot", "workers")],
            False,
            id="undone",
        ),
        pytest.param(
            [
                *(MADE, TURNED, JUDGED, BACK_ASKED, replace(MADE, step=150)),
                *(replace(JUDGED, step=190), replace(BACK_ASKED, step=190)),
                turned(194, "8", "off", "autopilot", "workers"),
            ],
            False,
            id="made again before its undoing, and undone",
        ),
        pytest.param([MADE, TURNED, turned(120, "8", "4", "key", "workers")], False, id="by a key"),
        pytest.param([MADE, TURNED, turned(120, "off", "4", "key")], True, id="another knob"),
    ],
)
def test_a_move_is_undecided_while_it_is_in_effect_and_not_kept(
    events: list[object], is_undecided: bool
) -> None:
    expected = Undecided({"workers": "off"}, ((1, 100),), 5) if is_undecided else None
    assert find_undecided(events) == expected
