"""The parts of a profiled step."""

import msgspec

from tests.judge.profiles import PROFILE
from tests.judge.step_rows import events_of
from tfwatch.core.events import EpochStarted, OperationTime, StepProfiled
from tfwatch.judge.profile.step_groups import profile_lines
from tfwatch.judge.profile.step_parts import newest_profile, step_parts


def test_forward_and_backward_of_a_layer_are_one_part_and_all_parts_sum_to_one() -> None:
    parts = step_parts(PROFILE)
    assert [(one.role, one.name, one.took_ms, one.backward_ms) for one in parts] == [
        ("layer", "body/conv2d", 5.0, 4.0),
        ("metric", "auc", 2.0, 0.0),
        ("optimizer", "adam", 1.5, 0.0),
        ("small", "small operations", 1.0, 0.0),
        ("other", "the shortest operations", 0.5, 0.0),
    ]
    assert sum(one.share for one in parts) == 1.0


def test_the_line_of_a_layer_is_that_of_its_forward_pass() -> None:
    """That of the longer backward pass may be the line of `tape.gradient`."""
    backward = OperationTime("backward", "wide", "Conv2D", "Conv", 6.0, "train.py:62 in train_step")
    forward = OperationTime("forward", "wide", "Conv2D", "Conv", 2.0, "train.py:24 in call")
    places = [
        step_parts(msgspec.structs.replace(PROFILE, operations=operations))[0].place
        for operations in ((backward, forward), (backward,))
    ]
    assert places == [forward.place, backward.place]


def test_the_parts_are_found_once_for_each_profile() -> None:
    other = msgspec.structs.replace(PROFILE, small_ms=0.0)
    assert step_parts(PROFILE) is step_parts(PROFILE)
    assert [len(step_parts(one)) for one in (PROFILE, other, PROFILE)] == [5, 4, 5]


def test_a_profile_is_a_table_with_the_line_of_each_part() -> None:
    assert profile_lines(PROFILE) == [
        "  5.0 ms  50 %  body/conv2d (Conv2D), backward 4.0 ms, train.py:41 in call",
        "  2.0 ms  20 %  metric auc (AUC)",
        "  1.5 ms  15 %  optimizer adam (Adam)",
        "  1.0 ms  10 %  small operations",
        " 0.50 ms   5 %  the shortest operations",
    ]


def test_a_profile_that_failed_says_why_and_does_not_hide_an_earlier_one() -> None:
    failed = StepProfiled(2, 1300, 0, 0.0, 0.0, missing="another profiler began")
    assert profile_lines(failed) == ["no profile: another profiler began"]
    assert step_parts(failed) == ()
    assert newest_profile(events_of(PROFILE, failed)) is PROFILE
    assert newest_profile(events_of(failed)) is None


def test_a_profile_is_that_of_the_model_that_trains() -> None:
    first, second = (EpochStarted(at_ns, 0, 1, 10, 1, model) for at_ns, model in ((0, 1), (5, 2)))
    assert newest_profile(events_of(first, PROFILE)) is PROFILE
    assert newest_profile(events_of(first, PROFILE, second)) is None
