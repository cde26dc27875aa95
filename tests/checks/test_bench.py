"""What `tfwatch bench` compares and how it tells it. No process is started and no TensorFlow imported."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from tfwatch.checks.bench import Printer, Row, Wish, as_dict, bench, certain_from, measure, shown, specs
from tfwatch.checks.bench_program import Spec
from tfwatch.doctor.trial import LogFacts, Trial
from tfwatch.workloads.registry import WORKLOADS
from tfwatch.workloads.workload import BadInputError

if TYPE_CHECKING:
    from collections.abc import Callable


def timed(steps_ms: list[float], first_ms: float = 50.0, examples: int = 32, others_cores: float | None = 0.0) -> Trial:
    measured = {"steps_ms": steps_ms, "first_ms": first_ms, "examples": examples, "others_cores": others_cores}
    return Trial("whole", results={"measured": measured, "all": {}})


def refused(error: str, **more: Any) -> Trial:
    return Trial("whole", results={"measured": {"error": error, **more}, "all": {}})


def runs(answers: dict[tuple[str, str], list[Trial]]) -> Callable[[Spec], Trial]:
    """By device and mode, one after another."""
    return lambda spec: answers[spec.device, spec.mode].pop(0)


def printed(rows: list[Row]) -> str:
    out = io.StringIO()
    console = Console(file=out, width=100)
    for part in shown(rows):
        console.print(part)
    return out.getvalue()


def test_every_configuration_runs_once_a_round_and_the_rounds_medians_decide() -> None:
    answers = {
        ("cpu", "graph"): [timed([9, 10, 11]), timed([10, 10.4, 30]), timed([10, 10, 10])],
        ("cpu", "jit"): [timed([5, 5, 5]), timed([4, 5, 6]), timed([5, 5, 99])],
    }
    seen: list[int] = []
    wish = Wish(["dense"], ["cpu"], ["graph", "jit"])
    rows = measure(wish, lambda rows: seen.append(sum(len(row.medians_ms) for row in rows)), runs(answers))
    assert [sorted(row.medians_ms) for row in rows] == [[10, 10, 10.4], [5, 5, 5]]
    assert seen == [1, 2, 3, 4, 5, 6]
    told = [as_dict(row, rows) for row in rows]
    assert [(t["step_ms"], t["speed"], t["examples_s"]) for t in told] == [(10, None, 3200), (5, 2.0, 6400)]
    assert "2.00 x" in printed(rows)
    assert "10.0 ms ±2%" in printed(rows)
    assert "unsteady" not in printed(rows)


def test_rounds_that_lie_apart_are_followed_by_more_until_their_median_is_certain() -> None:
    graph = [timed([ms]) for ms in (10, 12, 10, 10, 10, 10, 10, 10, 10)]
    answers = {("cpu", "graph"): graph, ("cpu", "jit"): [timed([5]), timed([5]), timed([5])]}
    rows = measure(Wish(["dense"], ["cpu"], ["graph", "jit"]), lambda _: None, runs(answers))
    assert [len(row.medians_ms) for row in rows] == [9, 3]
    assert rows[0].spread == 0
    assert "unsteady" not in printed(rows)


@pytest.mark.parametrize(
    ("rounds", "cut"), [(1, 0), (5, 0), (6, 0), (8, 0), (9, 1), (11, 1), (12, 2), (15, 3), (17, 4), (20, 5)]
)
def test_the_interval_of_a_median_is_that_of_the_tables(rounds: int, cut: int) -> None:
    assert certain_from(rounds) == cut  # Conover's table A3 at 95 %, less one


@pytest.mark.parametrize(
    ("others", "says"),
    [
        pytest.param([1.7] * 9, "unsteady: other programs use 1.7 of 2 cores: dense graph cpu", id="busy"),
        pytest.param([0.1] * 9, "unsteady, the machine throttled or was busy: dense graph cpu", id="quiet"),
        pytest.param([None] * 9, "unsteady, the machine throttled or was busy: dense graph cpu", id="not known"),
    ],
)
def test_what_stays_unsteady_is_told_with_its_reason(
    others: list[float | None], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    answers = {("cpu", "graph"): [timed([10 + n], others_cores=used) for n, used in enumerate(others)]}
    rows = measure(Wish(["dense"], ["cpu"]), lambda _: None, runs(answers))
    assert len(rows[0].medians_ms) == 9
    assert says in printed(rows)
    assert as_dict(rows[0], rows)["others_cores"] == others[0]


def test_steady_figures_of_a_busy_machine_are_told_to_be_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    answers = {("cpu", "graph"): [timed([10], others_cores=1.0) for _ in range(3)]}
    rows = measure(Wish(["dense"], ["cpu"]), lambda _: None, runs(answers))
    assert "other programs use 1.0 of 2 cores; the figures are those of a busy machine" in " ".join(
        printed(rows).split()
    )


def test_what_fell_back_to_the_cpu_is_named_and_what_belongs_there_is_not() -> None:
    log = LogFacts(on_cpu=("Prod", "Unique"), placed=40)
    on_gpu = Trial("whole", results=timed([1.0]).results, log=log)
    answers = {("gpu", "graph"): [on_gpu] * 3, ("cpu", "graph"): [on_gpu] * 3}
    rows = measure(Wish(["dense"]), lambda _: None, runs(answers))
    assert {row.spec.device: row.fell_back for row in rows} == {"gpu": ["Unique"], "cpu": []}
    assert "dense graph: on the CPU ran Unique" in printed(rows)


def test_a_machine_without_a_gpu_says_so_once_and_times_the_rest() -> None:
    no_gpu = refused("TensorFlow sees no GPU here", no_gpu=True)
    asked: list[Spec] = []

    def run(spec: Spec) -> Trial:
        asked.append(spec)
        return no_gpu if spec.device == "gpu" else timed([1, 1, 1])

    rows = measure(Wish(["dense", "cifar10"], rounds=2), lambda _: None, run)
    assert sum(spec.device == "gpu" for spec in asked) == 1
    text = printed(rows)
    assert text.count("TensorFlow sees no GPU here") == 1
    assert "not measured: gpu: TensorFlow" in text
    assert as_dict(rows[1], rows)["not_measured"] == "TensorFlow sees no GPU here"
    assert as_dict(rows[1], rows)["step_ms"] is None


def test_without_a_gpu_there_is_no_table_of_gpus() -> None:
    rows = measure(Wish(["dense"], ["gpu"]), lambda _: None, lambda _: refused("TensorFlow sees no GPU", no_gpu=True))
    assert printed(rows) == "not measured: gpu: TensorFlow sees no GPU\n"


def test_one_round_has_no_spread() -> None:
    answers = {("cpu", "graph"): [timed([10, 10, 10])]}
    rows = measure(Wish(["dense"], ["cpu"], rounds=1), lambda _: None, runs(answers))
    assert as_dict(rows[0], rows)["spread"] is None
    assert "10.0 ms ± n/a" in printed(rows)
    assert "± n/a: one round has no spread; use --rounds 2 or more" in printed(rows)


def test_what_dies_or_is_refused_has_its_reason_and_is_not_tried_again() -> None:
    dead = Trial("died", stage="measured", code=-9)
    answers = {("cpu", "graph"): [dead], ("cpu", "jit"): [refused("InvalidArgumentError: XLA cannot")]}
    rows = measure(Wish(["dense"], ["cpu"], ["graph", "jit"], rounds=3), lambda _: None, runs(answers))
    assert rows[1].reason == "InvalidArgumentError: XLA cannot"
    assert rows[0].reason
    assert printed(rows).count("n/a") == 2


def test_all_workloads_are_timed_where_none_is_named_and_a_size_goes_to_those_that_have_one() -> None:
    wanted = specs(Wish(size=64, devices=["cpu"]))
    assert [spec.workload for spec in wanted] == list(WORKLOADS)
    assert {spec.workload for spec in wanted if spec.size} == {
        n for n, entry in WORKLOADS.items() if "size" in entry.takes
    }
    assert [spec.batch_size for spec in specs(Wish(["dense"], ["cpu"], batch_sizes=[8, 16]))] == [8, 16]


@pytest.mark.parametrize(
    ("wish", "sentence"),
    [
        (Wish(["dense"], size=5), "dense takes no --size"),
        (Wish(["dens"]), "did you mean dense"),
        (Wish(["dense"], modes=["fast"]), "no mode 'fast': there are graph, eager, jit"),
        (Wish(["dense"], devices=["tpu"]), "no device 'tpu': there are cpu, gpu"),
    ],
)
def test_bad_input_is_a_sentence(wish: Wish, sentence: str) -> None:
    with pytest.raises(BadInputError, match=sentence):
        bench(wish, as_json=False)


def test_what_was_measured_is_printed_though_it_was_interrupted(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [Row(Spec("dense", "cpu", "graph")), Row(Spec("dense", "cpu", "jit"))]
    rows[0].take(timed([3, 3, 3]))
    with pytest.raises(KeyboardInterrupt), Printer(True, [row.spec for row in rows]) as printer:  # noqa: PT012
        printer.update(rows)
        raise KeyboardInterrupt
    results = json.loads(capsys.readouterr().out)["results"]
    assert [result["step_ms"] for result in results] == [3, None]


@pytest.mark.parametrize("unwritten", [0, 1])
def test_a_table_that_could_not_be_written_is_exit_code_1(monkeypatch: pytest.MonkeyPatch, unwritten: int) -> None:
    measured = [Row(spec, medians_ms=[1.0]) for spec in specs(Wish(["conv"], ["cpu"]))]
    monkeypatch.setattr("tfwatch.checks.bench.measure", lambda *_: measured)
    monkeypatch.setattr("tfwatch.checks.bench.write", lambda *_: unwritten)
    assert bench(Wish(["conv"], ["cpu"]), as_json=True) == unwritten
