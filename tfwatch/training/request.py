"""The request for one run of `tfwatch train`: what the command line asks for. Imports no TensorFlow.

What `tfwatch train` was asked to do. Imports no TensorFlow.

The order for one run of `tfwatch train`: what the command line asks for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.core.knobs import KNOBS, Knobs, Setting, as_value, epochs_until, show, spelt
from tfwatch.runs.control import Scheduled

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tfwatch.runs.control import Experiment
    from tfwatch.workloads.workload import Settings

#: Those that are in effect with the next batch.
_AT_ONCE = tuple(knob for knob in KNOBS if not any(epochs_until(knob, value) for value in ("on", "off")))


@dataclass(frozen=True, slots=True)
class Plan:
    """One training run.

    begin_with: a file of weights, as a restart keeps them (`training/weights.py`), that the model begins with.
    """

    workload: str
    settings: Settings
    knobs: Knobs
    switches: tuple[Scheduled, ...] = ()
    begin_with: Path | None = None


def parse_switch(text: str) -> Scheduled:
    """Read `100:prefetch=4`; the knobs are prefetch, workers, storage-latency, fast-form, cache and shuffle.

    Raises:
        ValueError: it is none; the message is a sentence for the user.
    """
    step, colon, rest = text.partition(":")
    name, equals, value = rest.partition("=")
    if not (colon and equals and step.isascii() and step.isdigit()):
        raise ValueError(f"{text!r} is no switch: give STEP:KNOB=VALUE, e.g. 100:prefetch=4")
    knob = _knob(name, KNOBS)
    return Scheduled(int(step), knob, as_value(knob, value))


def parse_settings(text: str) -> tuple[str, tuple[Setting | float, ...]]:
    """Read `prefetch=off,4`: a knob, named as for `parse_switch`, and two or more different settings of it.

    Raises:
        ValueError: it is none; the message is a sentence for the user.
    """
    name, equals, rest = text.partition("=")
    if not equals:
        raise ValueError(f"{text!r} is no knob with settings: give KNOB=VALUE,VALUE, e.g. prefetch=off,4")
    knob = _knob(name, _AT_ONCE)
    if knob not in _AT_ONCE:
        raise ValueError(f"{name} takes effect at an epoch's start: an experiment needs a knob that switches at once")
    settings = tuple(as_value(knob, value.strip()) for value in rest.split(","))
    if len(settings) < 2:
        raise ValueError(f"{text!r} gives one setting: an experiment compares two or more, e.g. prefetch=off,4")
    if len(set(map(show, settings))) < len(settings):
        raise ValueError(f"{text!r} gives a setting twice: an experiment compares different ones")
    return knob, settings


def _knob(name: str, there: Sequence[str]) -> str:
    """The knob of a name of the command line. there: the ones that are named where it is none.

    Raises:
        ValueError: it is none.
    """
    knob = next((knob for knob in KNOBS if spelt(knob) == name), None)
    if knob is None:
        *most, last = map(spelt, there)
        raise ValueError(f"{name!r} is no knob: there are {', '.join(most)} and {last}")
    return knob


@dataclass(frozen=True, slots=True)
class TrainRequest:
    """What the user ordered. `runs_dir` is where the run folder is made; `as_json` asks for the report as JSON.

    keep_awake: the machine is not to fall asleep while it trains. gpu_sensor: one of `sensors.GPU_SENSORS`.
    autopilot: the knobs are turned until the device no longer starves. memory_bytes: what its buffers may take then, or
    when a key asks for it.
    after: the run that is restarted as this one: its folder, or a part of its name.
    experiment: what is to be found out as soon as the training is under way.
    """

    plan: Plan
    runs_dir: Path
    headless: bool = False
    as_json: bool = False
    theme: str | None = None
    keep_awake: bool = False
    gpu_sensor: str = "auto"
    autopilot: bool = False
    memory_bytes: float | None = None
    after: str | None = None
    experiment: Experiment | None = None
