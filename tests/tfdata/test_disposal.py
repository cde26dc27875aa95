"""Iterators are deleted in a thread of their own, after everything that references them."""

import gc
import subprocess
import sys
import threading
import weakref
from contextlib import suppress
from queue import Empty, SimpleQueue

import pytest
import tensorflow as tf

from tests.runs.processes import wait_until
from tests.tfdata.batches import next_batch
from tfwatch.core.knobs import Knobs
from tfwatch.tfdata import disposal
from tfwatch.tfdata.disposal import CollectionPasses
from tfwatch.tfdata.live_switch import SwitchablePipeline
from tfwatch.tfdata.work_ahead import prefetch_only


def test_a_collection_in_the_waiting_thread_causes_no_deadlock() -> None:
    with CollectionPasses() as collections:

        def run() -> None:
            sys.setprofile(lambda *_: gc.collect(0))  # at each call within
            collections.wait()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(timeout=10)
        assert not thread.is_alive()


@pytest.mark.tensorflow
def test_a_source_is_deleted_in_the_disposal_thread_after_its_pipelines_are_collected() -> None:
    gone_in = SimpleQueue[str]()

    def note(_: object) -> None:
        gone_in.put(threading.current_thread().name)

    feed = SwitchablePipeline(prefetch_only)
    source = iter(tf.data.Dataset.range(10))
    reference = weakref.ref(source, note)
    feed.start(source, Knobs("2"))
    next_batch(feed)
    feed.switch(Knobs("off"))
    while feed.is_switching:
        next_batch(feed)
    del source
    feed.close()
    for _ in range(1200):  # a minute: deleting an iterator took up to 27 s
        gc.collect()
        with suppress(Empty):
            assert gone_in.get(timeout=0.05) == "tfwatch-disposal"
            break
    assert reference() is None


@pytest.mark.tensorflow
def test_an_evicted_pipeline_is_deleted_in_the_disposal_thread() -> None:
    gone_in = SimpleQueue[str]()
    feed = SwitchablePipeline(prefetch_only)
    feed.start(iter(tf.data.Dataset.range(100)), Knobs("1"))
    first = weakref.ref(feed.iterator, lambda _: gone_in.put(threading.current_thread().name))
    for depth in range(2, 9):
        feed.switch(Knobs(str(depth)))
        next_batch(feed)
        while feed.is_switching:
            next_batch(feed)
    assert gone_in.get(timeout=60) == "tfwatch-disposal"
    assert first() is None
    feed.close()


def close_some(count: int) -> None:
    for _ in range(count):
        feed = SwitchablePipeline(prefetch_only)
        feed.start(iter(tf.data.Dataset.range(10)), Knobs("2"))
        next_batch(feed)
        feed.close()


@pytest.mark.tensorflow
def test_where_many_pipelines_wait_for_the_collector_a_disposal_collects() -> None:
    gc.disable()
    try:
        close_some(3 * disposal._MAX_WAITING)
        wait_until(lambda: len(disposal._waiting) < disposal._MAX_WAITING)
    finally:
        gc.enable()


@pytest.mark.tensorflow
def test_closed_pipelines_do_not_wait_for_the_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that waits for it keeps three threads, and malloc does not give all of their memory
    back."""
    monkeypatch.setattr(disposal, "_MAX_WAITING", 1000)
    others = len(disposal._waiting)  # of earlier tests: see below
    gc.disable()
    try:
        close_some(3)
        wait_until(lambda: len(disposal._waiting) <= others)
    finally:
        gc.enable()


@pytest.mark.tensorflow
def test_closed_pipelines_leave_no_function() -> None:
    def functions() -> int:
        gc.collect()
        return sum(type(thing).__name__ == "AtomicFunction" for thing in gc.get_objects())

    def is_settled() -> bool:
        gc.collect()
        return len(disposal._waiting) <= others

    others = len(
        disposal._waiting
    )  # of earlier tests: what was frozen after a module is collected no more
    close_some(2)
    # A list of all objects refers to the iterators too: a disposal that looks meanwhile waits for
    # the next pass.
    wait_until(is_settled)
    few = functions()
    close_some(10)
    # A disposal in its own thread frees the last ones.
    wait_until(lambda: is_settled() and functions() <= few)


_ENDS_WHILE_DELETING = """
import threading
import time
from tfwatch.tfdata import disposal

begun = threading.Event()

class Iterator:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        begun.set()
        time.sleep(0.2)
        print(self.name, flush=True)

disposal.dispose([Iterator("deleted")], [], [])
begun.wait(20)
disposal._wait_for_deletions()
disposal._delete([Iterator("kept")])
"""


def test_a_process_ends_after_deletions_that_have_begun_and_begins_no_others() -> None:
    """A thread that comes back from TensorFlow while Python ends aborts the process."""
    done = subprocess.run(
        [sys.executable, "-c", _ENDS_WHILE_DELETING], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["deleted"]


_ENDS_BESIDE = """
import threading
from tfwatch.tfdata.disposal import start_awaited

def work():
    threading.main_thread().join()
    print("done", flush=True)

start_awaited("warm-up", work)
"""


def test_a_process_ends_after_the_threads_that_run_tensorflow() -> None:
    """One that comes back from TensorFlow while Python ends aborts the process."""
    done = subprocess.run(
        [sys.executable, "-c", _ENDS_BESIDE], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["done"]
