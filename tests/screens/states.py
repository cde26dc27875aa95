"""Canned runs, each in one state."""

from pathlib import Path
from typing import Any

from tests.screens.canned import COMPUTE_BOUND, STARVING, Canned, usual
from tfwatch.core import events as facts
from tfwatch.core.rows import Flag, Phase

MARKUP = "[bold]Tensor[float32][/nope] [/job:localhost/device:GPU:0] [@click=app.quit]x"


def starving(folder: Path | None, **changes: Any) -> Canned:
    return Canned(folder, **changes).started().steps(150, STARVING).doing(Phase.COMPUTE, 0.001)


def stalled(folder: Path | None) -> Canned:
    run = usual(folder)
    run.at_s += 20.3
    return run.doing(Phase.WAIT, 20.3)


def starting(folder: Path | None) -> Canned:
    run = Canned(folder)
    run.at_s = 3.0
    return run.doing(Phase.STARTING, 3.0)


def settling(folder: Path | None) -> Canned:
    run = (
        starving(folder)
        .switched("prefetch", "off", "4")
        .steps(1, COMPUTE_BOUND, int(Flag.SWITCH))
        .steps(30, COMPUTE_BOUND)
    )
    return run.doing(Phase.COMPUTE, 0.001)


def slow_callback(folder: Path | None) -> Canned:
    run = usual(folder)
    run.at_s += 8.0
    return run.doing(Phase.HOST, 8.0, "ModelCheckpoint")


def failed(folder: Path | None) -> Canned:
    run = usual(folder)
    run.event(
        facts.TrainingFailed,
        step=run.step,
        error=f"ValueError: {MARKUP}",
        traceback=f'File "a/b.py", line 3\n{MARKUP}',
    )
    return run.ended("failed")


def validating(folder: Path | None) -> Canned:
    run = usual(folder)
    run.at_s += 2.1
    return run.doing(Phase.VALIDATION, 2.1)


def finished(folder: Path | None) -> Canned:
    return usual(folder).ended()
