"""The tf.data service as a feed: what moves, what is refused, and lost workers."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any

import pytest

from tfwatch.tfdata.feed import processes
from tfwatch.tfdata.feed.processes import (
    FeedError,
    LocalFeed,
    ServiceProcess,
    find_workers,
    start_local,
)

if TYPE_CHECKING:
    from pathlib import Path


def _sleeper() -> ServiceProcess:
    return ServiceProcess(
        "worker",
        "localhost",
        "",
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1, text=True),
    )


def test_a_lost_worker_is_named_once_and_stop_leaves_nothing() -> None:
    feed = LocalFeed(_sleeper(), [_sleeper(), _sleeper()])
    feed.workers[1].process.kill()
    feed.workers[1].process.wait(5)
    assert [sentence[:37] for sentence in feed.newly_lost()] == [
        "feed: worker 2 ended, 1 of 2 left; el"
    ]
    assert feed.newly_lost() == []
    assert feed.dispatcher
    feed.dispatcher.process.kill()
    feed.dispatcher.process.wait(5)
    assert feed.newly_lost() == ["feed: the dispatcher ended"]
    feed.stop()


def test_stop_leaves_nothing_and_is_no_loss() -> None:
    feed = LocalFeed(_sleeper(), [_sleeper(), _sleeper()])
    for one in feed._all:
        one.address = "localhost:1"
    feed.stop()
    assert not feed.can_serve
    assert feed.newly_lost() == []
    assert list(feed.restart_lost()) == []


def test_the_journal_of_a_service_that_was_killed_is_removed_and_no_other_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ended = _sleeper().process
    ended.kill()
    ended.wait(5)
    begin = processes._journals()
    for name in (
        f"{begin}{ended.pid}-stale",
        f"{begin}{os.getpid()}-own",
        "tfwatch-feed-other-1-x",
        f"{begin}x",
    ):
        (tmp_path / name / "journal").mkdir(parents=True)
    processes.remove_stale_journals()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [f"{begin}{os.getpid()}-own", "tfwatch-feed-other-1-x", f"{begin}x"]
    )


def test_a_failed_start_names_its_reason() -> None:
    with socket.create_server(("", 0)) as used:
        with pytest.raises(FeedError, match=r"dispatcher .* did not start: port .* in use"):
            start_local(1, port=used.getsockname()[1])
        address = f"localhost:{used.getsockname()[1]}"
    with pytest.raises(
        FeedError, match=rf"no dispatcher .* responds at {address}: Connection refused"
    ):
        find_workers(address)


@pytest.mark.tensorflow
def test_the_moved_part_gives_each_element_once_in_batches_of_the_script_also_after_a_restart() -> (
    None
):
    import tensorflow as tf

    from tfwatch.tfdata.feed.moved_part import find_moved_part

    options = tf.data.Options()
    options.experimental_optimization.map_parallelization = False
    data = (
        tf.data.Dataset.range(101)
        .shuffle(10, seed=1)
        .map(_twice)
        .batch(8)
        .prefetch(2)
        .with_options(options)
    )
    part = find_moved_part(data)
    assert part.below.options().experimental_optimization.map_parallelization is False
    feed = start_local(1)
    try:
        fed = part.through(feed.address, is_local=True)
        batches = list(fed.as_numpy_iterator())
        for lost in (feed.dispatcher, feed.workers[0]):
            assert lost
            lost.process.kill()
            lost.process.wait(5)
        restarted = list(feed.restart_lost())
        again = [value for batch in fed.as_numpy_iterator() for value in batch]
    finally:
        feed.stop()
    assert sorted(value for batch in batches for value in batch) == [2 * n for n in range(101)]
    assert sorted(again) == [2 * n for n in range(101)]
    assert restarted == ["feed: the dispatcher runs again", "feed: worker 1 runs again"]
    assert [
        value for batch in batches for value in batch
    ] != again  # a worker repeats the order of a seed
    assert int(fed.cardinality()) == 13
    assert [len(batch) for batch in batches] == [8] * 12 + [5]
    assert not feed.can_serve


def _twice(number: Any) -> Any:
    return number * 2


@pytest.mark.tensorflow
def test_the_pipelines_of_workloads_move_up_to_their_batch() -> None:
    import numpy as np

    from tfwatch.core.knobs import Knobs
    from tfwatch.tfdata.feed.moved_part import find_moved_part
    from tfwatch.tfdata.rebuilding.pipeline_tree import label_of
    from tfwatch.workloads.data import jpeg, numbered_examples

    files = jpeg.movable_source([b"a.jpg"] * 9, np.zeros(9, np.int32), 4)
    images = jpeg.pipeline(files, Knobs(), batch_size=4, image_size=32)
    numbers = numbered_examples.movable_source(9, 4)
    examples = numbered_examples.pipeline(numbers, Knobs(), pick=_twice, batch_size=4)
    parts = [find_moved_part(data) for data in (images, examples)]
    assert [label_of(part.below) for part in parts] == ["map(augment)", "map(twice)"]
    assert [int(part.top.cardinality()) for part in parts] == [-2, -2]


@pytest.mark.tensorflow
def test_what_the_service_cannot_run_is_refused_with_its_reason() -> None:
    import tensorflow as tf

    from tfwatch.tfdata.feed.moved_part import find_moved_part
    from tfwatch.tfdata.rebuilding.pipeline_tree import CannotRebuildError

    numbers, factor = tf.data.Dataset.range(5), tf.Variable(2, dtype=tf.int64)
    refused = {
        "calls Python": numbers.map(lambda n: tf.py_function(_twice, [n], tf.int64)).batch(2),
        "uses a variable": numbers.map(lambda n: n * factor).batch(2),
        "take as many": numbers.map(_twice).take(3).batch(2),
        "after the last batch": numbers.batch(2).map(_twice),
        "another part": numbers.map(_twice).cache().batch(2),
        "has distributed": tf.distribute.MirroredStrategy(
            ["CPU:0"]
        ).experimental_distribute_dataset(numbers.batch(2)),
    }
    for why, data in refused.items():
        with pytest.raises(CannotRebuildError, match=why):
            find_moved_part(data)
