"""Requests as the command line words them: `100:prefetch=4`, `prefetch=4`, `prefetch=off,4`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.core.knobs import KNOBS, WORKERS, check_value, is_by_stage, option_name
from tfwatch.runs.requests import SwitchRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The knobs that switch live, without waiting for an epoch.
LIVE_KNOBS = tuple(name for name, knob in KNOBS.items() if not knob.epochs)


def parse_switch(text: str) -> SwitchRequest:
    """Read `100:prefetch=4`; any knob, by its name on the command line.

    Raises:
        ValueError: the text is not a switch; the message is a sentence for the user.
    """
    step, colon, rest = text.partition(":")
    name, equals, value = rest.partition("=")
    if not (colon and equals and step.isascii() and step.isdigit()):
        raise ValueError(f"{text!r} is not a switch: give STEP:KNOB=VALUE, e.g. 100:prefetch=4")
    name, of_stage, _ = name.partition(":")
    knob = _knob(name, tuple(KNOBS))
    setting = check_value(knob, value)
    if of_stage or is_by_stage(setting):
        raise ValueError(f"{text!r}: the maps have one setting together, e.g. {step}:{name}=4")
    return SwitchRequest(knob, setting, "command", int(step))


@dataclass(frozen=True, slots=True)
class Change:
    """A knob and its value. stage: the map or interleave that `workers` is for, as the user names
    it; empty: all."""

    knob: str
    value: str
    stage: str = ""


def parse_change(text: str) -> Change:
    """Read `prefetch=4`: a knob, named as for `parse_switch`, and its value; or `workers:decode=4`,
    of one map.

    Raises:
        ValueError: the text is not that; the message is a sentence for the user.
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"{text!r} is not a setting: give KNOB=VALUE, e.g. prefetch=4")
    name, colon, stage = name.partition(":")
    knob = _knob(name, tuple(KNOBS))
    if not colon:
        return Change(knob, check_value(knob, value))
    if knob != WORKERS or not stage:
        raise ValueError(
            f"{text!r} is not a setting: a single stage has workers alone, e.g. workers:decode=4"
        )
    return Change(knob, check_value(WORKERS, value), stage)


def parse_settings(text: str) -> tuple[str, tuple[str, ...]]:
    """Read `prefetch=off,4`: a knob, named as for `parse_switch`, and two or more different
    settings of it.

    Raises:
        ValueError: the text is not that; the message is a sentence for the user.
    """
    name, equals, rest = text.partition("=")
    if not equals:
        raise ValueError(f"{text!r} has no settings: give KNOB=VALUE,VALUE, e.g. prefetch=off,4")
    knob = _knob(name, LIVE_KNOBS)
    if knob not in LIVE_KNOBS:
        raise ValueError(
            f"{name} takes effect with an epoch: an A/B test needs a knob that switches live"
        )
    settings = tuple(check_value(knob, value.strip()) for value in rest.split(","))
    if len(settings) < 2:
        raise ValueError(
            f"{text!r} has one setting: an A/B test compares two or more, e.g. prefetch=off,4"
        )
    if len(set(settings)) < len(settings):
        raise ValueError(f"{text!r} repeats a setting: an A/B test compares different ones")
    return knob, settings


def _knob(name: str, choices: Sequence[str]) -> str:
    """Return the knob of a name on the command line. choices: the knobs that the error lists.

    Raises:
        ValueError: there is no such knob.
    """
    knob = next((knob for knob in KNOBS if option_name(knob) == name), None)
    if knob is None:
        *most, last = map(option_name, choices)
        raise ValueError(f"{name!r} is not a knob: choose {', '.join(most)} or {last}")
    return knob
