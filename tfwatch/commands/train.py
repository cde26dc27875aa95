"""`tfwatch train`: from the checks before anything starts to the exit code."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tfwatch import workloads
from tfwatch.commands.parts import Parts
from tfwatch.commands.session import Session
from tfwatch.core.clock import SYSTEM, Clock
from tfwatch.core.knobs import describe
from tfwatch.guard import short
from tfwatch.runs import format as layout
from tfwatch.runs.begin import begin_run
from tfwatch.terminal import Capture, why_no_screen

if TYPE_CHECKING:
    from pathlib import Path

    from tfwatch.doctor.installed import Installed
    from tfwatch.training.plan import Plan


@dataclass(frozen=True, slots=True)
class Order:
    """What the user ordered. `runs_dir` is where the run folder is made; `as_json` asks for the report as JSON."""

    plan: Plan
    runs_dir: Path
    headless: bool = False
    as_json: bool = False
    theme: str | None = None


def train(order: Order, parts: Parts | None = None, clock: Clock = SYSTEM) -> int:
    """Train to the end and return the exit code.

    0: finished, or stopped from the screen. 1: training raised. 2: bad input. 130, 143: stopped by SIGINT, SIGTERM.

    Raises:
        BadInputError: training cannot start as ordered.
    """
    parts = parts or Parts()
    installed = parts.installed()
    check(order, installed)
    os.environ["KERAS_BACKEND"] = "tensorflow"
    with Capture(screen=not order.headless) as terminal:
        writer, lost = begin_run(order.runs_dir, order.plan.workload, clock, **_details(order.plan))
        writer.log = terminal.record_to(writer.folder and writer.folder / layout.LOG)
        session = Session(order, writer, terminal, parts, clock)
        if lost:
            session.say(f"nothing is recorded: {lost}")
        if hint := installed.hint():
            session.say(hint)
            writer.note(hint)
        code = session.run()
    if session.is_hung:
        # A fetch that blocks can neither be ended nor joined.
        parts.exit_now(code)
    return code


def check(order: Order, installed: Installed) -> None:
    """Look at everything that can be looked at before anything starts.

    Raises:
        BadInputError: the message is one sentence for the user.
    """
    workload = workloads.load(order.plan.workload)
    if obstacle := installed.obstacle():
        raise workloads.BadInputError(obstacle)
    if not order.headless and (obstacle := why_no_screen(os.environ)):
        raise workloads.BadInputError(obstacle)
    workload.check(order.plan.settings)


def _details(plan: Plan) -> dict[str, Any]:
    """The manifest's fields that the order decides."""
    settings = asdict(plan.settings)
    settings["data"] = short(plan.settings.data) if plan.settings.data else None
    settings["storage_latency_ms"] = plan.knobs.latency_ms
    asked_latency = plan.knobs.latency_ms > 0 or any(switch.knob == "latency_ms" for switch in plan.switches)
    return {
        "knobs": describe(plan.knobs),
        "switchable": ["prefetch", "workers", *(["latency_ms"] if asked_latency else [])],
        "settings": settings,
        "batch_size": plan.settings.batch_size,
        "epochs": None if plan.settings.steps else plan.settings.epochs,
    }
