"""A replay of an epoch: a thread reads again what the training has had, and hands over at the same
element."""

import threading
from typing import Any

import pytest
import tensorflow as tf

from tests.runs.processes import wait_until
from tfwatch.tfdata.pipeline_tree import CannotRebuildError
from tfwatch.tfdata.replay import Replay, is_far, noted_seeds, read_seeds
from tfwatch.watch.fit.switching.script_pipeline import ScriptPipeline

pytestmark = pytest.mark.tensorflow


def data(count: int = 200) -> Any:
    ragged = tf.data.Dataset.range(count).map(
        lambda n: (n, tf.RaggedTensor.from_row_lengths([n], [1]), str(n))
    )
    return ragged.shuffle(20, seed=1, reshuffle_each_iteration=False)


def numbers(elements: Any) -> list[int]:
    return [int(number) for number, *_ in elements]


def test_it_hands_over_at_the_place_of_a_training_that_goes_on() -> None:
    first = iter(data())
    got = numbers(next(first) for _ in range(60))
    replay = Replay(iter(data()), len(got))
    for _ in range(50):
        got += numbers([next(first)])
        replay.follow(len(got))
    wait_until(lambda: replay.follow(len(got)))
    got += numbers(next(first) for _ in range(10))
    replay.follow(len(got))

    assert got + numbers(replay.finish()) == numbers(data())


@pytest.mark.parametrize("why", ["fewer elements when it was read again", "division by zero"])
def test_a_source_that_differs_is_refused(why: str) -> None:
    source = data(30) if why.startswith("fewer") else data().map(lambda n, *_: n // (n - n))
    replay = Replay(iter(source), 60)
    wait_until(lambda: replay.follow(60))
    with pytest.raises(CannotRebuildError, match=why):
        replay.finish()


def test_it_is_left_at_any_moment_and_its_thread_ends() -> None:
    replay = Replay(iter(data().repeat()), 10**9)
    replay.leave()

    wait_until(lambda: not any(thread.name == "tfwatch-replay" for thread in threading.enumerate()))


@pytest.mark.parametrize(
    ("batches", "buffer", "far"),
    [(1_000, 100, False), (2_000, 100, True), (3, 30_000, True), (3, -1, True)],
)
def test_far_is_what_takes_long_to_read_again(batches: int, buffer: int, far: bool) -> None:
    rows = tf.data.Dataset.range(50_000)
    shuffled = rows.shuffle(buffer if buffer > 0 else rows.cardinality(), seed=1)
    assert is_far(shuffled.batch(16).prefetch(2), batches) is far


def test_the_order_of_a_large_shuffle_is_noted_before_its_buffer_fills() -> None:
    iterators = [
        iter(tf.data.Dataset.range(9_000).shuffle(size, seed=1).batch(2)) for size in (6_000, 50)
    ]
    for iterator in iterators:
        ScriptPipeline.note_order(iterator)
        next(iterator)
    large, small = iterators

    assert noted_seeds(large, 1) == read_seeds(large, 1, has_begun=True)
    assert not noted_seeds(small, 1)
