"""What `tfwatch bench` compares and how it tells it. No process is started and no TensorFlow imported."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from tfwatch.commands.bench import Row, Wish, bench, measure, specs
from tfwatch.commands.bench_table import Printer, as_dict, remarks, table
from tfwatch.doctor.trial import Trial
from tfwatch.training.measuring import Spec
from tfwatch.workloads import WORKLOADS, BadInputError

if TYPE_CHECKING:
    from collections.abc import Callable


def timed(steps_ms: list[float], first_ms: float = 50.0, examples: int = 32) -> Trial:
    measured = {"steps_ms": steps_ms, "first_ms": first_ms, "examples": examples}
    return Trial("whole", results={"measured": measured, "all": {}})


def refused(error: str, **more: Any) -> Trial:
    return Trial("whole", results={"measured": {"error": error, **more}, "all": {}})


def runs(answers: dict[tuple[str, str], list[Trial]]) -> Callable[[Spec], Trial]:
    """By device and mode, one after another."""
    return lambda spec: answers[spec.device, spec.mode].pop(0)


def printed(rows: list[Row]) -> str:
    out = io.StringIO()
    console = Console(file=out, width=100)
    console.print(table(rows))
    for line in remarks(rows):
        console.print(line)
    return out.getvalue()


def test_every_configuration_runs_once_a_round_and_the_rounds_medians_decide() -> None:
    answers = {
        ("cpu", "graph"): [timed([9, 10, 11]), timed([10, 11, 30]), timed([10, 10, 10])],
        ("cpu", "jit"): [timed([5, 5, 5]), timed([4, 5, 6]), timed([5, 5, 99])],
    }
    seen: list[int] = []
    wish = Wish(["dense"], ["cpu"], ["graph", "jit"])
    rows = measure(wish, lambda rows: seen.append(sum(len(row.medians_ms) for row in rows)), runs(answers))
    assert [sorted(row.medians_ms) for row in rows] == [[10, 10, 11], [5, 5, 5]]
    assert seen == [1, 2, 3, 4, 5, 6]
    told = [as_dict(row, rows) for row in rows]
    assert [(t["step_ms"], t["speed"], t["examples_s"]) for t in told] == [(10, None, 3200), (5, 2.0, 6400)]
    assert "2.00 x" in printed(rows)
    assert "10.0 ms ±5%" in printed(rows)
    assert "rounds lie more than 5% apart" in printed(rows)


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
