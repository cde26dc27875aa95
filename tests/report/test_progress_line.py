"""A run in one line, while it trains."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from tests.judge.step_rows import plain
from tests.runs.folders import FakeClock, write_run
from tfwatch.core.events import AutopilotBegan, EpochStarted, ExperimentBegan, ExperimentEnded
from tfwatch.core.rows import Phase
from tfwatch.report.progress_line import progress_line
from tfwatch.runs.reading.reader import RunReader

if TYPE_CHECKING:
    from tfwatch.runs.writer import RunWriter


def line_of(writer: RunWriter, clock: FakeClock, width: int | None = None) -> str:
    writer.flush()
    return progress_line(RunReader(writer, clock.clock).tail(), width)


def training() -> tuple[RunWriter, FakeClock]:
    clock = FakeClock(2.0)
    writer = write_run(
        None, plain(100, 0.41), EpochStarted(0, 1, 20, 780), clock=clock, metric="accuracy"
    )
    for at_s, images in ((2.0, 1000), (4.0, 3480)):
        clock.at_s = at_s
        writer.progress.append((images, 412, 1, 12, 1.3125, 0.5))
        writer.flush()
    writer.status = (Phase.COMPUTE, 0, 412, 1, "")
    return writer, clock


def test_a_run_that_trains() -> None:
    line = "cnn  epoch 2/20  step 412  1 240 examples/s  loss 1.312  accuracy 0.500  20.0 ms/step, starving 41 %"
    assert line_of(*training()) == line


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (
            100,
            "cnn  epoch 2/20  step 412  1 240 examples/s  loss 1.312  accuracy 0.500  20.0 ms/step, starving 41 %",
        ),
        (
            99,
            "cnn  epoch 2/20  step 412  1 240 examples/s  accuracy 0.500  20.0 ms/step, starving 41 %",
        ),
        (79, "cnn  epoch 2/20  step 412  1 240 examples/s  20.0 ms/step, starving 41 %"),
        (40, "cnn  20.0 ms/step, starving 41 %"),
        (30, "20.0 ms/step, starving 41 %"),
    ],
)
def test_what_does_not_fit_goes_and_starving_goes_last(width: int, line: str) -> None:
    assert line_of(*training(), width) == line


def test_what_the_pilot_does_stands_in_place_of_the_verdict() -> None:
    writer, clock = training()
    writer.event(ExperimentBegan(0, "prefetch", ["off", "4"], 50, 600, 1))
    assert line_of(writer, clock, 79).endswith(
        "  1 240 examples/s  A/B test prefetch off vs 4: block 1"
    )
    writer.event(
        ExperimentEnded(
            0, "prefetch", ["off", "4"], 50, 90, "key", "unclear", "4", "off", 0, 0, 40, ""
        )
    )
    assert line_of(writer, clock).endswith("  20.0 ms/step, starving 41 %")
    writer.event(AutopilotBegan(0, 90, 1e9))
    assert line_of(writer, clock).endswith("  autopilot, measuring the current setting")


@pytest.mark.parametrize(
    ("phase", "detail", "line"),
    [
        (Phase.IMPORT, "", "cnn  importing TensorFlow, 6.2 s"),
        (
            Phase.DATA_SET,
            "making the image set, 3 120 of 8 000",
            "cnn  making the image set, 3 120 of 8 000, 6.2 s",
        ),
        (Phase.DATA_SET, "a\x1b[2Jb\nc", "cnn  a [2Jb"),
        (Phase.COMPILE, "", "cnn  compiling, 6.2 s"),
        (Phase.WAIT, "", "cnn  no batch for 6.2 s"),
        (Phase.VALIDATION, "", "cnn  validation, 6.2 s"),
        (Phase.COMPUTE, "", "cnn"),
    ],
)
def test_what_lasts_is_told(phase: Phase, detail: str, line: str) -> None:
    clock = FakeClock(1.0)
    writer = write_run(None, plain(0), clock=clock)
    writer.phase(phase, detail)
    clock.at_s = 7.2

    assert line_of(writer, clock) == line


def test_a_loss_that_is_missing_is_not_shown() -> None:
    clock = FakeClock(2.0)
    writer = write_run(None, plain(5), clock=clock)
    writer.progress.append((0, 5, 0, 5, None, None))
    writer.phase(Phase.COMPUTE)

    assert line_of(writer, clock) == "cnn  epoch 1  step 5"


def test_a_loss_that_is_nan_is_told_until_it_is_finite_again() -> None:
    clock = FakeClock(2.0)
    writer = write_run(None, plain(5), clock=clock)
    writer.phase(Phase.COMPUTE)
    lines = []
    for step, loss in enumerate([0.5, math.nan, math.nan, 0.25], 1):
        clock.at_s += 1.0
        writer.progress.append((0, step, 0, step, loss, None))
        lines.append(line_of(writer, clock))

    assert lines == [
        "cnn  epoch 1  step 1  loss 0.500",
        "cnn  epoch 1  step 2  loss is NaN since step 2",
        "cnn  epoch 1  step 3  loss is NaN since step 2",
        "cnn  epoch 1  step 4  loss 0.250",
    ]
