"""The candidates of a search from a setting."""

from __future__ import annotations

from typing import Any

import pytest

from tfwatch.core.knobs import KnobChange
from tfwatch.judge.autopilot.measurement import Measurement
from tfwatch.judge.autopilot.moves import (
    Move,
    SearchLimits,
    SearchState,
    find_crowding_moves,
    find_data_wait_moves,
    fits,
)
from tfwatch.judge.forecasts.forecast import Forecast

OFF = {"prefetch": "off", "workers": "off"}
ON = {"prefetch": "4", "workers": "8"}


def measured(step_ms: float, work_ms: float, error_ms: float = 0.05) -> Measurement:
    return Measurement(40, step_ms, error_ms, work_ms)


def state(knobs: dict[str, str], now: Measurement, *visited: dict[str, str]) -> SearchState:
    return SearchState(knobs, knobs, now, visited)


def limits(memory_bytes: float = 1e12, **changes: Any) -> SearchLimits:
    known: dict[str, Any] = {
        "batch_bytes": 1e6,
        "cores": 8,
        "switchable": frozenset((*OFF, "cache")),
        "accelerated": True,
    }
    return SearchLimits(memory_bytes, **{**known, **changes})


def changes_of(moves: list[Move]) -> list[dict[str, str]]:
    return [{change.knob: change.new for change in move.changes} for move in moves]


@pytest.mark.parametrize(
    ("knobs", "now", "memory", "found"),
    [
        pytest.param(
            OFF,
            measured(40, 10),
            1e12,
            [{"prefetch": "4", "workers": "4"}, {"workers": "4"}, {"prefetch": "4"}],
            id="as few workers as hide the data",
        ),
        pytest.param(
            OFF,
            measured(45, 10),
            1e12,
            [{"prefetch": "4", "workers": "8"}, {"workers": "8"}, {"prefetch": "4"}],
            id="not so few that each would have to gain in full",
        ),
        pytest.param(
            OFF,
            measured(200, 10),
            1e12,
            [{"prefetch": "4", "workers": "8"}, {"workers": "8"}, {"prefetch": "4"}],
            id="at first no more workers than cores",
        ),
        pytest.param(
            OFF,
            measured(8, 2),
            1e12,
            [{"prefetch": "16", "workers": "4"}, {"workers": "4"}, {"prefetch": "16"}],
            id="short steps begin with a deep buffer",
        ),
        pytest.param(
            OFF,
            measured(18, 10),
            1e12,
            [{"workers": "2"}, {"prefetch": "4"}],
            id="less data than work",
        ),
        pytest.param(
            OFF,
            measured(18, 10),
            2e6,
            [{"workers": "2"}, {"prefetch": "2"}],
            id="half a buffer that memory bears",
        ),
        pytest.param(
            OFF,
            measured(40, 10),
            3e6,
            [{"workers": "2"}, {"prefetch": "2"}],
            id="both at once are more than it bears",
        ),
        pytest.param(
            ON, measured(20, 10), 1e12, [{"workers": "16"}, {"prefetch": "16"}], id="more of each"
        ),
        pytest.param(
            ON,
            measured(100, 10),
            1e12,
            [{"workers": "32"}, {"prefetch": "16"}],
            id="far from fed, workers too",
        ),
        pytest.param(
            {"prefetch": "16", "workers": "64"},
            measured(100, 10),
            1e12,
            [],
            id="as much as there is to turn to",
        ),
    ],
)
def test_what_feeds_a_run_that_starves(
    knobs: dict[str, str], now: Measurement, memory: float, found: list[dict[str, str]]
) -> None:
    within = limits(memory)
    at = state(knobs, now)

    assert (
        changes_of([move for move in find_data_wait_moves(at, within) if fits(at, within, move)])
        == found
    )


def test_where_it_has_been_it_is_not_new() -> None:
    now = measured(20, 10)
    (more, deeper) = find_data_wait_moves(state(ON, now), limits())

    assert find_data_wait_moves(state(ON, now, more.settings_after(ON)), limits()) == [deeper]


def test_a_knob_that_is_not_open_is_left() -> None:
    assert changes_of(
        find_data_wait_moves(
            state(ON, measured(20, 10)), limits(switchable=frozenset({"prefetch"}))
        )
    ) == [{"prefetch": "16"}]


@pytest.mark.parametrize(
    ("knobs", "known", "found"),
    [
        pytest.param(ON, {}, [], id="a GPU trains"),
        pytest.param(
            ON,
            {"accelerated": False},
            [{"workers": "32"}, {"workers": "32", "prefetch": "off"}],
            id="with the prefetch and without",
        ),
        pytest.param(OFF, {"accelerated": False}, [{"workers": "32"}], id="four a core"),
        pytest.param(
            OFF, {"accelerated": False, "cores": 96}, [{"workers": "64"}], id="of many cores"
        ),
        pytest.param(
            OFF, {"accelerated": False, "batch_bytes": None}, [], id="nobody knows a batch's size"
        ),
    ],
)
def test_many_workers_may_get_more_of_the_cores_of_a_cpu_that_trains(
    knobs: dict[str, str], known: dict[str, Any], found: list[dict[str, str]]
) -> None:
    assert changes_of(find_crowding_moves(state(knobs, measured(10, 10)), limits(**known))) == found


@pytest.mark.parametrize(
    ("change", "batch_bytes", "memory", "does"),
    [
        pytest.param(KnobChange("workers", "8", "16"), 1e6, 8e6, True, id="eight batches more"),
        pytest.param(KnobChange("workers", "8", "16"), 1e6, 7.9e6, False, id="a little too much"),
        pytest.param(
            KnobChange("workers", "8", "16"), None, 1e12, False, id="nobody knows a batch's size"
        ),
        pytest.param(KnobChange("workers", "8", "4"), None, 0.0, True, id="and fewer need none"),
        pytest.param(
            KnobChange("workers", "off", "4"), None, 0.0, True, id="the first ones are taken"
        ),
        pytest.param(
            KnobChange("cache", "off", "on"), 1e6, 1e12, False, id="a cache whose size nobody knows"
        ),
    ],
)
def test_a_move_keeps_within_the_memory_limit(
    change: KnobChange, batch_bytes: float | None, memory: float, does: bool
) -> None:
    at = state({**ON, change.knob: change.old}, measured(20, 10))

    assert fits(at, limits(memory, batch_bytes=batch_bytes), Move((change,))) is does


@pytest.mark.parametrize(("memory", "does"), [(1e9, True), (0.9e9, False)])
def test_a_cache_fits_by_what_its_forecast_says_it_needs(memory: float, does: bool) -> None:
    told = Forecast("cache", "on", 11, 10, 12, "", needs_bytes=1e9)
    move = Move((KnobChange("cache", "off", "on"),), told)

    assert fits(state(ON, measured(20, 10)), limits(memory), move) is does
