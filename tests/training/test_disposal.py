"""Iterators go in a thread of their own, and last of all who hold them."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

from tfwatch.core.knobs import Knobs

pytestmark = pytest.mark.tensorflow


def test_a_source_goes_in_the_disposal_thread_once_the_collector_has_freed_its_pipelines() -> None:
    import tensorflow as tf

    from tfwatch.training.feed import Feed, prefetch_only

    gone_in: list[str] = []
    gone = threading.Event()

    def note(_: object) -> None:
        gone_in.append(threading.current_thread().name)
        gone.set()

    feed = Feed(prefetch_only)
    source = iter(tf.data.Dataset.range(10))
    reference = weakref.ref(source, note)
    feed.start(source, Knobs(2))
    feed.get()
    feed.switch(Knobs("off"))
    while feed.switching:
        feed.get()
    del source
    feed.close()
    for _ in range(1200):  # a minute: deleting an iterator took up to 27 s
        gc.collect()
        if gone.wait(0.05):
            break
    assert reference() is None
    assert gone_in == ["tfwatch-disposal"]
