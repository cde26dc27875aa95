"""`tfwatch ab`: a training that runs one A/B test, and ends with it unless epochs are given."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tfwatch.commands.training.train import train
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.runs.control.requests import Experiment
from tfwatch.terminal.notification import NO_NOTICES
from tfwatch.training.request import Plan, TrainRequest

if TYPE_CHECKING:
    from pathlib import Path

    from tfwatch.commands.factories import Factories
    from tfwatch.core.knobs import Knobs, KnobValue
    from tfwatch.terminal.notification import NotifyOptions
    from tfwatch.workloads.workload import Settings

#: Steps of a training that its A/B test ends.
_ENDLESS = 10**9
#: Steps before the A/B test starts, and batches in flight when it ends.
_AROUND = 200


@dataclass(frozen=True, slots=True)
class ExperimentOptions:
    """The options of `tfwatch ab`: the knob and the values to compare.

    goes_on: train all epochs, with the faster value once it is known. `settings.steps` is the budget of the A/B test.
    """

    workload: str
    settings: Settings
    knobs: Knobs
    knob: str
    values: tuple[KnobValue, ...]
    goes_on: bool = False


def ab(
    options: ExperimentOptions,
    runs_dir: Path,
    *,
    as_json: bool = False,
    keep_awake: bool = False,
    gpu_sensor: str = "auto",
    notify: NotifyOptions = NO_NOTICES,
    factories: Factories | None = None,
    clock: Clock = SYSTEM,
) -> int:
    """Run the A/B test, print the summary of the run, and return the exit code of `train`.

    Raises:
        BadInputError: the training cannot start with these options.
    """
    budget = options.settings.steps
    settings = options.settings
    if not options.goes_on:
        settings = replace(settings, steps=budget + _AROUND if budget else _ENDLESS)
    knobs = options.knobs.with_value(options.knob, options.values[0])
    request = TrainRequest(
        plan=Plan(options.workload, settings, knobs, tested_knob=options.knob),
        runs_dir=runs_dir,
        headless=True,
        as_json=as_json,
        keep_awake=keep_awake,
        gpu_sensor=gpu_sensor,
        notify=notify,
        experiment=Experiment(options.knob, options.values, budget, settings.seed or 0, ends=not options.goes_on),
    )
    return train(request, factories, clock)
