"""TensorFlow is tried for the check-up, in a process of its own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tfwatch.checks import trial_program
from tfwatch.doctor.trial import STEP_BEGINS, STEP_ENDS, try_tensorflow

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.tensorflow
def test_this_tensorflow_works_and_no_file_of_the_users_is_in_its_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "random.py").write_text("raise RuntimeError('this is the user's own')\n")
    monkeypatch.chdir(tmp_path)
    told: list[str] = []
    tried = try_tensorflow(told.append)

    assert (tried.fate, told) == ("whole", ["import", "devices", "products", "step"])
    assert tried.devices[0]["name"] == "CPU:0"
    assert all(product["right"] and product["placed"] == product["device"] for product in tried.products)
    assert tried.results["step"]["finite"]
    assert tried.log.placed > 20
    assert "Conv2D" in tried.log.on_cpu or tried.gpus
    assert os.getcwd() == str(tmp_path)


@pytest.mark.tensorflow
def test_both_sides_mean_the_same_lines() -> None:
    assert (trial_program.STEP_BEGINS, trial_program.STEP_ENDS) == (STEP_BEGINS, STEP_ENDS)
