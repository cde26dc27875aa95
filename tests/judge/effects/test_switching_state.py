"""The current value of each knob, and the value that its key requests next."""

import pytest
from msgspec.structs import replace

from tfwatch.core.events import Event, PipelineSwitched, SwitchAsked, SwitchFailed
from tfwatch.judge.effects.switching_state import (
    KnobRequest,
    deeper,
    find_undo,
    knob_states,
    shallower,
    toggled,
)

START = {"prefetch": "off", "workers": "off"}


def asked(at_s: float, new: str, old: str = "off", knob: str = "prefetch") -> SwitchAsked:
    return SwitchAsked(int(at_s * 1e9), knob, old, new, 100, "key")


def made(at_s: float, new: str, old: str = "off", knob: str = "prefetch") -> PipelineSwitched:
    return PipelineSwitched(int(at_s * 1e9), knob, old, new, 100, 103, 20.0, "key")


def test_a_knob_stands_at_its_start_until_a_switch_is_made() -> None:
    assert knob_states(START, [])["prefetch"].now == "off"
    assert knob_states(START, [asked(1, "4")])["prefetch"].now == "off"
    assert knob_states(START, [asked(1, "4"), made(2, "4")])["prefetch"].now == "4"
    assert knob_states(START, [made(2, "on", knob="cache")]) == knob_states(START, [])


def test_a_request_is_asked_until_it_is_answered() -> None:
    events: list[Event] = [asked(1, "4")]
    assert knob_states(START, events)["prefetch"].asked == "4"
    assert knob_states(START, [*events, made(2, "4")])["prefetch"].asked is None

    failed = knob_states(
        START, [*events, SwitchFailed(int(2e9), "prefetch", "no memory", "off", "4", 9, "off")]
    )["prefetch"]
    assert (failed.asked, failed.now, failed.failed) == (None, "off", "no memory")


def test_a_request_is_asked_until_it_is_taken_back() -> None:
    asked = SwitchAsked(2_000_000_000, "cache", "off", "on", 10, "key")
    back = replace(asked, at_ns=3_000_000_000, new="off")
    assert knob_states({"cache": "off"}, [asked])["cache"].asked == "on"
    state = knob_states({"cache": "off"}, [asked, back])["cache"]
    assert (state.now, state.asked) == ("off", None)


def test_this_screens_own_request_counts_until_the_training_speaks_of_it() -> None:
    ask = KnobRequest("prefetch", "4", at_s=5.0)

    assert knob_states(START, [], [ask])["prefetch"].coming == "4"
    assert (
        knob_states(START, [asked(6, "4"), made(7, "4"), made(8, "off", "4")], [ask])[
            "prefetch"
        ].coming
        == "off"
    )
    assert knob_states(START, [], [KnobRequest("prefetch", "off", 5.0)])["prefetch"].asked is None


def test_a_knob_is_turned_back_on_to_what_it_was() -> None:
    assert toggled(knob_states(START, [])["prefetch"]) == "4"
    assert toggled(knob_states(START, [])["workers"]) == "auto"
    assert toggled(knob_states({"prefetch": "default"}, [])["prefetch"]) == "off"
    assert toggled(knob_states({"workers": "default"}, [])["workers"]) == "auto"
    assert toggled(knob_states({"workers": "2"}, [])["workers"]) == "off"
    assert toggled(knob_states(START, [made(1, "16"), made(2, "off", "16")])["prefetch"]) == "16"


@pytest.mark.parametrize(
    ("value", "more", "less"),
    [
        ("off", "1", "off"),
        ("1", "2", "off"),
        ("4", "8", "2"),
        ("auto", "8", "2"),
        ("default", "8", "2"),
        ("1024", "1024", "512"),
    ],
)
def test_depth_doubles_and_halves(value: str, more: str, less: str) -> None:
    assert (deeper(value), shallower(value)) == (more, less)


def test_undo_takes_back_what_was_asked_before_what_was_made() -> None:
    events: list[Event] = [asked(1, "4"), made(2, "4"), asked(3, "auto", "off", "workers")]

    assert find_undo(knob_states(START, events), events) == ("workers", "off")
    assert find_undo(knob_states(START, events[:2]), events[:2]) == ("prefetch", "off")
    assert find_undo(knob_states(START, []), []) is None
