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
    ResultPrinter,
    as_dict,
    bench,
    find_interval_cut,
    list_specs,
    measure,
    render_rows,
)
from tfwatch.checks.bench_program import Spec
from tfwatch.core.errors import BadInputError
from tfwatch.doctor.trial import LogFacts, Trial

if TYPE_CHECKING:
    from collections.abc import Callable


def timed(
    steps_ms: list[float],
    first_ms: float = 50.0,
    examples: int = 32,
    others_cores: float | None = 0.0,
) -> Trial:
    measured = {
        "steps_ms": steps_ms,
        "first_ms": first_ms,
        "examples": examples,
        "others_cores": others_cores,
    }
    return Trial("completed", results={"measured": measured, "all": {}})


def refused(error: str, **more: Any) -> Trial:
    return Trial("completed", results={"measured": {"error": error, **more}, "all": {}})


def runs(answers: dict[tuple[str, str], list[Trial]]) -> Callable[[Spec], Trial]:
    """Return the answers for each device and mode, one after another."""
    return lambda spec: answers[spec.device, spec.mode].pop(0)


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
    rows = measure(
        options, lambda rows: seen.append(sum(len(row.medians_ms) for row in rows)), runs(answers)
    )
    assert [sorted(row.medians_ms) for row in rows] == [[10, 10, 10.4], [5, 5, 5]]
    assert seen == [1, 2, 3, 4, 5, 6]
    steps = [as_dict(row, rows) for row in rows]
    assert [(t["step_ms"], t["speedup"], t["examples_s"]) for t in steps] == [
        (10, None, 3200),
        (5, 2.0, 6400),
    ]
    assert "2.00 x" in printed(rows)
    assert "10.0 ms ±2%" in printed(rows)
    assert "unsteady" not in printed(rows)


def test_rounds_that_differ_are_followed_by_more_until_their_median_is_certain() -> None:
    graph = [timed([ms]) for ms in (10, 12, 10, 10, 10, 10, 10, 10, 10)]
    answers = {("cpu", "graph"): graph, ("cpu", "jit"): [timed([5]), timed([5]), timed([5])]}
    rows = measure(
        BenchOptions(["matmul"], ["cpu"], ["graph", "jit"]), lambda _: None, runs(answers)
    )
    assert [len(row.medians_ms) for row in rows] == [9, 3]
    assert rows[0].spread == 0
    assert "unsteady" not in printed(rows)


@pytest.mark.parametrize(
    ("rounds", "cut"),
    [(1, 0), (5, 0), (6, 0), (8, 0), (9, 1), (11, 1), (12, 2), (15, 3), (17, 4), (20, 5)],
)
def test_the_interval_of_a_median_agrees_with_published_tables(rounds: int, cut: int) -> None:
    assert find_interval_cut(rounds) == cut  # Conover's table A3 at 95 %, less one


@pytest.mark.parametrize(
    ("others", "text"),
    [
        pytest.param(
            [1.7] * 9,
            "unsteady: other programs use 1.7 of 2 cores: matmul 2048 graph cpu",
            id="busy",
        ),
        pytest.param(
            [0.1] * 9,
            "unsteady, the machine throttled or was busy: matmul 2048 graph cpu",
            id="quiet",
        ),
        pytest.param(
            [None] * 9,
            "unsteady, the machine throttled or was busy: matmul 2048 graph cpu",
            id="not known",
        ),
    ],
)
def test_rows_that_remain_unsteady_are_reported_with_the_reason(
    others: list[float | None], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    answers = {
        ("cpu", "graph"): [timed([10 + n], others_cores=used) for n, used in enumerate(others)]
    }
    rows = measure(BenchOptions(["matmul"], ["cpu"]), lambda _: None, runs(answers))
    assert len(rows[0].medians_ms) == 9
    assert text in printed(rows)
    assert as_dict(rows[0], rows)["others_cores"] == others[0]


def test_steady_figures_of_a_busy_machine_are_reported_as_such(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    answers = {("cpu", "graph"): [timed([10], others_cores=1.0) for _ in range(3)]}
    rows = measure(BenchOptions(["matmul"], ["cpu"]), lambda _: None, runs(answers))
    assert "other programs use 1.0 of 2 cores; the figures are those of a busy machine" in " ".join(
        printed(rows).split()
    )


def test_operations_that_fall_back_are_named_except_housekeeping() -> None:
    log = LogFacts(on_cpu=("Prod", "Unique"), placed=40)
    on_gpu = Trial("completed", results=timed([1.0]).results, log=log)
    answers = {("gpu", "graph"): [on_gpu] * 3, ("cpu", "graph"): [on_gpu] * 3}
    rows = measure(BenchOptions(["matmul"]), lambda _: None, runs(answers))
    assert {row.spec.device: row.fell_back for row in rows} == {"gpu": ["Unique"], "cpu": []}
    assert "matmul 2048 graph: Unique ran on the CPU" in printed(rows)


def test_a_missing_gpu_is_reported_once_and_the_rest_is_timed() -> None:
    no_gpu = refused("TensorFlow sees no GPU", no_gpu=True)
    asked: list[Spec] = []

    def run(spec: Spec) -> Trial:
        asked.append(spec)
        return no_gpu if spec.device == "gpu" else timed([1, 1, 1])

    rows = measure(BenchOptions(["matmul", "conv"], rounds=2), lambda _: None, run)
    assert sum(spec.device == "gpu" for spec in asked) == 1
    text = printed(rows)
    assert text.count("TensorFlow sees no GPU") == 1
    assert "not measured: gpu: TensorFlow" in text
    assert as_dict(rows[1], rows)["not_measured"] == "TensorFlow sees no GPU"
    assert as_dict(rows[1], rows)["step_ms"] is None


def test_without_a_gpu_there_is_no_table_of_gpus() -> None:
    rows = measure(
        BenchOptions(["matmul"], ["gpu"]),
        lambda _: None,
        lambda _: refused("TensorFlow sees no GPU", no_gpu=True),
    )
    assert printed(rows) == "not measured: gpu: TensorFlow sees no GPU\n"


def test_one_round_has_no_spread() -> None:
    answers = {("cpu", "graph"): [timed([10, 10, 10])]}
    rows = measure(BenchOptions(["matmul"], ["cpu"], rounds=1), lambda _: None, runs(answers))
    assert as_dict(rows[0], rows)["spread"] is None
    assert "10.0 ms ± n/a" in printed(rows)
    assert "± n/a: one round has no spread; use --rounds 2 or more" in printed(rows)


def test_a_failed_row_has_its_reason_and_is_not_run_again() -> None:
    dead = Trial("died", stage="measured", exit_code=-9)
    answers = {
        ("cpu", "graph"): [dead],
        ("cpu", "jit"): [refused("InvalidArgumentError: XLA cannot")],
    }
    rows = measure(
        BenchOptions(["matmul"], ["cpu"], ["graph", "jit"], rounds=3), lambda _: None, runs(answers)
    )
    assert rows[1].reason == "InvalidArgumentError: XLA cannot"
    assert rows[0].reason
    assert printed(rows).count("n/a") == 2


def test_both_bodies_are_timed_by_default_in_their_own_sizes_or_in_those_asked_for() -> None:
    wanted = list_specs(BenchOptions(devices=["cpu"]))
    assert [(spec.body, spec.size) for spec in wanted] == [("matmul", 2048), ("conv", 1)]
    sizes = list_specs(BenchOptions(["conv"], ["cpu"], sizes=[8, 16]))
    assert [spec.size for spec in sizes] == [8, 16]


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


def test_measured_rows_are_printed_after_an_interrupt(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        BenchRow(Spec("matmul", "cpu", "graph", 64)),
        BenchRow(Spec("matmul", "cpu", "jit", 64)),
    ]
    rows[0].add_round(timed([3, 3, 3]))
    with (  # noqa: PT012
        pytest.raises(KeyboardInterrupt),
        ResultPrinter(True, [row.spec for row in rows]) as printer,
    ):
        printer.update(rows)
        raise KeyboardInterrupt
    results = json.loads(capsys.readouterr().out)["results"]
    assert [result["step_ms"] for result in results] == [3, None]


@pytest.mark.parametrize("exit_code", [0, 1])
def test_a_table_that_cannot_be_written_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, exit_code: int
) -> None:
    measured = [
        BenchRow(spec, medians_ms=[1.0]) for spec in list_specs(BenchOptions(["conv"], ["cpu"]))
    ]
    monkeypatch.setattr("tfwatch.checks.bench.measure", lambda *_: measured)
    monkeypatch.setattr("tfwatch.checks.bench.write", lambda *_: exit_code)
    assert bench(BenchOptions(["conv"], ["cpu"]), as_json=True) == exit_code
