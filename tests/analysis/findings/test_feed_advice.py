"""The workers of the tf.data service as advice."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from tests.analysis.findings.test_one_advice import CACHE
from tests.analysis.situations import RUNNING, judged
from tfwatch.analysis.findings.banner import banner
from tfwatch.analysis.findings.bottleneck import Stage, StageTable
from tfwatch.analysis.findings.feed_advice import FeedForecast, forecast_feed, forecast_workers
from tfwatch.analysis.findings.feed_lanes import Feed, FeedLane
from tfwatch.analysis.findings.situation import BatchSource, Situation, SourceKind
from tfwatch.analysis.steps.verdict import Verdict

EMPTY = Stage("prefetch", "Prefetch", math.nan, buffered=0.0, buffer_size=4.0, filled=0.0)
BATCH = Stage("batch(8)", "BatchV2", 0.6)
FILES = Stage("interleave(read)", "Interleave", 40.0)
MAP = Stage("map(decode)", "ParallelMapV2", 3.0, parallelism=2.0)
BUSY = Stage("map(decode)", "ParallelMapV2", 640.0, parallelism=16.0)
SERIAL = Stage("map(decode)", "Map", 40.0)


def situation(
    *stages: Stage, wait_cores: float = 1.0, free: float = 14.0, **changes: Any
) -> Situation:
    table = StageTable(0, stages, wait_cores=wait_cores).with_bottleneck(16, 0.0, 26.6, 13.8)
    values: dict[str, Any] = {
        "judgement": judged(Verdict.HIGHLY, 26.6),
        "origin": BatchSource(SourceKind.TF_DATA),
        "stages": table,
        "batch_size": 8,
        "cores_free": free,
        "knobs": {"prefetch": "default", "workers": "default"},
    }
    return replace(RUNNING, **{**values, **changes})


def forecast(now: Situation) -> FeedForecast:
    found = forecast_feed(now)
    assert found
    return found


def test_a_stage_that_cannot_run_in_parallel_here_asks_for_workers_on_the_free_cores() -> None:
    now = situation(FILES, MAP, BATCH, EMPTY)
    advice = "--feed-workers 4: 4 (3 to 5) workers of the tf.data service prepare batches in time"
    assert forecast(now).words == "4 (3 to 5) workers of the tf.data service"
    assert banner(now).advice.startswith(f"{advice}; elements then come in another order; ")


def test_without_free_cores_the_workers_are_on_other_machines() -> None:
    now = situation(BUSY, BATCH, EMPTY, wait_cores=16.0, free=0.2)
    assert forecast(now).place == "other machines"
    begin = "4 (3 to 5) workers of the tf.data service on other machines (tfwatch feed): this one has no cores for them"
    assert f"; or {begin}; " in banner(now).advice


@pytest.mark.parametrize(
    ("now", "first"),
    [
        pytest.param(
            situation(SERIAL, BATCH, EMPTY), "parallel calls of map(decode)", id="serial map"
        ),
        pytest.param(situation(SERIAL, BATCH), ".prefetch(tf.data.AUTOTUNE)", id="no prefetch"),
        pytest.param(
            situation(SERIAL, BATCH, EMPTY, wait_cores=0.1),
            "more calls at the same time",
            id="storage",
        ),
        pytest.param(
            situation(FILES, MAP, BATCH, EMPTY, forecasts={("cache", "on"): CACHE}),
            ".cache()",
            id="cache",
        ),
    ],
)
def test_what_keeps_the_order_comes_before_workers(now: Situation, first: str) -> None:
    found = forecast(now)
    assert found.count
    assert found.first.startswith(first)
    assert f"; before that {first}" in found.words
    assert "tf.data service" not in banner(now).advice


@pytest.mark.parametrize(
    ("now", "why"),
    [
        pytest.param(
            situation(FILES, MAP, Stage("take(9)", "FiniteTake", 0.1), BATCH, EMPTY),
            "take(9) cannot move",
            id="take",
        ),
        pytest.param(
            situation(Stage("map(f)", "Map python", 40.0), BATCH, EMPTY),
            "map(f) calls Python",
            id="Python",
        ),
        pytest.param(
            situation(BATCH, SERIAL, EMPTY), "no batch is its last stage", id="no last batch"
        ),
        pytest.param(situation(FILES, BATCH, EMPTY), "no map is below", id="no map"),
        pytest.param(situation(MAP, BATCH, EMPTY, stages=None), "not known", id="no stages"),
        pytest.param(
            situation(FILES, MAP, BATCH, EMPTY, has_own_loop=True), "feeds fit", id="loop"
        ),
        pytest.param(
            situation(FILES, MAP, BATCH, EMPTY, replicas=2), "below a strategy", id="strategy"
        ),
        pytest.param(
            situation(FILES, MAP, BATCH, EMPTY, origin=BatchSource(SourceKind.GENERATOR)),
            "generator",
            id="generator",
        ),
        pytest.param(
            situation(FILES, MAP, BATCH, EMPTY, batch_size=4096),
            "to take 4 096",
            id="many elements",
        ),
        pytest.param(
            situation(SERIAL, BATCH, judgement=judged(Verdict.MODERATELY, 9.6)),
            "a batch takes 9.6 ms, less than compute and host: prefetch makes it while a step runs",
            id="in time",
        ),
    ],
)
def test_a_pipeline_that_cannot_be_fed_has_the_reason(now: Situation, why: str) -> None:
    found = forecast(now)
    assert found.count is None
    assert found.words.startswith("n/a: ")
    assert why in found.missing
    assert not found.is_advised


def test_a_run_that_does_not_starve_has_no_forecast() -> None:
    assert forecast_feed(situation(MAP, BATCH, EMPTY, judgement=judged(Verdict.NOT, 0.1))) is None


def test_lost_processes_are_counted_by_kind() -> None:
    lanes = (FeedLane("box:1", is_lost=True), FeedLane("box:2", is_lost=True))
    assert (
        Feed(lanes[:1], {}, is_dispatcher_lost=True).counted
        == "1 worker, box:1 and the dispatcher lost"
    )
    assert Feed(lanes, {}).counted == "2 workers, 2 lost"


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
