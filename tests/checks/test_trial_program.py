"""The trial of TensorFlow for the check-up, in a real process."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tfwatch.checks import trial_program
from tfwatch.doctor.trial import STEP_BEGINS, STEP_ENDS, try_tensorflow

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.tensorflow
def test_this_tensorflow_works_and_ignores_the_users_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "random.py").write_text("raise RuntimeError('this is the user's own')\n")
    monkeypatch.chdir(tmp_path)
    stages: list[str] = []
    trial = try_tensorflow(stages.append)

    assert (trial.outcome, stages) == ("completed", ["import", "devices", "products", "step"])
    assert trial.devices[0]["name"] == "CPU:0"
    assert all(product["right"] and product["placed"] == product["device"] for product in trial.products)
    assert trial.results["step"]["finite"]
    assert trial.log.placed > 20
    assert "Conv2D" in trial.log.on_cpu or trial.gpus
    assert os.getcwd() == str(tmp_path)


@pytest.mark.tensorflow
def test_both_modules_have_the_same_marker_lines() -> None:
    assert (trial_program.STEP_BEGINS, trial_program.STEP_ENDS) == (STEP_BEGINS, STEP_ENDS)
