"""`tfwatch train`: from the checks before anything starts to the exit code."""

from __future__ import annotations

import contextlib
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from tfwatch.commands.factories import Parts
from tfwatch.commands.keep_awake import Awake
from tfwatch.commands.restart import become
from tfwatch.commands.train_session import Session
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.knobs import Knobs, describe, spelt
from tfwatch.core.refusals import LACKING
from tfwatch.doctor.quick_facts import gpu_here, too_much
from tfwatch.runs import format as layout
from tfwatch.runs.create import NotBegunError, begin_run
from tfwatch.runs.library import find_run
from tfwatch.terminal.capture import Capture, held_signals, why_no_screen
from tfwatch.terminal.guard import short
from tfwatch.workloads import registry
from tfwatch.workloads.memory_estimate import needed_bytes
from tfwatch.workloads.workload import BadInputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.doctor.packages import Installed
    from tfwatch.runs.writer import RunWriter
    from tfwatch.training.request import Order

#: How an HDF5 file begins (its format's specification, "Disk Format: Level 0A").
_HDF5 = b"\x89HDF\r\n\x1a\n"


def train(order: Order, parts: Parts | None = None, clock: Clock = SYSTEM) -> int:
    """Train to the end and return the exit code.

    0: finished, or stopped from the screen. 1: training raised, or the system gives no thread for it. 2: bad input.
    130, 143: stopped by SIGINT, SIGTERM.

    Raises:
        BadInputError: training cannot start as ordered.
    """
    parts = parts or Parts()
    installed = parts.installed()
    check(order, installed)
    earlier, here = _earlier(order), Path.cwd()
    os.environ["KERAS_BACKEND"] = "tensorflow"
    with held_signals(), Capture(screen=not order.headless) as terminal:
        title, details = registry.title(order.plan.workload), _details(order, earlier)
        try:
            writer, lost = begin_run(order.runs_dir, title, clock, **details)
        except NotBegunError as error:
            terminal.err.write(f"tfwatch: the training cannot begin: {error}\n")
            return 1
        writer.log = terminal.record_to(writer.folder and writer.folder / layout.LOG)
        session = Session(order, writer, terminal, parts, clock)
        if lost:
            session.say(f"nothing is recorded: {lost}")
        if hint := installed.hint():
            session.say(hint)
            writer.note(hint)
        plan = order.plan
        needed = needed_bytes(plan.workload, plan.settings)
        if doubt := too_much(needed, plan.workload, plan.settings.device, gpu_here()):
            session.say(doubt)
            writer.note(doubt)
        with Awake(_told(session, writer, order)) if order.keep_awake else contextlib.nullcontext():
            code = session.run()
    if words := session.next_command:
        os.chdir(here)
        code = become(words, parts)
    if session.is_hung:
        # A fetch that blocks can neither be ended nor joined.
        parts.exit_now(code)
    return code


def _told(session: Session, writer: RunWriter, order: Order) -> Callable[[str], None]:
    """Tells a sentence at any time: in the run, and on stderr where no screen is drawn there."""

    def tell(sentence: str) -> None:
        writer.note(sentence)
        if order.headless:
            session.say(sentence)

    return tell


def check(order: Order, installed: Installed) -> None:
    """Look at everything that can be looked at before anything starts.

    Raises:
        BadInputError: the message is one sentence for the user.
    """
    workload = registry.load(order.plan.workload)
    _check_knobs(order)
    if obstacle := installed.obstacle():
        raise BadInputError(obstacle)
    if not order.headless and (obstacle := why_no_screen(os.environ)):
        raise BadInputError(obstacle)
    workload.check(order.plan.settings)
    if order.plan.begin_with:
        _check_weights(order.plan.begin_with)


def _check_weights(path: Path) -> None:
    """Whether they are of the model is known once it is made; a file that holds none need not wait for that.

    Raises:
        BadInputError: it cannot be read, or is no HDF5 file named as Keras wants it.
    """
    try:
        if not path.is_file():  # reading from a pipe would wait
            raise BadInputError(f"--begin-with: there is no file {path}")
        with path.open("rb") as file:
            begins = file.read(len(_HDF5))
    except OSError as error:
        raise BadInputError(f"--begin-with: {path} cannot be read: {error.strerror or error}") from error
    if begins != _HDF5 or not path.name.endswith(".weights.h5"):
        raise BadInputError(f"--begin-with: {path} is no file of weights: give a .weights.h5 of Keras")


def _check_knobs(order: Order) -> None:
    """What a workload's pipeline does not have cannot be asked of it.

    Raises:
        BadInputError: the message is one sentence for the user.
    """
    plan, asked = order.plan, _asked_knobs(order)
    entry = registry.find(plan.workload)
    wanted = asked | {knob for knob, *_ in plan.knobs.differences(Knobs())}
    missing = [knob for knob in LACKING if knob in wanted and not entry.has(knob)]
    if missing:
        _refuse(plan.workload, missing[0])
    if entry.built_once and asked - {"prefetch"}:
        raise BadInputError(f"{plan.workload} takes switches of prefetch only: dataset() is built once")
    if "latency_ms" in wanted and not entry.reads_files:
        _refuse(plan.workload, "latency_ms")


def _refuse(workload: str, knob: str) -> NoReturn:
    raise BadInputError(f"{workload} takes no {spelt(knob)}: {LACKING[knob].words}")


def _asked_knobs(order: Order) -> set[str]:
    """The knobs that are to be switched while it trains."""
    return {switch.knob for switch in order.plan.switches} | ({order.experiment.knob} if order.experiment else set())


def _earlier(order: Order) -> str:
    """The run that the order follows, as the manifest names it; empty where it follows none.

    Raises:
        BadInputError: there is no such run.
    """
    if order.after is None:
        return ""
    try:
        folder = find_run(order.after, order.runs_dir).absolute()
    except OSError as error:
        raise BadInputError(f"--after: {error}") from error
    return folder.name if folder.parent == order.runs_dir.absolute() else short(folder)


def _details(order: Order, earlier: str) -> dict[str, Any]:
    """The manifest's fields that the order decides."""
    plan = order.plan
    settings = asdict(plan.settings)
    settings["data"] = short(plan.settings.data) if plan.settings.data else None
    entry = registry.find(plan.workload)
    if entry.only is not None:  # what else there is, its own code says
        settings = {name: value for name, value in settings.items() if name in entry.only}
        settings["file"] = short(Path(plan.workload).absolute())
    settings["storage_latency_ms"] = plan.knobs.latency_ms
    settings["keep_awake"] = order.keep_awake
    settings["memory_limit_bytes"] = order.memory_bytes
    knobs = {name: value for name, value in describe(plan.knobs).items() if entry.has(name)}
    asked_latency = plan.knobs.latency_ms > 0 or "latency_ms" in _asked_knobs(order)
    switchable = [name for name in knobs if name != "latency_ms" or asked_latency]
    settings["fast_form"] = entry.fast
    return {
        "knobs": knobs,
        "switchable": ["prefetch"] if entry.built_once else switchable,
        "settings": settings,
        "batch_size": settings.get("batch_size"),
        "after": earlier,
        "epochs": None if plan.settings.steps else plan.settings.epochs,
    }
