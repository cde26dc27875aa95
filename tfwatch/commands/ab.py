"""`tfwatch ab`: a training whose only purpose is an experiment, unless it is told to go on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tfwatch.commands.train import train
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.runs.control import Experiment
from tfwatch.training.request import Order, Plan

if TYPE_CHECKING:
    from pathlib import Path

    from tfwatch.commands.factories import Parts
    from tfwatch.core.knobs import Knobs, Setting
    from tfwatch.workloads.workload import Settings

#: An experiment ends the training; this is for one that cannot.
_ENDLESS = 10**9
#: Steps before an experiment begins, and in the batches that are in flight as it ends.
_AROUND = 200


@dataclass(frozen=True, slots=True)
class Wish:
    """Which of `values` of a knob is faster? The other knobs stay as they are.

    goes_on: train all epochs, with the better setting once it is known. `settings.steps` is the experiment's budget.
    """

    workload: str
    settings: Settings
    knobs: Knobs
    knob: str
    values: tuple[Setting | float, ...]
    goes_on: bool = False


def ab(
    wish: Wish,
    runs_dir: Path,
    *,
    as_json: bool = False,
    keep_awake: bool = False,
    gpu_sensor: str = "auto",
    parts: Parts | None = None,
    clock: Clock = SYSTEM,
) -> int:
    """Experiment, print the run's summary with what was found, and return the exit code: see `train`.

    Raises:
        BadInputError: it cannot start as wished.
    """
    budget = wish.settings.steps
    settings = wish.settings
    if not wish.goes_on:
        settings = replace(settings, steps=budget + _AROUND if budget else _ENDLESS)
    knobs = wish.knobs.turned(wish.knob, wish.values[0])
    order = Order(
        plan=Plan(wish.workload, settings, knobs),
        runs_dir=runs_dir,
        headless=True,
        as_json=as_json,
        keep_awake=keep_awake,
        gpu_sensor=gpu_sensor,
        experiment=Experiment(wish.knob, wish.values, budget, settings.seed or 0, ends=not wish.goes_on),
    )
    return train(order, parts, clock)
