"""A/B tests on real trainings: the result is that of the run without one, bit for bit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.whole import events_of, only, result, train
from tfwatch.core.events import (
    ExperimentBegan,
    ExperimentBlock,
    ExperimentEnded,
    PipelineSwitched,
    RunEnded,
)
from tfwatch.core.knobs import Knobs
from tfwatch.runs.control.requests import Control, Experiment
from tfwatch.runs.create import begin_run
from tfwatch.runs.reading.opened import open_run
from tfwatch.training.request import Plan
from tfwatch.training.trainer import Trainer
from tfwatch.tuner.thread import TunerThread
from tfwatch.workloads.workload import Settings

if TYPE_CHECKING:
    from pathlib import Path

    from tfwatch.runs.reading.opened import Run

pytestmark = pytest.mark.tensorflow


def experimented(plan: Plan, experiment: Experiment, runs_dir: Path) -> Run:
    writer, _ = begin_run(
        runs_dir, plan.workload, knobs={"prefetch": "off"}, switchable=["prefetch"]
    )
    control = Control(plan.knobs)
    trainer, pilot = Trainer(plan, writer, control), TunerThread(writer, control)
    control.ask_tuner(experiment)
    pilot.start()
    trainer.start()
    assert trainer.done.wait(120)
    pilot.stop()
    writer.close()
    assert writer.folder
    return open_run(writer.folder)


def test_an_experiment_changes_no_bit_of_the_result(tmp_path: Path) -> None:
    """The training ends with the A/B test, and the training without one has as many steps."""
    settings = Settings(size=8, steps=2000, seed=7, optimizer="sgd")
    experiment = Experiment("prefetch", ("off", 2), seed=3, steps=40, ends=True)
    run = experimented(Plan("matmul", settings, Knobs()), experiment, tmp_path / "runs")
    plain, _ = train("matmul", replace(settings, steps=len(run.steps)), tmp_path / "runs")
    assert only(run, ExperimentBegan).values == ["off", "2"]
    assert events_of(run, PipelineSwitched) != []
    assert events_of(run, ExperimentBlock) != []
    assert only(run, ExperimentEnded).cause in ("budget", "clear")
    assert only(run, RunEnded).cause == "finished"
    assert result(run) == result(plain)
    assert run.steps["step"].tolist() == plain.steps["step"].tolist()
