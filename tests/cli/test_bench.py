"""The schedule, figures and table of `tfwatch bench`, without processes and without TensorFlow."""

import io
from argparse import Namespace

import pytest

from tfwatch.cli import bench as room
from tfwatch.cli.bench import BenchRow, bench, measure, render_rows
from tfwatch.cli.dispatch import make_parser
from tfwatch.doctor.bench_program import Spec
from tfwatch.doctor.trial import Trial
from tfwatch.terminal.output import render


def timed(*steps_ms: float) -> Trial:
    return Trial("completed", results={"measured": {"steps_ms": steps_ms}, "all": {}})


def refused(error: str) -> Trial:
    return Trial("completed", results={"measured": {"error": error}, "all": {}})


def asked(*words: str) -> Namespace:
    return make_parser().parse_args(["bench", *words])


def measured(answers: dict[str, list[Trial]], monkeypatch: pytest.MonkeyPatch) -> list[BenchRow]:
    """Return the rows with the answers for each device, one after another."""
    monkeypatch.setattr(room, "run_in_process", lambda spec: answers[spec.device].pop(0))
    rows = [BenchRow(Spec("matmul", device)) for device in answers]
    measure(rows)
    return rows


def printed(rows: list[BenchRow]) -> str:
    return render(io.StringIO(), *render_rows(rows))


def test_every_configuration_runs_once_a_round_and_the_rounds_medians_decide(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = {
        "cpu": [timed(9, 10, 11), timed(10, 10.4, 30), timed(10, 10, 10)],
        "gpu": [timed(5, 5, 5), timed(4, 5, 6), timed(5, 5, 99)],
    }
    rows = measured(answers, monkeypatch)

    assert [sorted(row.medians_ms) for row in rows] == [[10, 10, 10.4], [5, 5, 5]]
    assert [(row.step_ms, row.speedup(rows)) for row in rows] == [(10, None), (5, 2.0)]
    assert "2.00 x" in printed(rows)
    assert "10.0 ms ±2%" in printed(rows)


def test_a_row_that_fails_has_its_reason_once_and_is_not_run_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    no_gpu = "TensorFlow sees no GPU here"
    answers = {"cpu": [timed(10)], "gpu": [refused(no_gpu)]}
    monkeypatch.setattr(room, "_ROUNDS", 1)
    rows = measured(answers, monkeypatch)

    assert "10.0 ms ± n/a" in printed(rows)
    assert printed(rows).count(f"not measured on the gpu: {no_gpu}") == 1
    assert rows[1].step_ms is None

    dead = {"gpu": [Trial("died", stage="measured", exit_code=-9)]}
    rows = measured(dead, monkeypatch)
    assert printed(rows).startswith("not measured on the gpu: ")


@pytest.fixture(autouse=True)
def _idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfwatch.doctor.facts.other_programs", lambda: 0.0)


def test_measured_rows_are_printed_after_an_interrupt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = iter([timed(3, 3, 3)])

    def run(_: Spec) -> Trial:
        try:
            return next(answers)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr("tfwatch.cli.bench.run_in_process", run)
    assert bench(asked("conv")) == 130
    assert "3.0 ms ± n/a" in capsys.readouterr().out


@pytest.mark.parametrize("exit_code", [0, 1])
def test_a_table_that_cannot_be_written_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, exit_code: int
) -> None:
    monkeypatch.setattr("tfwatch.cli.bench.run_in_process", lambda _: timed(1.0))
    monkeypatch.setattr("tfwatch.cli.bench.write", lambda *_: exit_code)
    assert bench(asked("conv")) == exit_code


@pytest.mark.parametrize(("used", "warns"), [(0.2, False), (1.5, True)])
def test_a_busy_machine_is_reported_before(
    used: float, warns: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tfwatch.doctor.facts.other_programs", lambda: used)
    monkeypatch.setattr("tfwatch.cli.bench.run_in_process", lambda _: timed(1.0))
    assert bench(asked("conv")) == 0
    assert ("other programs use 1.5 of" in capsys.readouterr().err) is warns
