"""Metrics of runs: what Prometheus reads, and what it does not find."""

from pathlib import Path
from typing import Any

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.screens.canned import STARVING, Canned
from tfwatch.cli.serve import RunMetrics
from tfwatch.core import events as facts
from tfwatch.core.rows import Phase
from tfwatch.report.metrics import LINGER_S, STATES, ServedRuns

NAME = "2026-11-20T10-17-03_cnn"


def running(runs_dir: Path, name: str = NAME, **changes: Any) -> Canned:
    """A run that starves."""
    return (
        Canned(runs_dir / name, **changes)
        .started()
        .steps(150, STARVING)
        .doing(Phase.COMPUTE, 0.0)
        .sample()
    )


def samples(runs: ServedRuns) -> dict[str, list[tuple[dict[str, str], float]]]:
    """The samples that a scrape reads, by metric: their labels and values."""
    text = generate_latest(RunMetrics(runs)).decode()
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            found.setdefault(one.name, []).append((one.labels, one.value))
    return found


def state(found: dict[str, list[tuple[dict[str, str], float]]]) -> list[str]:
    return [labels["state"] for labels, value in found["tfwatch_run_state"] if value]


def test_a_run_has_its_sums_and_its_present_figures(tmp_path: Path) -> None:
    run = running(tmp_path)
    run.writer.flush()
    found = samples(ServedRuns(tmp_path, run.clock))

    assert state(found) == ["running"]
    assert len(found["tfwatch_run_state"]) == len(STATES)
    assert found["tfwatch_steps_total"] == [({"run": NAME}, 151.0)]
    parts = {labels["part"]: value for labels, value in found["tfwatch_step_seconds_total"]}
    assert parts == {
        "data_wait": pytest.approx(1.48, abs=0.01),
        "compute": pytest.approx(4.35, abs=0.1),
        "host": pytest.approx(0.121),
    }
    ((_, share),) = found["tfwatch_data_wait_ratio"]
    assert share == pytest.approx(0.41, abs=0.01)
    assert found["tfwatch_finding_ratio"][0][0] == {"run": NAME, "kind": "input-bound"}
    assert found["tfwatch_examples_total"] == [({"run": NAME}, 150 * 32.0)]


def test_what_is_missing_has_no_sample(tmp_path: Path) -> None:
    run = Canned(tmp_path / NAME).doing(Phase.STARTING, 0.0)
    run.writer.flush()
    found = samples(ServedRuns(tmp_path, run.clock))

    assert set(found) == {
        "tfwatch_up",
        "tfwatch_run_info",
        "tfwatch_run_state",
        "tfwatch_steps_total",
    }


def test_the_gpu_is_that_of_the_newest_sample(tmp_path: Path) -> None:
    run = running(tmp_path)
    run.sample(gpu_busy=0.4, gpu_power_w=310.0, gpu_memory_bytes=2.0**30)
    run.writer.flush()
    runs = ServedRuns(tmp_path, run.clock)
    found = samples(runs)

    assert found["tfwatch_gpu_busy_ratio"][0][1] == pytest.approx(0.4)
    assert found["tfwatch_gpu_memory_bytes"][0][1] == 2.0**30
    assert found["tfwatch_gpu_power_watts"][0][1] == 310.0


def test_a_run_that_ends_says_so_and_then_disappears(tmp_path: Path) -> None:
    run = running(tmp_path)
    run.writer.flush()
    runs = ServedRuns(tmp_path, run.clock)
    assert state(samples(runs)) == ["running"]

    run.ended().writer.flush()
    found = samples(runs)
    assert state(found) == ["finished"]
    assert not {"tfwatch_data_wait_ratio", "tfwatch_loss", "tfwatch_process_memory_bytes"} & set(
        found
    )
    assert "tfwatch_steps_total" in found
    run.at_s += LINGER_S + 1
    assert samples(runs) == {"tfwatch_up": [({}, 1.0)]}
    assert samples(ServedRuns(tmp_path, run.clock)) == {"tfwatch_up": [({}, 1.0)]}


def test_a_killed_run_says_so(tmp_path: Path) -> None:
    run = running(tmp_path, process_started_s=1.0)
    run.writer.flush()
    found = samples(ServedRuns(tmp_path, run.clock))

    assert state(found) == ["killed"]
    assert "tfwatch_data_wait_ratio" not in found


def test_a_loss_of_nan_is_no_figure(tmp_path: Path) -> None:
    run = running(tmp_path)
    run.event(facts.LossDiverged, step=140, finite_step=139, loss="NaN").steps(25, STARVING)
    found = samples(ServedRuns(tmp_path, run.clock))

    assert "tfwatch_steps_total" in found
    assert "tfwatch_loss" not in found


def test_names_from_outside_stay_labels(tmp_path: Path) -> None:
    hostile = 'a"} 1\nevil{x="\\\x1b[2J\udcff'
    run = running(tmp_path, workload=hostile, device="d" * 1000)
    run.writer.flush()
    found = samples(ServedRuns(tmp_path, run.clock))

    ((about, _),) = found["tfwatch_run_info"]
    assert about["trains"].startswith('a"} 1 evil{x="\\ [2J')
    assert "evil" not in found


def test_folders_that_are_no_runs_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "2026_x").mkdir()
    (tmp_path / "2026_x" / "run.json").write_text("{")
    run = running(tmp_path)
    run.writer.flush()

    assert list(ServedRuns(tmp_path, run.clock).look()) == [NAME]
    assert samples(ServedRuns(tmp_path / "none", run.clock)) == {"tfwatch_up": [({}, 1.0)]}


def test_an_exporter_that_cannot_read_its_folder_is_not_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise OSError("it is gone")

    runs = ServedRuns(tmp_path)
    monkeypatch.setattr(runs, "look", refuse)
    up, *others = RunMetrics(runs).collect()
    assert (up.name, up.samples[0].value) == ("tfwatch_up", 0.0)
    assert not any(one.samples for one in others)


def test_names_that_are_no_labels_stay_distinct(tmp_path: Path) -> None:
    names = ["n" * 210 + "a", "n" * 210 + "b", "x\x01", "x\x02", r"'x\x01'", NAME]
    runs = [running(tmp_path, name) for name in names]
    for run in runs:
        run.writer.flush()
    found = samples(ServedRuns(tmp_path, runs[0].clock))

    labels = [labels["run"] for labels, _ in found["tfwatch_steps_total"]]
    assert len(set(labels)) == len(names)
    assert NAME in labels
