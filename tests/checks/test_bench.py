"""The schedule, figures and table of `tfwatch bench`, without processes and without TensorFlow."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from tfwatch.checks.bench import (
    BenchOptions,
    BenchRow,
    as_dict,
    bench,
    list_specs,
    measure,
    render_rows,
)
from tfwatch.core.errors import BadInputError
from tfwatch.doctor.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Callable

    from tfwatch.checks.trial_program import Spec


def timed(
    steps_ms: list[float],
    first_ms: float = 50.0,
    examples: int = 32,
) -> Trial:
    measured = {"steps_ms": steps_ms, "first_ms": first_ms, "examples": examples}
    return Trial("completed", results={"measured": measured, "all": {}})


def refused(error: str, **more: Any) -> Trial:
    return Trial("completed", results={"measured": {"error": error, **more}, "all": {}})


def runs(answers: dict[tuple[str, str], list[Trial]]) -> Callable[[Spec], Trial]:
    """Return the answers for each device and mode, one after another."""
    return lambda spec: answers[spec.device, spec.mode].pop(0)


def measured(
    options: BenchOptions, run: Callable[[Spec], Trial], notify: Callable[[], None] = lambda: None
) -> list[BenchRow]:
    rows = [BenchRow(spec) for spec in list_specs(options)]
    measure(rows, options.rounds, notify, run)
    return rows


def printed(rows: list[BenchRow]) -> str:
    out = io.StringIO()
    console = Console(file=out, width=100)
    for part in render_rows(rows):
        console.print(part)
    return out.getvalue()


def test_every_configuration_runs_once_a_round_and_the_rounds_medians_decide() -> None:
    answers = {
        ("cpu", "graph"): [timed([9, 10, 11]), timed([10, 10.4, 30]), timed([10, 10, 10])],
        ("cpu", "jit"): [timed([5, 5, 5]), timed([4, 5, 6]), timed([5, 5, 99])],
    }
    seen: list[int] = []
    options = BenchOptions(["matmul"], ["cpu"], ["graph", "jit"])
    rows = measured(options, runs(answers), lambda: seen.append(1))
    assert [sorted(row.medians_ms) for row in rows] == [[10, 10, 10.4], [5, 5, 5]]
    assert len(seen) == 6
    steps = [as_dict(row, rows) for row in rows]
    assert [(t["step_ms"], t["speedup"], t["examples_s"]) for t in steps] == [
        (10, None, 3200),
        (5, 2.0, 6400),
    ]
    assert "2.00 x" in printed(rows)
    assert "10.0 ms ±2%" in printed(rows)
    assert "unsteady" not in printed(rows)


def test_rows_whose_rounds_differ_are_reported() -> None:
    graph = [timed([ms]) for ms in (10, 12, 10)]
    answers = {("cpu", "graph"): graph, ("cpu", "jit"): [timed([5]), timed([5]), timed([5])]}
    rows = measured(BenchOptions(["matmul"], ["cpu"], ["graph", "jit"]), runs(answers))

    assert [row.spread for row in rows] == [0.2, 0.0]
    text = " ".join(printed(rows).split())
    assert "unsteady, the machine throttled or was busy" in text
    assert text.endswith("matmul 2048 graph cpu")


def test_a_missing_gpu_is_reported_once_and_the_rest_is_timed() -> None:
    no_gpu = refused("TensorFlow sees no GPU", no_gpu=True)
    asked: list[Spec] = []

    def run(spec: Spec) -> Trial:
        asked.append(spec)
        return no_gpu if spec.device == "gpu" else timed([1, 1, 1])

    rows = measured(BenchOptions(["matmul", "conv"], rounds=2), run)
    assert sum(spec.device == "gpu" for spec in asked) == 1
    text = printed(rows)
    assert text.count("TensorFlow sees no GPU") == 1
    assert "not measured: gpu: TensorFlow" in text
    assert as_dict(rows[1], rows)["not_measured"] == "TensorFlow sees no GPU"
    assert as_dict(rows[1], rows)["step_ms"] is None


def test_without_a_gpu_there_is_no_table_of_gpus() -> None:
    rows = measured(
        BenchOptions(["matmul"], ["gpu"]), lambda _: refused("TensorFlow sees no GPU", no_gpu=True)
    )
    assert printed(rows) == "not measured: gpu: TensorFlow sees no GPU\n"


def test_one_round_has_no_spread() -> None:
    answers = {("cpu", "graph"): [timed([10, 10, 10])]}
    rows = measured(BenchOptions(["matmul"], ["cpu"], rounds=1), runs(answers))
    assert as_dict(rows[0], rows)["spread"] is None
    assert "10.0 ms ± n/a" in printed(rows)


def test_a_failed_row_has_its_reason_and_is_not_run_again() -> None:
    dead = Trial("died", stage="measured", exit_code=-9)
    answers = {
        ("cpu", "graph"): [dead],
        ("cpu", "jit"): [refused("InvalidArgumentError: XLA cannot")],
    }
    rows = measured(BenchOptions(["matmul"], ["cpu"], ["graph", "jit"]), runs(answers))
    assert rows[1].reason == "InvalidArgumentError: XLA cannot"
    assert rows[0].reason
    assert printed(rows).count("n/a") == 2


def test_both_bodies_are_timed_by_default_in_their_own_sizes_or_in_those_asked_for() -> None:
    wanted = list_specs(BenchOptions(devices=["cpu"]))
    assert [(spec.body, spec.size) for spec in wanted] == [("matmul", 2048), ("conv", 1)]
    sizes = list_specs(BenchOptions(["conv"], ["cpu"], sizes=[8, 16]))
    assert [spec.size for spec in sizes] == [8, 16]


@pytest.fixture(autouse=True)
def _idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfwatch.doctor.facts.other_programs", lambda: 0.0)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (BenchOptions(["cnn"]), "unknown body 'cnn': use matmul, conv"),
        (BenchOptions(["matmul"], modes=["fast"]), "unknown mode 'fast': use graph, eager, jit"),
        (BenchOptions(["matmul"], devices=["tpu"]), "unknown device 'tpu': use cpu, gpu"),
    ],
)
def test_bad_input_is_reported_in_a_sentence(options: BenchOptions, sentence: str) -> None:
    with pytest.raises(BadInputError, match=sentence):
        bench(options, as_json=False)


def test_measured_rows_are_printed_after_an_interrupt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = iter([timed([3, 3, 3])])

    def run(_: Spec) -> Trial:
        try:
            return next(answers)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr("tfwatch.checks.bench.run_in_process", run)
    assert bench(BenchOptions(["conv"], ["cpu"], ["graph", "jit"]), as_json=True) == 130
    results = json.loads(capsys.readouterr().out)["results"]
    assert sorted(result["step_ms"] or 0 for result in results) == [0, 3]


@pytest.mark.parametrize("exit_code", [0, 1])
def test_a_table_that_cannot_be_written_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, exit_code: int
) -> None:
    monkeypatch.setattr("tfwatch.checks.bench.run_in_process", lambda _: timed([1.0]))
    monkeypatch.setattr("tfwatch.checks.bench.write", lambda *_: exit_code)
    assert bench(BenchOptions(["conv"], ["cpu"]), as_json=True) == exit_code


@pytest.mark.parametrize(("used", "warns"), [(0.2, False), (1.5, True)])
def test_a_busy_machine_is_reported_before(
    used: float, warns: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tfwatch.doctor.facts.other_programs", lambda: used)
    monkeypatch.setattr("tfwatch.checks.bench.run_in_process", lambda _: timed([1.0]))
    assert bench(BenchOptions(["conv"], ["cpu"]), as_json=True) == 0
    assert ("other programs use 1.5 of" in capsys.readouterr().err) is warns
