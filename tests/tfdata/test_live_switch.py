"""Every batch comes exactly once and in order, whatever is switched and when."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.tfdata.batches import next_batch
from tfwatch.core.knobs import Knobs
from tfwatch.tfdata import live_switch, work_ahead
from tfwatch.tfdata.live_switch import SwitchablePipeline
from tfwatch.tfdata.stage_names import kind_of, nodes_of
from tfwatch.tfdata.work_ahead import (
    count_of,
    ends_in_pinned_memory,
    in_pinned_memory,
    options,
    prefetch_only,
)

pytestmark = [pytest.mark.tensorflow, pytest.mark.usefixtures("in_parallel")]

SETTINGS: list[str] = ["off", "default", "auto", "1", "3", "16"]


def build(batches: Any, knobs: Knobs) -> Any:
    mapped = batches.map(lambda x: x * 2, num_parallel_calls=count_of(knobs.workers))
    size = count_of(knobs.prefetch)
    return (mapped if size is None else mapped.prefetch(size)).with_options(options(knobs))


@pytest.fixture
def start() -> Iterator[Callable[..., Any]]:
    """Return a function that starts a pipeline over so many numbers, or another one over those.

    All are closed: deleting an iterator takes up to a minute, and the end of a test would wait.
    """
    pipelines: list[Any] = []

    def started(knobs: Knobs, count: int = 100, make: Any = build, *state: Any) -> Any:
        pipelines.append(SwitchablePipeline(make, *state))
        pipelines[-1].start(iter(tf.data.Dataset.range(count)), knobs)
        return pipelines[-1]

    yield started
    for pipeline in pipelines:
        pipeline.close()


def switched_to(pipeline: Any, knobs: Knobs) -> list[int]:
    """Switch, and return the batches until the switch takes effect."""
    got: list[int] = []
    pipeline.switch(knobs)
    while pipeline.is_switching:
        got.append(int(next_batch(pipeline)[0]))
    return got


def read(pipeline: Any, switch_at: dict[int, Knobs]) -> list[int]:
    got: list[int] = []
    while True:
        if (knobs := switch_at.get(len(got))) and not pipeline.is_switching:
            pipeline.switch(knobs)
        try:
            got.append(int(next_batch(pipeline)[0]))
        except StopIteration:
            return got


@pytest.mark.parametrize("seed", range(2))
def test_random_switches_lose_nothing_and_repeat_nothing(
    seed: int, start: Callable[..., Any]
) -> None:
    rng = random.Random(seed)
    knobs = [Knobs(rng.choice(SETTINGS), rng.choice(SETTINGS)) for _ in range(12)]
    pipeline = start(knobs[0])
    assert read(pipeline, {rng.randrange(101): k for k in knobs[1:]}) == list(range(0, 200, 2))


@pytest.mark.parametrize(
    "at", [0, 99, 100], ids=["before the first", "before the last", "after the last"]
)
def test_a_switch_at_the_edge_of_an_epoch(at: int, start: Callable[..., Any]) -> None:
    pipeline = start(Knobs("4"))
    assert read(pipeline, {at: Knobs("off")}) == list(range(0, 200, 2))
    pipeline.start(iter(tf.data.Dataset.range(5)), Knobs("off"))
    assert read(pipeline, {}) == [0, 2, 4, 6, 8]


_to_device: Any = tf.data.experimental.prefetch_to_device("/CPU:0", 2)


def _double(number: Any) -> Any:
    return 2 * number


@pytest.mark.parametrize(
    ("make", "is_pinned"),
    [
        pytest.param(lambda data: data.map(_double).batch(4), True, id="fused"),
        pytest.param(lambda data: data.map(_double, 2).batch(4).prefetch(2), True, id="parallel"),
        pytest.param(lambda data: data.map(_double).batch(4).shuffle(2), True, id="shuffled"),
        pytest.param(lambda data: data.batch(4), False, id="no map"),
        pytest.param(lambda data: data.map(_double).repeat().batch(4), False, id="stage between"),
        pytest.param(
            lambda data: data.map(_double).batch(4).with_options(options(Knobs())), False, id="off"
        ),
        pytest.param(lambda data: data.map(_double).batch(4).map(_double), False, id="map behind"),
        pytest.param(
            lambda data: in_pinned_memory(data.batch(4), Knobs(pinned="on")), True, id="the line"
        ),
        pytest.param(
            lambda data: data.map(_double).batch(4).apply(_to_device), True, id="copied ahead"
        ),
    ],
)
def test_a_pipeline_shows_whether_its_batches_are_in_pinned_memory(
    make: Any, is_pinned: bool
) -> None:
    assert ends_in_pinned_memory(make(tf.data.Dataset.range(8))) is is_pinned


@pytest.mark.parametrize("prefetch", ["off", "default", "2"])
def test_batches_in_pinned_memory_are_the_same_and_come_in_order(
    prefetch: str, start: Callable[..., Any]
) -> None:
    rows = {"x": np.arange(46, dtype=np.float32).reshape(23, 2), "name": [b"a"] * 23}
    data = tf.data.Dataset.from_tensor_slices((rows, np.arange(23) % 2 == 0)).batch(4)
    pipeline, pinned = start(Knobs(prefetch), 1, prefetch_only), Knobs(prefetch, pinned="on")
    pipeline.start(iter(data), Knobs(prefetch))
    got = []
    for at in range(6):
        if at in (2, 4):
            pipeline.switch(pinned if at == 2 else Knobs(prefetch))
        batch = next_batch(pipeline)
        got.append(tf.nest.map_structure(np.asarray, pipeline.batches.shape.pack(batch)))

    with pytest.raises(StopIteration):
        next_batch(pipeline)
    assert str(got) == str(list(data.as_numpy_iterator()))
    stages = nodes_of(in_pinned_memory(data, pinned))
    assert [kind_of(stage) for stage in stages][:2] == ["Map", "MapAndBatch"]


def test_a_pipeline_that_cannot_be_built_changes_nothing(start: Callable[..., Any]) -> None:
    def picky(batches: Any, knobs: Knobs) -> Any:
        if knobs.prefetch == "16":
            raise ValueError("no")
        return batches

    pipeline = start(Knobs(), 4, picky)
    assert int(next_batch(pipeline)[0]) == 0
    with pytest.raises(ValueError, match="no"):
        pipeline.switch(Knobs("16"))
    assert [int(next_batch(pipeline)[0]) for _ in range(3)] == [1, 2, 3]


def read_and_switch(pipeline: Any, rng: random.Random) -> tuple[list[int], int]:
    got, switches = list[int](), 0
    while True:
        if not pipeline.is_switching and rng.random() < 0.1:
            pipeline.switch(rng.choice(RESTARTS))
            switches += 1
        try:
            got.append(int(next_batch(pipeline)[0]))
        except StopIteration:
            return got, switches


RESTARTS = [Knobs(), Knobs("4"), Knobs("off", "64"), Knobs("auto", "2"), Knobs("4", "64")]


@pytest.mark.parametrize("seed", range(2))
def test_a_setting_that_returns_restarts_its_pipeline_and_no_batch_is_lost(
    seed: int, made: list[int], start: Callable[..., Any]
) -> None:
    rng, pipeline = random.Random(seed), start(RESTARTS[0], 1000)
    for epoch in (1, 2):
        got, switches = read_and_switch(pipeline, rng)
        assert got == list(range(0, 2000, 2))
        assert switches > 20
        with pytest.raises(StopIteration):
            next_batch(pipeline)
        # After the end of a restarted pipeline another one is built, which confirms the end.
        assert len(made) <= epoch * (len(RESTARTS) + 1)
        pipeline.start(iter(tf.data.Dataset.range(1000)), RESTARTS[0])


@pytest.mark.parametrize("knobs", RESTARTS, ids=str)
def test_an_ended_pipeline_takes_no_element_until_it_restarts(
    knobs: Knobs, start: Callable[..., Any]
) -> None:
    """A parallel map asks for as many elements as it has workers although its input has ended."""
    pipeline = start(knobs)
    got = [int(next_batch(pipeline)[0])]
    ended: Any = pipeline.iterator
    got += switched_to(pipeline, Knobs("3"))
    got += [int(next_batch(pipeline)[0]) for _ in range(20)]
    got += switched_to(pipeline, knobs)
    assert pipeline.iterator is ended
    assert got + read(pipeline, {}) == list(range(0, 200, 2))


@pytest.mark.parametrize(
    "knobs", [Knobs("default"), Knobs("4", "auto"), Knobs("4", "default")], ids=str
)
def test_a_pipeline_that_cannot_restart_is_built_again(
    knobs: Knobs, made: list[int], start: Callable[..., Any]
) -> None:
    pipeline = start(Knobs())
    assert read(pipeline, {10: knobs, 30: Knobs(), 50: knobs, 70: Knobs()}) == list(
        range(0, 200, 2)
    )
    assert len(made) == 4  # one of them for the end


def test_a_restarted_pipeline_that_ends_at_once_does_not_cut_the_data_off(
    monkeypatch: pytest.MonkeyPatch, start: Callable[..., Any]
) -> None:
    """As with a prefetch that TensorFlow adds at its end."""
    monkeypatch.setattr(live_switch, "_can_restart", lambda *_: True)
    pipeline = start(Knobs("default"))
    switches = {n: Knobs("default" if n % 20 else "off") for n in range(10, 90, 10)}
    assert read(pipeline, switches) == list(range(0, 200, 2))


def test_a_pipeline_with_a_warm_start_takes_nothing_before_its_switch(
    start: Callable[..., Any],
) -> None:
    """Otherwise it takes elements of the running pipeline, or finds the gate closed and ends at
    once."""

    def warm(batches: Any, knobs: Knobs) -> Any:
        asked = tf.data.Options()
        asked.experimental_warm_start = True
        return build(batches.with_options(asked), knobs)

    pipeline = start(Knobs("4"), 40, warm)
    assert read(pipeline, {n: Knobs("4") for n in (3, 9, 20)}) == list(range(0, 80, 2))


@pytest.mark.parametrize("prefetch", SETTINGS)
def test_over_a_users_pipeline_only_the_requested_prefetch_works_ahead(prefetch: str) -> None:
    """Otherwise the batches that it holds are lost when prefetch is turned off."""
    chosen = (
        prefetch_only(tf.data.Dataset.range(4), Knobs(prefetch, "default"))
        .options()
        .experimental_optimization
    )
    assert (chosen.inject_prefetch, chosen.map_parallelization, chosen.map_and_batch_fusion) == (
        False,
        False,
        False,
    )


def test_a_setting_is_traced_once_an_epoch_and_again_for_another_state(
    start: Callable[..., Any],
) -> None:
    traced: list[Knobs] = []
    state = ["empty"]

    def counted(batches: Any, knobs: Knobs) -> Any:
        traced.append(knobs)
        return build(batches, knobs)

    pipeline, got = start(Knobs("2"), 100, counted, lambda: state[0]), list[int]()
    for knobs in (Knobs(), Knobs("2"), Knobs(), Knobs("2")):
        got += switched_to(pipeline, knobs)
    assert traced == [Knobs("2"), Knobs()]
    state[0] = "full"
    got += switched_to(pipeline, Knobs())
    assert traced == [Knobs("2"), Knobs(), Knobs()]
    assert got == list(range(0, 2 * len(got), 2))
    for n in range(9):  # the oldest is forgotten
        got += switched_to(pipeline, Knobs(str(n + 3)))
    got += switched_to(pipeline, Knobs())
    assert traced.count(Knobs()) == 3
    pipeline.start(iter(tf.data.Dataset.range(100)), Knobs())
    assert traced.count(Knobs()) == 4


@pytest.mark.parametrize(
    ("knobs", "fuses"),
    [
        (Knobs("4", "default"), True),
        (Knobs("default", "8"), True),
        (Knobs("off", "default"), False),
        (Knobs("4", "off"), False),
    ],
)
def test_a_map_and_its_batch_stay_one_stage_unless_nothing_may_work_ahead(
    knobs: Knobs, fuses: bool
) -> None:
    """The one stage writes its batches into memory that a GPU reads directly."""
    chosen = work_ahead.options(knobs).experimental_optimization
    assert chosen.map_and_batch_fusion is fuses
