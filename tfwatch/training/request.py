"""The request for one run of `tfwatch train`, as the command line gives it. Imports no TensorFlow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfwatch.core.knobs import (
    KNOBS,
    PY_DATASET_ONLY,
    Knobs,
    KnobValue,
    as_value,
    epochs_until,
    option_name,
    parse_setting,
    show,
)
from tfwatch.runs.control.requests import Scheduled
from tfwatch.terminal.notification import NO_NOTICES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tfwatch.runs.control.requests import Experiment
    from tfwatch.runs.library.removal import RunsToKeep
    from tfwatch.terminal.notification import NotifyOptions
    from tfwatch.workloads.workload import Settings

#: The knobs of a workload; those that switch live, without waiting for an epoch.
TRAIN_KNOBS = tuple(knob for knob in KNOBS if knob not in PY_DATASET_ONLY)
LIVE_KNOBS = tuple(
    knob for knob in KNOBS if not any(epochs_until(knob, value) for value in ("on", "off"))
)


@dataclass(frozen=True, slots=True)
class Plan:
    """One training run.

    start_weights: a file that `training.weights.save` wrote, which the model starts with. tested_knob: that of the A/B
    test that begins with it; empty without one. prefetches_where_possible: the prefetch to the device is a
    wish of the config file, for the devices and settings that have one.
    """

    workload: str
    settings: Settings
    knobs: Knobs
    switches: tuple[Scheduled, ...] = ()
    start_weights: Path | None = None
    tested_knob: str = ""
    prefetches_where_possible: bool = False


def parse_switch(text: str) -> Scheduled:
    """Read `100:prefetch=4`; any knob, by its name on the command line.

    Raises:
        ValueError: the text is not a switch; the message is a sentence for the user.
    """
    step, colon, rest = text.partition(":")
    name, equals, value = rest.partition("=")
    if not (colon and equals and step.isascii() and step.isdigit()):
        raise ValueError(f"{text!r} is not a switch: give STEP:KNOB=VALUE, e.g. 100:prefetch=4")
    name, of_stage, _ = name.partition(":")
    knob = _knob(name, TRAIN_KNOBS)
    setting = as_value(knob, value)
    if of_stage or isinstance(setting, tuple):
        raise ValueError(
            f"{text!r}: the maps of a workload have one setting together, e.g. {step}:{name}=4"
        )
    return Scheduled(int(step), knob, setting)


@dataclass(frozen=True, slots=True)
class Change:
    """A knob and its value. stage: the map or interleave that `workers` is for, as the user names it; empty: all."""

    knob: str
    value: KnobValue
    stage: str = ""


def parse_change(text: str) -> Change:
    """Read `prefetch=4`: a knob, named as for `parse_switch`, and its value; or `workers:decode=4`, of one map.

    Raises:
        ValueError: the text is not that; the message is a sentence for the user.
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"{text!r} is not a setting: give KNOB=VALUE, e.g. prefetch=4")
    name, colon, stage = name.partition(":")
    knob = _knob(name, KNOBS)
    if not colon:
        return Change(knob, as_value(knob, value))
    if knob != "workers" or not stage:
        raise ValueError(
            f"{text!r} is not a setting: a single stage has workers alone, e.g. workers:decode=4"
        )
    return Change(knob, parse_setting(value), stage)


def parse_settings(text: str) -> tuple[str, tuple[KnobValue, ...]]:
    """Read `prefetch=off,4`: a knob, named as for `parse_switch`, and two or more different settings of it.

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
    settings = tuple(as_value(knob, value.strip()) for value in rest.split(","))
    if len(settings) < 2:
        raise ValueError(
            f"{text!r} has one setting: an A/B test compares two or more, e.g. prefetch=off,4"
        )
    if len(set(map(show, settings))) < len(settings):
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


@dataclass(frozen=True, slots=True)
class TrainRequest:
    """A training as the user requests it.

    runs_dir: where the run folder is created. as_json: report as JSON. keep_awake: prevent the machine from sleeping.
    gpu_sensor: one of `config.GPU_SENSORS`. autopilot: switch knobs until the device no longer starves. memory_bytes:
    the limit of the autopilot's buffers, also when a key starts it. after: the run that this one restarts: its folder,
    or a part of its name. experiment: an A/B test to start with the training. notify: the notices that are asked for.
    limits: of the runs that are kept; None keeps all. quiet: without a screen, no progress and no hints.
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
    notify: NotifyOptions = NO_NOTICES
    limits: RunsToKeep | None = None
    quiet: bool = False
