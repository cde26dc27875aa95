"""The live cache: its examples, its refusals, and the return of its memory."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import psutil
import pytest
import tensorflow as tf

from tfwatch.tfdata.cache import ExampleStore
from tfwatch.tfdata.pipeline_tree import CannotRebuildError

pytestmark = pytest.mark.tensorflow

COUNT, SHAPE = 10, (4, 3)
MEGABYTE = 2**20


def make(
    available: float = 2**30, shape: tuple[int, ...] = SHAPE, count: int = COUNT
) -> ExampleStore:
    specs = [tf.TensorSpec(shape, tf.float32), tf.TensorSpec((), tf.int32)]
    return ExampleStore(count, specs, lambda: available)


def rows(numbers: list[int]) -> tuple[Any, Any]:
    images = np.stack([np.full(SHAPE, number, np.float32) / np.float32(3) for number in numbers])
    return images, np.array(numbers, np.int32)


def keep(store: ExampleStore, numbers: list[int]) -> list[Any]:
    """Keep the examples of these numbers, and return them as they come out."""
    data = tf.data.Dataset.from_tensor_slices((np.array(numbers, np.int64), *rows(numbers)))
    return list(data.map(store.examples().keep).as_numpy_iterator())


def read(store: ExampleStore, numbers: list[int]) -> tuple[Any, Any]:
    data = tf.data.Dataset.from_tensors(np.array(numbers, np.int64)).map(store.examples().get)
    (batch,) = data.as_numpy_iterator()
    return batch  # type: ignore[no-any-return]


def free(store: ExampleStore) -> None:
    """Close it and wait until its memory is freed."""
    store.close()
    for thread in threading.enumerate():
        if thread.name == "tfwatch-cache":
            thread.join(10)


def test_cached_examples_are_read_bit_for_bit_in_any_order() -> None:
    store = make()
    store.open()
    given = keep(store, [3, 1, 4, 0, 9])
    np.testing.assert_array_equal([image for image, _ in given], rows([3, 1, 4, 0, 9])[0])
    images, labels = read(store, [9, 3, 1])
    np.testing.assert_array_equal(images, rows([9, 3, 1])[0])
    assert labels.tolist() == [9, 3, 1]
    assert [bool(store.examples().has(number)) for number in range(COUNT)] == [
        n in (3, 1, 4, 0, 9) for n in range(COUNT)
    ]
    assert not store.is_settled
    keep(store, [2, 5, 6, 7, 8])
    assert store.examples().is_full
    assert store.is_settled


def test_off_empties_the_cache_and_frees_its_memory() -> None:
    store = make()
    store.open()
    keep(store, list(range(COUNT)))
    before = store.examples()
    free(store)
    assert not store.is_open
    # The system has the pages back: they read as zeros.
    assert not before._parts[0].array.any()
    assert before._parts[0]._variable.shape[0] is None
    assert before._parts[0].read().shape[0] == 0
    store.open()
    assert not any(bool(store.examples().has(number)) for number in range(COUNT))


def test_memory_grows_as_the_cache_fills_and_is_freed_at_once() -> None:
    process, store = psutil.Process(), make(2**40, (MEGABYTE // 4,), 96)
    store.open()
    kept = store.examples()
    empty = process.memory_info().rss
    for number in range(96):
        kept.keep(number, np.full(MEGABYTE // 4, number, np.float32), np.int32(number))
    full = process.memory_info().rss
    free(store)
    assert full - empty > 64 * MEGABYTE
    assert full - process.memory_info().rss > 64 * MEGABYTE


def test_a_cache_that_needs_more_than_half_of_the_free_memory_is_refused() -> None:
    store = make(available=6.2 * 2**30, shape=(10, MEGABYTE), count=100)
    with pytest.raises(
        CannotRebuildError,
        match=r"needs 3\.9 GB, more than half of the 6\.2 GB of memory that are free",
    ):
        store.open()
    assert not store.is_open


def raises() -> float:
    raise OSError("no")


@pytest.mark.parametrize(
    ("at_last", "why"),
    [
        (lambda: 2**40 // 9, "little memory is left"),
        (raises, "free memory cannot be read (OSError: no)"),
    ],
)
def test_it_stops_filling_if_memory_is_low_or_unknown(
    at_last: Callable[[], float], why: str
) -> None:
    available, sentences = [lambda: 2.0**40, lambda: 2.0**40, at_last], list[str]()
    spec = [tf.TensorSpec((MEGABYTE,), tf.float32)]
    store = ExampleStore(
        40, spec, lambda: (available.pop(0) if len(available) > 1 else available[0])()
    )
    store.notify = sentences.append
    store.open()
    for number in range(40):
        store.examples().keep(number, np.full(MEGABYTE, number, np.float32))
    assert sentences[-1] == f"the cache stopped filling: {why}; it keeps 16 of 40 examples"
    assert store.examples().is_stopped
    assert store.is_settled
    assert [bool(store.examples().has(number)) for number in (15, 16)] == [True, False]
