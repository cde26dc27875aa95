"""`tfwatch bench` times a configuration in a real process."""

from __future__ import annotations

import sys

import pytest

from tfwatch.checks.bench import Row, run_in_process
from tfwatch.checks.bench_program import Spec

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("op_determinism")]


@pytest.mark.parametrize(
    ("spec", "examples"),
    [
        pytest.param(Spec("matmul", "cpu", "graph", size=64, seconds=0.1), 1, id="an operation alone"),
        pytest.param(Spec("generator", "cpu", "eager", batch_size=8, seconds=0.1), 8, id="a step of a training"),
    ],
)
def test_a_configuration_is_timed_with_its_first_step_and_other_programs(spec: Spec, examples: int) -> None:
    trial = run_in_process(spec)
    assert trial.outcome == "completed"
    measured = trial.results["measured"]
    assert len(measured["steps_ms"]) >= 5
    assert all(ms > 0 for ms in measured["steps_ms"])
    assert measured["others_cores"] >= 0
    row = Row(spec)
    row.add_round(trial)
    assert (row.reason, row.examples, row.fell_back, len(row.medians_ms)) == ("", examples, [], 1)
    assert row.first_ms[0] > 0


@pytest.mark.skipif(sys.platform == "darwin", reason="no variable hides Apple's GPU")
def test_a_missing_gpu_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    row = Row(Spec("matmul", "gpu", "graph", size=64, seconds=0.1))
    row.add_round(run_in_process(row.spec))
    assert row.no_gpu
    assert row.reason.startswith("TensorFlow sees no GPU")
