"""`tfwatch train`, `ab` and `workloads`: checks the request, trains, and returns the exit code."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from tfwatch.commands.factories import Factories
from tfwatch.commands.training.keep_awake import KeepAwake
from tfwatch.commands.training.restart import exec_command
from tfwatch.commands.training.train_session import TrainSession
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.errors import BadInputError
from tfwatch.core.knobs import Knobs, describe, option_name
from tfwatch.core.refusals import LACKING
from tfwatch.doctor.quick_facts import describe_memory_shortage, find_gpu
from tfwatch.runs import format as layout
from tfwatch.runs.control.requests import Experiment
from tfwatch.runs.create import NotBegunError, begin_run
from tfwatch.runs.library.finding import default_runs_dir, find_problem_soon, find_run
from tfwatch.runs.library.removal import start_pruning
from tfwatch.terminal.capture import Capture, held_signals, why_no_screen
from tfwatch.terminal.guard import short_path
from tfwatch.terminal.notification import NO_NOTICES
from tfwatch.terminal.output import render, write
from tfwatch.training.request import Plan, TrainRequest
from tfwatch.workloads import registry
from tfwatch.workloads.memory_estimate import needed_bytes
from tfwatch.workloads.registry import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.core.knobs import KnobValue
    from tfwatch.doctor.packages import Installed
    from tfwatch.runs.writer import RunWriter
    from tfwatch.terminal.notification import NotifyOptions
    from tfwatch.workloads.workload import Settings

#: The first bytes of an HDF5 file (its format's specification, "Disk Format: Level 0A").
_HDF5 = b"\x89HDF\r\n\x1a\n"


def train(request: TrainRequest, factories: Factories | None = None, clock: Clock = SYSTEM) -> int:
    """Train to the end and return the exit code.

    0: finished, or stopped from the screen. 1: training raised, or the system gives no thread for it. 2: bad input.
    130, 143: stopped by SIGINT, SIGTERM.

    Raises:
        BadInputError: the training cannot start with this request.
    """
    factories = factories or Factories()
    installed = factories.installed()
    check(request, installed)
    earlier, here = _earlier(request), Path.cwd()
    os.environ["KERAS_BACKEND"] = "tensorflow"
    with held_signals(), Capture(screen=not request.headless) as terminal:
        details = _details(request, earlier)
        try:
            writer, lost = begin_run(request.runs_dir, request.plan.workload, clock, **details)
        except NotBegunError as error:
            terminal.err.write(f"tfwatch: the training cannot start: {error}\n")
            return 1
        start_pruning(request.runs_dir, request.limits, writer.note)
        writer.log = terminal.record_to(writer.folder and writer.folder / layout.LOG)
        session = TrainSession(request, writer, terminal, factories, clock)
        if lost:
            session.notify(f"nothing is recorded: {lost}")
        if hint := installed.hint():
            _hint(session, writer, hint, request)
        plan = request.plan
        needed = needed_bytes(plan.workload, plan.settings)
        if doubt := describe_memory_shortage(
            needed, plan.workload, plan.settings.device, find_gpu()
        ):
            _hint(session, writer, doubt, request)
        with (
            KeepAwake(_keep_awake_notice(session, writer, request))
            if request.keep_awake
            else contextlib.nullcontext()
        ):
            code = session.run()
    if words := session.next_command:
        os.chdir(here)
        code = exec_command(words, factories)
    if session.is_hung:
        # A fetch that blocks can neither be ended nor joined.
        factories.exit_now(code)
    return code


def _hint(session: TrainSession, writer: RunWriter, sentence: str, request: TrainRequest) -> None:
    """Print a hint, unless the user wants none, and note it in the run."""
    writer.note(sentence)
    if not request.quiet:
        session.notify(sentence)


def _keep_awake_notice(
    session: TrainSession, writer: RunWriter, request: TrainRequest
) -> Callable[[str], None]:
    """Return a function that notes a sentence in the run, and prints it where no screen is drawn."""

    def notify(sentence: str) -> None:
        writer.note(sentence)
        if request.headless:
            session.notify(sentence)

    return notify


def check(request: TrainRequest, installed: Installed) -> None:
    """Check everything that can be checked before the training starts.

    Raises:
        BadInputError: the message is one sentence for the user.
    """
    workload = registry.load(request.plan.workload)
    _check_knobs(request)
    if obstacle := installed.obstacle():
        raise BadInputError(obstacle)
    if not request.headless and (obstacle := why_no_screen(os.environ)):
        raise BadInputError(obstacle)
    _check_runs_dir(request.runs_dir)
    workload.check(request.plan.settings)
    if request.plan.start_weights:
        _check_weights(request.plan.start_weights)


def _check_runs_dir(folder: Path) -> None:
    """Refuse a folder that was named and cannot be written; without the usual one a training is not recorded."""
    if folder != default_runs_dir() and (why := find_problem_soon(folder)):
        raise BadInputError(f"nothing can be recorded in --runs-dir {folder}: {why}")


def _check_weights(path: Path) -> None:
    """Check that a file holds weights. Whether they fit the model is known once it is built.

    Raises:
        BadInputError: it cannot be read, or is no HDF5 file with the ending that Keras needs.
    """
    try:
        if not path.is_file():  # reading from a pipe would wait
            raise BadInputError(f"--begin-with: there is no file {path}")
        with path.open("rb") as file:
            begins = file.read(len(_HDF5))
    except OSError as error:
        raise BadInputError(
            f"--begin-with: {path} cannot be read: {error.strerror or error}"
        ) from error
    if begins != _HDF5 or not path.name.endswith(".weights.h5"):
        raise BadInputError(
            f"--begin-with: {path} is not a file of weights: give a .weights.h5 of Keras"
        )


def _check_knobs(request: TrainRequest) -> None:
    """Check that the pipeline of the workload has the requested knobs.

    Raises:
        BadInputError: the message is one sentence for the user.
    """
    plan, asked = request.plan, _asked_knobs(request)
    entry = registry.find(plan.workload)
    wanted = asked | {knob for knob, *_ in plan.knobs.differences(Knobs())}
    # The device decides on a prefetch to it, once TensorFlow has found one.
    missing = [
        knob for knob in LACKING if knob in wanted - {"device_prefetch"} and not entry.has(knob)
    ]
    if missing:
        _refuse(plan.workload, missing[0])
    if "latency_ms" in wanted and not entry.reads_files:
        _refuse(plan.workload, "latency_ms")


def _refuse(workload: str, knob: str) -> NoReturn:
    raise BadInputError(f"{workload} takes no {option_name(knob)}: {LACKING[knob].words}")


def _asked_knobs(request: TrainRequest) -> set[str]:
    """Return the knobs of scheduled switches and of the A/B test."""
    return {switch.knob for switch in request.plan.switches} | (
        {request.experiment.knob} if request.experiment else set()
    )


def _earlier(request: TrainRequest) -> str:
    """Return the run that this one follows, as the manifest names it; empty where there is none.

    Raises:
        BadInputError: there is no such run.
    """
    if request.after is None:
        return ""
    try:
        folder = find_run(request.after, request.runs_dir).absolute()
    except OSError as error:
        raise BadInputError(f"--after: {error}") from error
    return folder.name if folder.parent == request.runs_dir.absolute() else short_path(folder)


def _details(request: TrainRequest, earlier: str) -> dict[str, Any]:
    """Return the fields of the manifest that the request decides."""
    plan = request.plan
    settings = asdict(plan.settings)
    settings["data"] = short_path(plan.settings.data) if plan.settings.data else None
    entry = registry.find(plan.workload)
    settings["storage_latency_ms"] = plan.knobs.latency_ms
    settings["keep_awake"] = request.keep_awake
    settings["begin_with"] = short_path(plan.start_weights) if plan.start_weights else None
    settings["memory_limit_bytes"] = request.memory_bytes
    knobs = {name: value for name, value in describe(plan.knobs).items() if entry.has(name)}
    asked_latency = plan.knobs.latency_ms > 0 or "latency_ms" in _asked_knobs(request)
    switchable = [name for name in knobs if name != "latency_ms" or asked_latency]
    settings["fast_pipeline"] = entry.fast
    return {
        "knobs": knobs,
        "switchable": switchable,
        "settings": settings,
        "batch_size": plan.settings.batch_size,
        "after": earlier,
        "epochs": None if plan.settings.steps else plan.settings.epochs,
    }


#: Steps of a training that its A/B test ends.
_ENDLESS = 10**9
#: Steps before the A/B test starts, and batches in flight when it ends.
_AROUND = 200


@dataclass(frozen=True, slots=True)
class ExperimentOptions:
    """The options of `tfwatch ab`: the knob and the values to compare.

    goes_on: train all epochs, with the faster value once it is known. `settings.steps` is the budget of the A/B test.
    prefetches_where_possible: as in `Plan`.
    """

    workload: str
    settings: Settings
    knobs: Knobs
    knob: str
    values: tuple[KnobValue, ...]
    goes_on: bool = False
    prefetches_where_possible: bool = False


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
        plan=Plan(
            options.workload,
            settings,
            knobs,
            tested_knob=options.knob,
            prefetches_where_possible=options.prefetches_where_possible,
        ),
        runs_dir=runs_dir,
        headless=True,
        as_json=as_json,
        keep_awake=keep_awake,
        gpu_sensor=gpu_sensor,
        notify=notify,
        experiment=Experiment(
            options.knob, options.values, budget, settings.seed or 0, ends=not options.goes_on
        ),
    )
    return train(request, factories, clock)


def list_workloads(as_json: bool) -> int:
    """Print every workload with its description and return the exit code."""
    if as_json:
        listed = [
            {"name": name, "shows": entry.line, "fast_pipeline": entry.fast or None}
            for name, entry in WORKLOADS.items()
        ]
        return write(sys.stdout, json.dumps({"workloads": listed}) + "\n")
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for name, entry in WORKLOADS.items():
        table.add_row(name, entry.line)
    return write(sys.stdout, render(sys.stdout, table))
