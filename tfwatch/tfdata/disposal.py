"""Lets go of tf.data iterators in threads where nobody waits for it.

Deleting an iterator waits for tf.data's autotuning thread, which now and then misses its wake-up and sleeps on: up
to 27 s were seen in a training. An iterator goes with its last handle, and a data set that reads from it holds one.
Such data sets lie in reference cycles, which the garbage collector frees in whatever thread it happens to run, the
training's above all; so the iterator is held here until nobody else holds it.
"""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from queue import SimpleQueue
from typing import Any

# Of what tells another thread something, only `SimpleQueue.put` may be called where the garbage collector calls: it
# runs in any thread at any moment, also in the one that waits. That one, stopped while it held an `Event`'s lock,
# waited for itself for ever, and Python never collected again.


class Gone:
    """Tells when an object has been freed."""

    def __init__(self, thing: Any) -> None:
        freed = self._freed = SimpleQueue[None]()
        self._reference = weakref.ref(thing, lambda _: freed.put(None))

    def wait(self) -> None:
        """Wait for it, once."""
        self._freed.get()


def let_go(pipelines: list[Any], sources: list[Any], built: list[Gone]) -> None:
    """Drop pipelines, then, once what was `built` on them is gone, their sources.

    The lists hold the last references that the caller has, and are emptied. Where the system gives no more threads the
    caller waits for it himself.
    """
    if any(held is not None for held in (*pipelines, *sources)):
        arguments = (pipelines, sources, built)
        try:
            threading.Thread(target=_bury, args=arguments, name="tfwatch-disposal", daemon=True).start()
        except RuntimeError:
            pipelines.clear()
            sources.clear()


def _bury(pipelines: list[Any], sources: list[Any], built: list[Gone]) -> None:
    pipelines.clear()
    for gone in built:
        gone.wait()
    with Collections() as collections:
        while any(_is_held(sources, n) for n in range(len(sources))):
            collections.wait()
    sources.clear()


def _is_held(sources: list[Any], n: int) -> bool:
    """Whether anybody but the list holds an iterator, or anybody but the iterator its handle."""
    if sys.getrefcount(sources[n]) > 2:  # the list, and the call
        return True
    handle = getattr(sources[n], "_iterator_resource", None)
    return handle is not None and sys.getrefcount(handle) > 3  # the iterator, this function, and the call


class Collections:
    """Waits for the garbage collector to end a pass."""

    def __init__(self) -> None:
        self._over = SimpleQueue[None]()

    def __enter__(self) -> Collections:
        gc.callbacks.append(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        gc.callbacks.remove(self._note)

    def _note(self, phase: str, _: dict[str, int]) -> None:
        if phase == "stop":
            self._over.put(None)

    def wait(self) -> None:
        """Wait for the end of the next pass that nobody waited for yet."""
        self._over.get()
