"""What the settings of a run have shown."""

from __future__ import annotations

from tests.analysis.situations import split
from tfwatch.analysis.tuning.autopilot.estimator import Interval, find_measured, intervals
from tfwatch.analysis.tuning.comparison import Comparison
from tfwatch.core.events import PipelineSwitched

OFF, FOUR = {"prefetch": "off", "workers": "off"}, {"prefetch": "4", "workers": "off"}
SLOW, FAST = split(9.6, 13.0, 0.8), split(0.2, 13.0, 0.8)


def turned(knob: str, new: str, step: int) -> PipelineSwitched:
    return PipelineSwitched(0, knob, "off", new, step - 1, step, 1.0, "experiment")


def switched(knob: str, old: str, new: str, step: int | None, before: float = 9.6, after: float = 0.2) -> Comparison:
    sides = split(before, 13.0, 0.8), split(after, 13.0, 0.8)
    return Comparison(knob, old, new, "key", 0, (step or 1) - 1, step, *sides, ratio=1.0, settled=True)


def test_each_switch_parts_two_stretches() -> None:
    found = intervals([switched("prefetch", "off", "4", 101), switched("prefetch", "4", "off", 201, 0.2, 9.6)], OFF)

    assert found == [Interval(OFF, SLOW), Interval(FOUR, FAST), Interval(OFF, SLOW)]
    assert intervals([switched("prefetch", "off", "4", None)], OFF) == []


def test_knobs_that_were_turned_at_one_step_began_one_stretch() -> None:
    both = [switched("prefetch", "off", "4", 101), switched("workers", "off", "8", 101)]

    assert [interval.knobs for interval in intervals(both, {"prefetch": "4", "workers": "8"})] == [
        OFF,
        {"prefetch": "4", "workers": "8"},
    ]


def test_what_an_experiment_turned_since_is_taken_back_first() -> None:
    switches = [turned("prefetch", "4", 101), turned("workers", "8", 201)]

    assert intervals([switched("prefetch", "off", "4", 101)], {**FOUR, "workers": "8"}, switches) == [
        Interval(OFF, SLOW),
        Interval(FOUR, FAST),
    ]


def test_a_shuffle_makes_no_other_setting() -> None:
    (before, after) = intervals([switched("shuffle", "auto", "off", 101)], {**OFF, "shuffle": "off"})

    assert before.knobs == after.knobs == OFF


def test_the_newest_stretch_of_a_setting_is_found_with_its_neighbour() -> None:
    older, newer, other = Interval(OFF, SLOW), Interval(OFF, split(12.0, 13.0, 0.8)), Interval(FOUR, FAST)

    assert find_measured([older, other, newer], OFF, FOUR) == (newer.split, other.split)
    assert find_measured([older, newer], OFF, FOUR) == (newer.split, None)
    assert find_measured([Interval(OFF, split(9.6, 13.0, 0.8, steps=19)), Interval(OFF, None)], OFF, FOUR) is None
