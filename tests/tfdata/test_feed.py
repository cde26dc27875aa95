"""A tf.data service that runs already as the feed of a fit: what moves, and what is refused."""

import socket
from typing import Any

import pytest
import tensorflow as tf

from tfwatch.tfdata.feed import feed
from tfwatch.tfdata.pipeline_tree import CannotRebuildError

pytestmark = pytest.mark.tensorflow


def twice(number: Any) -> Any:
    return number * 2


def test_the_moved_part_gives_each_element_once_in_batches_of_the_script() -> None:
    from tensorflow.data.experimental import service

    dispatcher = service.DispatchServer()
    address = dispatcher.target.partition("://")[2]
    worker = service.WorkerServer(service.WorkerConfig(address))
    data = tf.data.Dataset.range(101).shuffle(10, seed=1).map(twice).batch(8).prefetch(2)
    fed, sentence = feed(data, address)
    epochs = [list(fed.as_numpy_iterator()) for _ in range(2)]
    values = [[int(value) for batch in epoch for value in batch] for epoch in epochs]
    assert [sorted(epoch) for epoch in values] == [[2 * n for n in range(101)]] * 2
    assert values[0] != values[1]  # a worker repeats the order of a seed
    assert [len(batch) for batch in epochs[0]] == [8] * 12 + [5]
    assert int(fed.cardinality()) == 13
    assert sentence.startswith("feed: all up to map(twice) runs in the workers")
    assert "in another order" in sentence
    del worker


def test_what_the_service_cannot_run_is_refused_with_its_reason() -> None:
    numbers, factor = tf.data.Dataset.range(5), tf.Variable(2, dtype=tf.int64)
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    map_and_batch = tf.data.experimental.map_and_batch
    refused = {
        "calls Python": numbers.map(lambda n: tf.py_function(twice, [n], tf.int64)).batch(2),
        "uses a variable": numbers.map(lambda n: n * factor).batch(2),
        r"take\(3\) is not known to give": numbers.map(twice).take(3).batch(2),
        "after the last batch": numbers.batch(2).map(twice),
        "no map moves without its batch": numbers.apply(map_and_batch(twice, 2)).repeat(),
        "cache is not known to give": numbers.map(twice).cache().batch(2),
        "has distributed": strategy.experimental_distribute_dataset(numbers.batch(2)),
        "not a tf.data.Dataset": [1.0, 2.0],
    }
    for why, data in refused.items():
        with pytest.raises(CannotRebuildError, match=why):
            feed(data, "localhost:1")


def test_an_address_where_nothing_listens_is_refused_before_tensorflow_waits_for_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(CannotRebuildError, match=rf"no tf.data service responds at .*:{port}: "):
        feed(tf.data.Dataset.range(5).map(twice).batch(2), f"127.0.0.1:{port}")
