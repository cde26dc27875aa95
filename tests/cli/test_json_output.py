"""Real `--json` output of the commands that show no run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.checks.test_selftest_table import COSTS, case
from tests.doctor.machines import linux, mac
from tfwatch import cli
from tfwatch.checks.bench import BenchRow, as_dict
from tfwatch.checks.selftest import cases_json as selftest_json
from tfwatch.checks.selftest_cases import Case
from tfwatch.checks.trial_program import Spec
from tfwatch.cli.doctor import to_json as doctor_json
from tfwatch.doctor.checks import judge

if TYPE_CHECKING:
    from tfwatch.doctor.facts import Facts


@pytest.mark.parametrize("facts", [linux(), mac("2.20.0", "1.2.0")])
def test_doctor(facts: Facts) -> None:
    found = json.loads(doctor_json(judge(facts)))

    assert len(found["checks"]) > 8


def test_bench() -> None:
    rows = [
        BenchRow(
            Spec("conv", "cpu", "graph", 1),
            medians_ms=[10.0, 10.4, 10.1],
            first_ms=[80.0],
        ),
        BenchRow(Spec("conv", "gpu", "graph", 1), reason="TensorFlow sees no GPU"),
        BenchRow(Spec("matmul", "cpu", "graph", size=2048), medians_ms=[3.0], first_ms=[9.0]),
    ]

    found = {"results": [as_dict(row, rows) for row in rows]}

    assert [result["step_ms"] for result in found["results"]] == [10.1, None, 3.0]


def test_selftest() -> None:
    words = Case("spike", "60 ms", "callback SlowLogger", "not found", "", 2.0, 2)

    found = selftest_json([case(10.2, 0.6), words], COSTS)

    assert (found["passed"], found["failed"]) == (1, 1)


def test_workloads(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["workloads", "--json"]) == 0

    found = json.loads(capsys.readouterr().out)

    assert "cnn" in [workload["name"] for workload in found["workloads"]]
