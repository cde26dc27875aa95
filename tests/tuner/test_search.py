"""The autopilot's choices and judgements, over plants that are formulas."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.judge.plants import Plant, Walk, search_over
from tests.judge.step_rows import make_steps
from tfwatch.core.knobs import KnobChange
from tfwatch.core.rows import Flag, Rows
from tfwatch.judge.forecasts.forecast import Forecast
from tfwatch.tuner.search import (
    BUDGET,
    MOST,
    SLOW_BUDGET,
    AutopilotSearch,
    Move,
    SearchLimits,
    Stop,
    longer_begins_ms,
)

ROOMY = 1e12


def forecast(settings: Mapping[str, str], step_ms: float, now_ms: float) -> Forecast:
    (knob, value), *_ = settings.items()
    low_ms, high_ms = step_ms * 0.9, step_ms * 1.1
    return Forecast(knob, value, step_ms, low_ms, high_ms, "", now_ms)


def nothing(plant: Plant, knobs: Mapping[str, str], settings: Mapping[str, str]) -> None:
    """No forecast at all."""


def right(plant: Plant, knobs: Mapping[str, str], settings: Mapping[str, str]) -> Forecast:
    """The exact forecast of a switch."""
    return forecast(settings, plant.step_ms({**knobs, **settings}), plant.step_ms(knobs))


def wrong(plant: Plant, knobs: Mapping[str, str], settings: Mapping[str, str]) -> Forecast:
    """The contrary of what it would give."""
    now_ms = plant.step_ms(knobs)
    return forecast(settings, now_ms * now_ms / plant.step_ms({**knobs, **settings}), now_ms)


def only_prefetch(plant: Plant, knobs: Mapping[str, str], settings: Mapping[str, str]) -> Forecast:
    """Prefetch hides all, and nothing else helps."""
    work_ms, now_ms = plant.compute_ms + plant.host_ms, plant.step_ms(knobs)
    return forecast(settings, work_ms if "prefetch" in settings else now_ms, now_ms)


Forecaster = Any


def walk_over(
    plant: Plant,
    start: Mapping[str, str],
    make_forecast: Forecaster,
    memory_bytes: float = ROOMY,
    seed: int = 0,
) -> Walk:
    rng = np.random.default_rng(seed)
    return search_over(
        plant,
        start,
        memory_bytes,
        lambda knobs, settings: make_forecast(plant, knobs, settings),
        lambda knobs, count: plant.rows(knobs, count, rng),
    )


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


#: Steps in settings slower than the first: what a move that looks equal takes is not counted.
MOST_SLOW = SLOW_BUDGET + MOST
#: A smaller gain may stay unproved.
UNPROVED = 1.07


@pytest.mark.parametrize(
    ("make_forecast", "most"), [(right, UNPROVED), (nothing, UNPROVED), (only_prefetch, 1.1)]
)
@pytest.mark.parametrize("plant", KINDS)
def test_from_the_worst_setting_it_ends_near_the_best_of_the_full_grid(
    plant: Plant, make_forecast: Forecaster, most: float
) -> None:
    walk = walk_over(plant, plant.worst, make_forecast)
    assert plant.step_ms(walk.knobs) <= most * plant.best_ms(ROOMY)
    assert walk.steps <= BUDGET


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


@settings(max_examples=150, derandomize=True)
@given(
    PLANTS, STARTS, st.floats(0, 1e9), st.integers(0, 99), st.sampled_from([right, nothing, wrong])
)
def test_whatever_the_plant_it_ends_keeps_its_limits_and_makes_nothing_worse(
    plant: Plant,
    start: dict[str, str],
    memory_bytes: float,
    seed: int,
    make_forecast: Forecaster,
) -> None:
    walk = walk_over(plant, start, make_forecast, memory_bytes, seed)
    assert walk.steps <= BUDGET
    assert walk.most_bytes <= memory_bytes
    assert walk.slow_steps <= MOST_SLOW
    assert plant.step_ms(walk.knobs) <= plant.step_ms(start)


# -- one choice, and one judgement -----------------------------------------------------------------

KNOBS = {"prefetch": "4", "workers": "4"}
OFF = {"prefetch": "off", "workers": "off"}


def search(
    knobs: dict[str, str], wait_ms: float = 10.0, compute_ms: float = 9.0, **known: Any
) -> AutopilotSearch:
    """After 60 steps of these settings, with 1 ms of host."""
    wiggle = np.where(np.arange(60) % 4 < 2, 0.99, 1.01)
    rows = make_steps(wait_ms * wiggle, compute_ms, copy=known.pop("copy_ms", np.nan))
    limits = {"memory_bytes": ROOMY, "batch_bytes": 1e6, "cores": 8, "accelerated": True}
    return AutopilotSearch(
        knobs, rows, SearchLimits(**{"switchable": frozenset(knobs), **limits, **known})
    )


def settings_of(found: Move | Stop) -> dict[str, str]:
    return found.settings if isinstance(found, Move) else {}


def all_moves(at: AutopilotSearch, make_forecast: Any = lambda _: None) -> list[dict[str, str]]:
    """Every move that it makes where each is refused."""
    found: list[dict[str, str]] = []
    while isinstance(move := at.next(make_forecast, BUDGET), Move):
        at.exclude(move)
        found.append(move.settings)
    return found


def by_knob(**step_ms: float) -> Callable[[Mapping[str, str]], Forecast | None]:
    """Forecasts of the switches of some knobs, from steps of 20 ms."""

    def make_forecast(settings: Mapping[str, str]) -> Forecast | None:
        (knob,) = settings
        return forecast(settings, step_ms[knob], 20.0) if knob in step_ms else None

    return make_forecast


@pytest.mark.parametrize(
    ("step_ms", "moves"),
    [
        pytest.param({"workers": 12, "prefetch": 11}, ["prefetch", "workers"], id="largest gain"),
        pytest.param({"workers": 11, "prefetch": 12}, ["workers", "prefetch"], id="of either knob"),
        pytest.param({"workers": 20}, ["prefetch", "workers"], id="no forecast before no gain"),
        pytest.param({"workers": 33, "prefetch": 21}, [], id="none that is slower"),
    ],
)
def test_moves_go_by_their_forecasts(step_ms: dict[str, float], moves: list[str]) -> None:
    found = all_moves(search(KNOBS), by_knob(**step_ms))
    assert [knob for settings in found for knob in settings] == moves


@pytest.mark.parametrize(
    ("at", "found"),
    [
        pytest.param(
            search(OFF, 30),
            [{"prefetch": "4", "workers": "4"}, {"workers": "4"}, {"prefetch": "4"}],
            id="as few workers as hide the data",
        ),
        pytest.param(
            search({**OFF, "device_prefetch": "off"}, 30),
            [{"prefetch": "4", "workers": "8"}, {"workers": "8"}, {"prefetch": "4"}],
            id="twice as many where batches may be copied ahead",
        ),
        pytest.param(
            search(OFF, 190, cores=2),
            [{"prefetch": "4", "workers": "8"}, {"workers": "8"}, {"prefetch": "4"}],
            id="at first not more than eight",
        ),
        pytest.param(
            search(OFF, 4, 1),
            [{"prefetch": "16", "workers": "4"}, {"workers": "4"}, {"prefetch": "16"}],
            id="short steps begin with a deep buffer",
        ),
        pytest.param(
            search(OFF, 8, memory_bytes=2e6),
            [{"workers": "2"}, {"prefetch": "2"}],
            id="half a buffer that memory bears",
        ),
        pytest.param(
            search(KNOBS, batch_bytes=None), [], id="no larger buffers of batches of unknown size"
        ),
        pytest.param(search(KNOBS, 90), [{"workers": "16"}, {"prefetch": "16"}], id="far from fed"),
        pytest.param(search({"prefetch": "16", "workers": "64"}), [], id="the largest of all"),
        pytest.param(
            search(KNOBS, switchable=frozenset({"prefetch"})),
            [{"prefetch": "16"}],
            id="of prefetch only",
        ),
        pytest.param(
            search(KNOBS, accelerated=False),
            [
                {"workers": "8"},
                {"prefetch": "16"},
                {"workers": "32"},
                {"workers": "32", "prefetch": "off"},
            ],
            id="many workers for the cores of a CPU that trains",
        ),
    ],
)
def test_moves_are_what_may_shorten_the_data_wait(
    at: AutopilotSearch, found: list[dict[str, str]]
) -> None:
    assert all_moves(at) == found


@pytest.mark.parametrize(
    ("knobs", "copy_ms", "found"),
    [
        pytest.param({"device_prefetch": "off"}, 8.0, {"device_prefetch": "2"}, id="the limit"),
        pytest.param({"device_prefetch": "off"}, 0.5, {}, id="not the limit"),
        pytest.param({}, 8.0, {}, id="no memory to copy to"),
    ],
)
def test_batches_are_copied_ahead_where_the_copy_is_the_limit(
    knobs: dict[str, str], copy_ms: float, found: dict[str, str]
) -> None:
    at = search({**KNOBS, **knobs}, 0.1, 20.0, copy_ms=copy_ms)
    assert settings_of(at.next(lambda _: None, BUDGET)) == found


@pytest.mark.parametrize(
    ("copy_ms", "known", "found"),
    [
        pytest.param(np.nan, {"copy_in_call_ms": 2.0}, [{"device_prefetch": "2"}], id="within it"),
        pytest.param(np.nan, {"copy_in_call_ms": 0.5}, [], id="a small one"),
        pytest.param(np.nan, {}, [], id="not timed"),
        pytest.param(2.0, {"pinned": "on"}, [{"device_prefetch": "2"}], id="by the knob"),
        pytest.param(2.0, {}, [], id="in ordinary memory"),
    ],
)
def test_copies_from_pinned_memory_are_made_ahead_also_where_they_are_short(
    copy_ms: float, known: dict[str, Any], found: list[dict[str, str]]
) -> None:
    copies = {"pinned": known.pop("pinned", "off"), "device_prefetch": "off"}
    assert all_moves(search({**KNOBS, **copies}, 0.1, 20.0, copy_ms=copy_ms, **known)) == found


def test_it_says_that_no_other_way_to_copy_is_left() -> None:
    at = search({**KNOBS, "device_prefetch": "off"}, 0.1, 20.0, copy_ms=8.0)
    assert len(all_moves(at)) == 1

    end = at.next(lambda _: None, BUDGET)

    why = "data wait is only <1 % of a step, and no other way to copy its batch is left to try"
    assert end == Stop("not_starving", why)


def test_a_wait_for_data_is_shortened_beside_a_copy_by_the_larger_gain() -> None:
    knobs = {"prefetch": "off", "workers": "off", "device_prefetch": "off"}
    at = search(knobs, 40.0, 20.0, copy_in_call_ms=4.0)
    known = {"device_prefetch": 19.0, "prefetch": 12.0}

    def make_forecast(settings: Mapping[str, str]) -> Forecast | None:
        return forecast(settings, min(known.get(knob, 20.0) for knob in settings), 20.0)

    moves = all_moves(at, make_forecast)

    assert "prefetch" in moves[0]
    assert {"device_prefetch": "2"} in moves


def test_where_little_is_data_wait_there_is_nothing_to_gain() -> None:
    found = search(KNOBS, 0.5, 18.5).next(lambda _: None, BUDGET)
    assert found == Stop("not_starving", "data wait is only 2 % of a step")


MOVE = Move((KnobChange("prefetch", "4", "16"),))


def steps(step_ms: float, spread: float, count: int = 60) -> Rows:
    return make_steps(step_ms * np.where(np.arange(count) % 2, 1 + spread, 1 - spread) - 10.0, 9.0)


@pytest.mark.parametrize(
    ("after_ms", "spread", "kept", "reason"),
    [
        pytest.param(12.0, 0.02, True, "", id="clear"),
        pytest.param(19.2, 0.3, False, "not proved faster", id="within noise"),
        pytest.param(19.9, 0.001, False, "no gain of 2 %", id="less than 2 %"),
        pytest.param(30.0, 0.02, False, "slower", id="slower"),
    ],
)
def test_a_move_is_kept_where_its_gain_is_proved(
    after_ms: float, spread: float, kept: bool, reason: str
) -> None:
    at = search(KNOBS)
    assert at.judge(MOVE, steps(after_ms, spread), last=True) is kept
    assert (at.reason, at.knobs["prefetch"]) == (reason, "16" if kept else "4")


def test_a_gain_that_is_proved_and_not_worth_having_is_none() -> None:
    at = search(KNOBS)
    assert at.judge(MOVE, steps(20.0 / 1.015, 0.002, 400), last=True) is False
    assert at.reason == "no gain of 2 %"


def in_epochs(begin_ms: float, epochs: int, of: int = 25) -> Rows:
    """Steps of 10 ms in epochs that begin with a longer one."""
    rows = make_steps(np.where(np.arange(epochs * of) % of, 1.0, begin_ms - 9.0), 9.0)
    rows["flags"][::of] = int(Flag.EPOCH_START)
    return rows


@pytest.mark.parametrize(
    ("before", "after", "longer_ms"),
    [
        pytest.param(in_epochs(30.0, 4), in_epochs(105.0, 3), 3.0, id="longer"),
        pytest.param(in_epochs(105.0, 4), in_epochs(30.0, 4), 0.0, id="shorter: no gain of a step"),
        pytest.param(in_epochs(30.0, 4), in_epochs(105.0, 2), None, id="too few to tell"),
        pytest.param(in_epochs(30.0, 1), in_epochs(105.0, 3), 3.0, id="one before"),
        pytest.param(in_epochs(30.0, 1)[1:], in_epochs(105.0, 3), 0.0, id="none before"),
    ],
)
def test_longer_begins_of_epochs_are_counted_by_step(
    before: Rows, after: Rows, longer_ms: float | None
) -> None:
    assert longer_begins_ms(before, after) == pytest.approx(longer_ms)


@pytest.mark.parametrize(
    ("longer_ms", "kept", "reason"),
    [
        (0.0, True, ""),
        (4.0, True, ""),
        (8.0, False, "its epochs take longer to begin"),
        (None, None, ""),
    ],
)
def test_a_gain_that_the_begin_of_epochs_takes_back_is_none(
    longer_ms: float | None, kept: bool | None, reason: str
) -> None:
    """A prefetch to the device is built again with each epoch."""
    at, faster = search(KNOBS), steps(12.0, 0.02)
    assert at.judge(MOVE, faster, last=False, longer_begins_ms=longer_ms) is kept
    assert at.reason == reason


def test_a_slower_setting_is_left_at_the_first_look_and_few_steps_are_spent_on_such() -> None:
    at = search(KNOBS)
    assert at.judge(MOVE, steps(30.0, 0.02, 19), last=False) is None
    assert at.judge(MOVE, steps(30.0, 0.02, 20), last=False) is False
    stop = at.next(lambda _: None, BUDGET)
    assert isinstance(stop, Stop)
    assert stop.cause == "budget"
    assert stop.reason == "it spent 40 steps in settings slower than the first, which is enough"
