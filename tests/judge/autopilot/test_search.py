"""The autopilot's decisions, over plants that are formulas."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.judge.plants import Plant
from tfwatch.core.knobs import KnobChange
from tfwatch.core.rows import STEP
from tfwatch.judge.autopilot.measurement import (
    Measurement,
    buffered_steps,
    measure,
    settling_steps,
)
from tfwatch.judge.autopilot.moves import (
    BUDGET,
    LEAST,
    MOST,
    Move,
    SearchLimits,
    Stop,
    judging_steps,
)
from tfwatch.judge.autopilot.search import AutopilotSearch
from tfwatch.judge.forecasts.batch_supply import needed_bytes
from tfwatch.judge.forecasts.forecast import Forecast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tfwatch.core.rows import Rows

    MakeForecast = Callable[[Plant, Mapping[str, str], Mapping[str, str]], Forecast | None]

ROOMY = 1e12
TIGHT = Measurement(60, 20.0, 0.1, 10.0)


@dataclass(frozen=True)
class Walked:
    """The result of a search over a plant."""

    stop: Stop
    knobs: dict[str, str]
    moves: list[Move]
    most_bytes: float
    steps: int


def nothing(plant: Plant, knobs: Mapping[str, str], turned: Mapping[str, str]) -> None:
    """No forecast at all."""


def right(plant: Plant, knobs: Mapping[str, str], turned: Mapping[str, str]) -> Forecast:
    """The exact forecast of a switch."""
    return forecast(turned, plant.step_ms({**knobs, **turned}))


def wrong(plant: Plant, knobs: Mapping[str, str], turned: Mapping[str, str]) -> Forecast:
    """The contrary of what it would give."""
    now = plant.step_ms(knobs)
    return forecast(turned, now * now / plant.step_ms({**knobs, **turned}))


def only_prefetch(plant: Plant, knobs: Mapping[str, str], turned: Mapping[str, str]) -> Forecast:
    """Prefetch hides all, and nothing else helps."""
    work_ms = plant.compute_ms + plant.host_ms
    return forecast(
        turned, work_ms if turned.get("prefetch", "off") != "off" else plant.step_ms(knobs)
    )


def forecast(
    turned: Mapping[str, str], step_ms: float, needs_bytes: float | None = None
) -> Forecast:
    (knob, value), *_ = turned.items()
    return Forecast(
        knob, value, step_ms, step_ms * 0.9, step_ms * 1.1, f"{knob} helps", needs_bytes
    )


def walk_over(
    plant: Plant,
    start: Mapping[str, str] | None = None,
    memory: float = ROOMY,
    seed: int = 0,
    make_forecast: MakeForecast = right,
    slowed: range = range(0),
) -> Walked:
    """Walk as the autopilot does, over formulas in place of a training. slowed: steps that take a
    fifth longer."""

    def rows_of(knobs: Mapping[str, str], first: int, count: int) -> Rows:
        rows = plant.rows(knobs, count, rng)
        late = np.isin(np.arange(first, first + count), slowed)
        for part in ("wait_ms", "compute_ms", "host_ms"):
            rows[part][late] *= 1.2
        return rows

    rng = np.random.default_rng(seed)
    knobs = dict(start or plant.worst)
    first = measure(rows_of(knobs, 0, MOST))
    assert first is not None
    search, steps = AutopilotSearch(knobs, first), MOST
    moves: list[Move] = []
    most = begun = needed_bytes(knobs, plant.batch_bytes)
    limits = SearchLimits(
        memory, plant.batch_bytes, plant.cores, frozenset(knobs), plant.accelerated
    )
    while True:
        move = search.next(
            partial(make_forecast, plant, search.knobs), replace(limits, steps=BUDGET - steps)
        )
        if isinstance(move, Stop):
            return Walked(move, search.knobs, moves, most - begun, steps)
        moves.append(move)
        limits_now = replace(limits, steps=BUDGET - steps)
        assert len(moves) < 100, "it does not end"
        before, turned = dict(search.knobs), move.settings_after(search.knobs)
        most = max(most, needed_bytes(turned, plant.batch_bytes))
        longest = judging_steps(search.state(lambda _: None), move, limits_now)
        assert longest >= LEAST
        steps += buffered_steps(before) + settling_steps(turned)
        rows, kept = rows_of(turned, steps, longest), None
        for count in [*range(LEAST, longest, 5), longest]:
            kept = search.judge(move, rows[:count], last=count == longest)
            if kept is not None:
                break
        steps += count + (0 if kept else buffered_steps(turned))


GPU = Plant(data_ms=21, compute_ms=8)
KINDS = [
    pytest.param(GPU, id="decode on one of eight cores, a GPU"),
    pytest.param(Plant(data_ms=5, compute_ms=12), id="prefetch hides it all"),
    pytest.param(
        Plant(data_ms=3, storage_ms=40, compute_ms=10, cores=2), id="slow storage, two cores"
    ),
    pytest.param(Plant(data_ms=300, compute_ms=6), id="more work than the cores have"),
    pytest.param(Plant(data_ms=13, compute_ms=1.5, serial=True), id="a Python generator"),
    pytest.param(
        Plant(data_ms=20, compute_ms=25, cores=2, accelerated=False),
        id="a CPU that shares its cores",
    ),
    pytest.param(Plant(data_ms=0.05, compute_ms=12), id="fed from the start"),
    pytest.param(
        Plant(data_ms=8, compute_ms=8, noise=0.08, drift=0.3), id="noise that resembles itself"
    ),
    pytest.param(
        Plant(data_ms=12, storage_ms=20, compute_ms=5.5, cores=16, crowd_ms=0.03, bursts_ms=0.6),
        id="cnn on sixteen cores: workers crowd the thread that launches",
    ),
    pytest.param(
        Plant(data_ms=14, compute_ms=5.5, cores=16, crowd_ms=0.03, bursts_ms=0.4, drift=0.3),
        id="and with a fast disk",
    ),
    pytest.param(
        Plant(data_ms=7, compute_ms=12, cores=2, accelerated=False, handing_ms=1.3, drift=0.3),
        id="cnn on two cores: workers alone are better than a prefetch",
    ),
    pytest.param(
        Plant(
            data_ms=13,
            compute_ms=0.3,
            cores=2,
            accelerated=False,
            serial=True,
            bursts_ms=0.5,
            noise=0.1,
        ),
        id="a generator's short steps: a deep buffer takes its bursts",
    ),
    pytest.param(
        Plant(
            data_ms=2.4, storage_ms=40, compute_ms=10, bursts_ms=0.8, cores=2, drift=0.4, noise=0.06
        ),
        id="storage on two cores: a buffer gains little beside noise",
    ),
]


#: A smaller gain may stay unproved: 2 %, and the interval of two visits of each setting.
UNPROVED = 1.07


@pytest.mark.parametrize(
    ("make_forecast", "most"),
    [(right, UNPROVED), (nothing, UNPROVED), (only_prefetch, 1.1)],
)
@pytest.mark.parametrize("plant", KINDS)
def test_from_the_worst_setting_it_ends_near_the_best_of_the_full_grid(
    plant: Plant, make_forecast: MakeForecast, most: float
) -> None:
    walked = walk_over(plant, make_forecast=make_forecast)
    assert plant.step_ms(walked.knobs) <= most * plant.best_ms(ROOMY)
    assert walked.steps <= BUDGET


PLANTS = st.builds(
    Plant,
    data_ms=st.floats(0.05, 200),
    compute_ms=st.floats(0.5, 100),
    storage_ms=st.sampled_from([0.0, 0.0, 5.0, 40.0]),
    host_ms=st.floats(0.05, 5),
    cores=st.sampled_from([2, 4, 8, 16]),
    accelerated=st.booleans(),
    serial=st.booleans(),
    noise=st.floats(0, 0.05),
    drift=st.sampled_from([0.0, 0.3]),
    batch_bytes=st.floats(1e3, 1e8),
)
STARTS = st.fixed_dictionaries(
    {
        "prefetch": st.sampled_from(["off", "default", "auto", "1", "4", "16"]),
        "workers": st.sampled_from(["off", "default", "auto", "2", "8"]),
    }
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    PLANTS, STARTS, st.floats(0, 1e9), st.integers(0, 99), st.sampled_from([right, nothing, wrong])
)
def test_whatever_the_plant_it_ends_keeps_its_limits_and_makes_nothing_worse(
    plant: Plant, start: dict[str, str], memory: float, seed: int, make_forecast: MakeForecast
) -> None:
    walked = walk_over(plant, start, memory, seed, make_forecast)
    assert walked.steps <= BUDGET
    assert walked.most_bytes <= memory
    assert plant.step_ms(walked.knobs) <= plant.step_ms(start)


@pytest.mark.parametrize(
    ("promised", "first"),
    [
        pytest.param({"workers": 12.0, "prefetch": 11.0}, "prefetch", id="what promises most"),
        pytest.param({"workers": 11.0, "prefetch": 12.0}, "workers", id="whichever it is"),
        pytest.param(
            {"workers": 20.0}, "prefetch", id="no forecast is better than one that promises nothing"
        ),
        pytest.param({"workers": 20.0, "prefetch": 12.0}, "prefetch", id="not one without a gain"),
    ],
)
def test_the_switch_that_promises_most_is_made_first(
    promised: dict[str, float], first: str
) -> None:
    knobs = {"prefetch": "4", "workers": "4"}

    def told(turned: Mapping[str, str]) -> Forecast | None:
        (knob,) = turned
        return forecast(turned, promised[knob]) if knob in promised else None

    move = AutopilotSearch(knobs, TIGHT).next(
        told, SearchLimits(ROOMY, 1e6, 8, frozenset(knobs), accelerated=True)
    )

    assert isinstance(move, Move)
    assert move.knob == first


CACHES = {"prefetch": "4", "workers": "8", "cache": "off"}


@pytest.mark.parametrize(
    ("epoch_steps", "memory", "says"),
    [
        pytest.param(100, 2e9, "cache", id="it fits and serves in time"),
        pytest.param(100, 1e8, "", id="it needs more memory than the limit"),
        pytest.param(1000, 2e9, "", id="the walk would be over before it serves"),
        pytest.param(None, 2e9, "", id="nobody knows how long an epoch is"),
    ],
)
def test_a_cache_is_tried_where_memory_bears_it_and_an_epoch_is_short(
    epoch_steps: int | None, memory: float, says: str
) -> None:
    limits = SearchLimits(memory, 1e6, 8, frozenset({"cache"}), True, epoch_steps=epoch_steps)
    found = AutopilotSearch(CACHES, TIGHT).next(lambda turned: forecast(turned, 11.0, 1e9), limits)
    assert (found.knob if isinstance(found, Move) else "") == says
    if isinstance(found, Stop):
        assert ("a cache (key c) would gain" in found.reason) is (memory > 1e9)


@pytest.mark.parametrize(
    ("after_ms", "noise", "kept", "reason"),
    [
        pytest.param(12.0, 0.02, True, "", id="clear"),
        pytest.param(19.2, 0.15, False, "a gain of 2 % is not proved yet", id="within noise"),
        pytest.param(19.9, 0.001, False, "a gain of 2 % is not proved", id="less than 2 %"),
        pytest.param(20.3, 0.001, False, "no gain of 2 %", id="as it was"),
        pytest.param(30.0, 0.02, False, "slower", id="slower"),
    ],
)
def test_a_move_is_kept_where_its_whole_interval_clears_two_percent(
    after_ms: float, noise: float, kept: bool, reason: str
) -> None:
    search = AutopilotSearch({"prefetch": "off"}, Measurement(40, 20.0, noise * 4, 10.0))
    move = Move((KnobChange("prefetch", "off", "4"),), forecast({"prefetch": "4"}, 8.0))
    spread = np.where(np.arange(40) % 2, 1 + noise, 1 - noise)
    rows = np.zeros(40, dtype=STEP)
    rows["compute_ms"], rows["wait_ms"] = 10.0, after_ms * spread - 10.0

    assert search.judge(move, rows, last=True) is kept
    assert search.reason == reason
    assert search.knobs == {"prefetch": "4" if kept else "off"}


def test_where_little_is_data_wait_there_is_nothing_to_gain() -> None:
    search = AutopilotSearch({"prefetch": "off"}, Measurement(40, 54.7, 0.1, 53.1))
    found = search.next(
        lambda _: None, SearchLimits(ROOMY, 1e6, 8, frozenset({"prefetch"}), accelerated=False)
    )
    assert found == Stop("not_starving", "data wait is only 3 % of a step")


def test_a_setting_that_looks_faster_and_is_not_proved_is_measured_once_more() -> None:
    knobs = {"prefetch": "off"}
    search = AutopilotSearch(knobs, Measurement(40, 20.0, 0.1, 10.0))
    limits = SearchLimits(ROOMY, 1e6, 8, frozenset(knobs), accelerated=True)
    rows = np.zeros(40, dtype=STEP)
    rows["compute_ms"], rows["wait_ms"] = 10.0, np.where(np.arange(40) % 4 < 2, 11.0, 7.0)

    moves = []
    for _ in range(3):
        found = search.next(lambda _: None, limits)
        if isinstance(found, Move):
            moves.append(found.settings_after(search.knobs))
            assert not search.judge(found, rows, last=True)
    assert moves == [{"prefetch": "4"}] * 2
    assert isinstance(found, Stop)


def test_no_move_is_made_that_is_surely_slower_by_its_forecast() -> None:
    knobs = {"prefetch": "4", "workers": "4"}
    limits = SearchLimits(ROOMY, 1e6, 8, frozenset(knobs), accelerated=True)

    found = AutopilotSearch(knobs, TIGHT).next(lambda turned: forecast(turned, 33.0), limits)

    assert isinstance(found, Stop)


def test_what_could_not_be_had_is_not_asked_for_again() -> None:
    knobs = {"prefetch": "off"}
    search = AutopilotSearch(knobs, TIGHT)
    limits = SearchLimits(ROOMY, 1e6, 8, frozenset(knobs), accelerated=True)
    first = search.next(lambda _: None, limits)
    assert isinstance(first, Move)
    search.exclude(first)
    assert isinstance(search.next(lambda _: None, limits), Stop)


@pytest.mark.parametrize(
    ("switchable", "copy_ms", "moves"),
    [
        pytest.param({"prefetch", "device_prefetch"}, 8.0, True, id="the copy is the limit"),
        pytest.param({"prefetch", "device_prefetch"}, 0.5, False, id="it is not"),
        pytest.param({"prefetch"}, 8.0, False, id="no memory to copy to"),
    ],
)
def test_batches_are_copied_ahead_where_the_copy_is_the_limit(
    switchable: set[str], copy_ms: float, moves: bool
) -> None:
    knobs = (
        {"prefetch": "4", "device_prefetch": "off"}
        if "device_prefetch" in switchable
        else {"prefetch": "4"}
    )
    search = AutopilotSearch(knobs, Measurement(60, 20.0, 0.1, 19.9, copy_ms))
    limits = SearchLimits(ROOMY, 1_000_000, 8, frozenset(switchable), accelerated=True)
    found = search.next(lambda _: None, limits)
    assert isinstance(found, Move) == moves
    if isinstance(found, Move):
        assert found.changes == (KnobChange("device_prefetch", "off", "2"),)
