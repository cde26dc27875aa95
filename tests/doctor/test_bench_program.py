"""`tfwatch bench` times a configuration in a real process; the tests share one, and time the others
in their own."""

from collections.abc import Callable

import pytest

from tfwatch.cli.bench import BenchRow, run_in_process
from tfwatch.doctor.bench_program import Spec, measure
from tfwatch.doctor.trial import Trial

pytestmark = pytest.mark.tensorflow


def run_here(spec: Spec) -> Trial:
    import tensorflow as tf

    return Trial("completed", results={"measured": measure(tf, spec)})


@pytest.mark.parametrize(
    ("spec", "run"),
    [
        pytest.param(
            Spec("matmul", "cpu", seconds=0.1),
            run_here,
            id="a product",
        ),
        pytest.param(
            Spec("conv", "cpu", seconds=0.1),
            run_in_process,
            id="a convolution, in a process",
        ),
    ],
)
def test_a_configuration_is_timed(spec: Spec, run: Callable[[Spec], Trial]) -> None:
    trial = run(spec)
    assert trial.outcome == "completed"
    measured = trial.results["measured"]
    assert len(measured["steps_ms"]) >= 5
    assert all(ms > 0 for ms in measured["steps_ms"])
    row = BenchRow(spec)
    row.add_round(trial)
    assert (row.reason, len(row.medians_ms)) == ("", 1)


def test_a_missing_gpu_is_reported() -> None:
    row = BenchRow(Spec("matmul", "gpu", seconds=0.1))
    row.add_round(run_here(row.spec))
    assert row.reason.startswith("TensorFlow sees no GPU")
