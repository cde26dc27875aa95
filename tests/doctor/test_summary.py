"""The machine in one line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.doctor.machines import CPU, H100, linux, mac, product, stopped, trial, with_gpu
from tfwatch.doctor.facts import Facts
from tfwatch.doctor.packages import Installed
from tfwatch.doctor.quick_facts import machine_line
from tfwatch.doctor.trial import SKIPPED

_TWO = trial(CPU, H100, {**H100, "name": "GPU:1"})
_WRONG = replace(
    _TWO,
    results={
        **_TWO.results,
        "products": {"products": [product("GPU:0"), product("GPU:1", right=False)]},
    },
)


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        pytest.param(
            mac(), "Apple M2 Pro, 16 GB, TensorFlow 2.19.1 + metal 1.2.0, GPU ok", id="mac"
        ),
        pytest.param(linux(), "AMD EPYC, 24 GB, TensorFlow 2.21.0, no GPU", id="no GPU"),
        pytest.param(
            with_gpu(trial=_TWO), "AMD EPYC, 24 GB, TensorFlow 2.21.0, 2 GPUs ok", id="two GPUs"
        ),
        pytest.param(
            with_gpu(trial=_WRONG),
            "AMD EPYC, 24 GB, TensorFlow 2.21.0, 2 GPUs not working",
            id="wrong",
        ),
        pytest.param(
            linux(trial=stopped("import")),
            "AMD EPYC, 24 GB, TensorFlow 2.21.0, TensorFlow does not start",
            id="dead",
        ),
        pytest.param(
            linux(trial=stopped("devices")),
            "AMD EPYC, 24 GB, TensorFlow 2.21.0, devices unknown",
            id="no devices",
        ),
        pytest.param(linux(trial=SKIPPED), "AMD EPYC, 24 GB, TensorFlow 2.21.0", id="skipped"),
        pytest.param(
            linux(trial=SKIPPED, installed=Installed("linux", "x86_64")),
            "AMD EPYC, 24 GB, no TensorFlow",
            id="none",
        ),
        pytest.param(Facts(), "no TensorFlow", id="nothing known"),
    ],
)
def test_the_line(facts: Facts, line: str) -> None:
    assert machine_line(facts) == line
