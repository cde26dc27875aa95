"""Other machines are advised where this one, with all cores busy, cannot do a step's work."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.judge.findings.test_advice import CACHE
from tests.judge.situations import RUNNING, banner, changed, judged
from tfwatch.judge.findings.bottleneck import Stage, StageTable
from tfwatch.judge.findings.input_advice import forecast_workers, service_workers
from tfwatch.judge.findings.situation import BatchSource, Situation, SourceKind
from tfwatch.judge.steps.verdict import Verdict

EMPTY = Stage("prefetch", "Prefetch", math.nan, buffered=0.0, buffer_size=4.0, filled=0.0)
BATCH = Stage("batch(8)", "BatchV2", 0.6)
MAP = Stage("map(decode)", "ParallelMapV2", 640.0, parallelism=16.0)
SERIAL = Stage("map(decode)", "Map", 40.0)


def situation(
    *stages: Stage, wait_cores: float = 16.0, free: float = 0.2, **changes: Any
) -> Situation:
    """A step of 40.4 ms that waits 26.6 ms for 16 busy cores, with the changes."""
    table = StageTable(0, stages, wait_cores=wait_cores).with_bottleneck(16, 0.0, 26.6, 13.8)
    values: dict[str, Any] = {
        "judgement": judged(Verdict.HIGHLY, 26.6),
        "origin": BatchSource(SourceKind.TF_DATA),
        "stages": table,
        "batch_size": 8,
        "cores_free": free,
        "knobs": {"prefetch": "default", "workers": "default"},
    }
    return changed(RUNNING, **{**values, **changes})


def test_a_batch_that_all_cores_cannot_prepare_asks_for_other_machines_with_the_lines() -> None:
    now = situation(MAP, BATCH, EMPTY)
    advice = "4 (3 to 5) workers of a tf.data service on other machines; elements then come"
    assert f"; or {advice} in another order" in banner(now).advice
    assert "WorkerServer(" in banner(now).edit
    assert "tfwatch run --feed HOST:5050" in banner(now).edit


@pytest.mark.parametrize(
    "now",
    [
        pytest.param(situation(MAP, BATCH, EMPTY, free=40.0), id="cores are free"),
        pytest.param(situation(MAP, BATCH, EMPTY, free=math.nan), id="free cores are unknown"),
        pytest.param(situation(SERIAL, BATCH, EMPTY, wait_cores=1.0, free=15.0), id="serial map"),
        pytest.param(
            situation(MAP, BATCH, EMPTY, wait_cores=2.0, batch_size=2048), id="two casts a row"
        ),
        pytest.param(situation(MAP, BATCH), id="no prefetch"),
        pytest.param(situation(MAP, BATCH, EMPTY, wait_cores=0.1), id="storage"),
        pytest.param(
            situation(MAP, BATCH, EMPTY, forecasts={("cache", "on"): CACHE}), id="a cache helps"
        ),
    ],
)
def test_what_this_machine_can_do_comes_before_other_machines(now: Situation) -> None:
    assert service_workers(now) is None
    assert "tf.data service" not in banner(now).advice


@pytest.mark.parametrize(
    "now",
    [
        pytest.param(
            situation(MAP, Stage("take(9)", "FiniteTake", 0.1), BATCH, EMPTY), id="a take"
        ),
        pytest.param(situation(changed(MAP, kind="Map python"), BATCH, EMPTY), id="Python"),
        pytest.param(situation(BATCH, MAP, EMPTY), id="no last batch"),
        pytest.param(situation(changed(MAP, kind="ParallelInterleave"), BATCH, EMPTY), id="no map"),
        pytest.param(
            situation(Stage("data_service", "DataService", 21.0), MAP, BATCH, EMPTY), id="fed"
        ),
        pytest.param(situation(MAP, BATCH, EMPTY, stages=None), id="no stages"),
        pytest.param(situation(MAP, BATCH, EMPTY, loop="train.py:22"), id="a loop"),
        pytest.param(situation(MAP, BATCH, EMPTY, replicas=["GPU:0", "GPU:1"]), id="a strategy"),
        pytest.param(
            situation(MAP, BATCH, EMPTY, origin=BatchSource(SourceKind.GENERATOR)), id="a generator"
        ),
        pytest.param(
            situation(MAP, BATCH, EMPTY, judgement=judged(Verdict.NOT, 0.1)), id="not starving"
        ),
    ],
)
def test_a_pipeline_that_cannot_move_or_need_not_asks_for_no_other_machine(now: Situation) -> None:
    assert service_workers(now) is None


@pytest.mark.parametrize(
    ("supply_ms", "batch_size", "words"),
    [
        pytest.param(45.0, 8, "3 (3 to 4) workers", id="decoding"),
        pytest.param(9.4, 1, "2 (1 to 2) workers", id="nearly fed"),
        pytest.param(25.0, 64, "3 (2 to 5) workers", id="many elements"),
    ],
)
def test_it_is_the_work_and_the_sending_over_the_rest_of_a_step(
    supply_ms: float, batch_size: int, words: str
) -> None:
    forecast = forecast_workers(supply_ms, 20.0 if supply_ms > 10 else 9.0, batch_size)
    assert forecast
    assert forecast.words == words


def test_a_step_that_does_not_starve_has_none() -> None:
    assert forecast_workers(5.0, 10.0, 8) is None
    assert forecast_workers(float("nan"), 10.0, 8) is None
