"""What `tfwatch train` was asked to do. Imports no TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.core.knobs import KNOBS, Knobs, Setting, parse_latency, parse_setting

if TYPE_CHECKING:
    from tfwatch.workloads import Settings


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A switch asked by script once `step` steps are done."""

    step: int
    knob: str
    value: Setting | float


@dataclass(frozen=True, slots=True)
class Plan:
    """One training run."""

    workload: str
    settings: Settings
    knobs: Knobs
    switches: tuple[Scheduled, ...] = ()


def parse_switch(text: str) -> Scheduled:
    """Read `100:prefetch=4`; the knobs are prefetch, workers and storage-latency.

    Raises:
        ValueError: it is none; the message is a sentence for the user.
    """
    step, colon, rest = text.partition(":")
    name, equals, value = rest.partition("=")
    if not (colon and equals and step.isascii() and step.isdigit()):
        raise ValueError(f"{text!r} is no switch: give STEP:KNOB=VALUE, e.g. 100:prefetch=4")
    knob = "latency_ms" if name == "storage-latency" else name
    if knob not in KNOBS:
        raise ValueError(f"{name!r} is no knob: there are prefetch, workers and storage-latency")
    return Scheduled(int(step), knob, parse_latency(value) if knob == "latency_ms" else parse_setting(value))
