"""Delete tf.data iterators in threads of their own, so that the training does not wait.

Deleting an iterator waits for tf.data's autotuning thread, which sometimes misses its wake-up: up
to 27 s in a training. The last handle deletes the iterator, and the functions of a data set that
reads from it hold a handle. Their graphs are in reference cycles, which `free_with_functions`
breaks. What it does not break the garbage collector frees in any thread, mostly in the training's;
so this module holds the iterator until it has the last reference.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import sys
import threading
import weakref
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from tfwatch.tfdata.stage_names import nodes_of

if TYPE_CHECKING:
    from collections.abc import Callable

# Callbacks of the garbage collector may only use `SimpleQueue.put` to signal another thread: the
# collector runs in any thread at any moment, also in the one that waits. A waiting thread that held
# an `Event`'s lock deadlocked with itself, and Python never collected again.


class FreedSignal:
    """Signals that an object has been freed."""

    def __init__(self, thing: Any) -> None:
        freed = self._freed = SimpleQueue[None]()
        self._reference = weakref.ref(thing, lambda _: freed.put(None))

    @property
    def is_freed(self) -> bool:
        """True once the object has been freed."""
        return self._reference() is None

    def wait(self) -> None:
        """Wait until the object has been freed; call it once."""
        self._freed.get()


def start_awaited(name: str, work: Callable[..., None], *arguments: Any) -> threading.Thread:
    """Run functions of TensorFlow in a thread of their own, and return it. It is no daemon: Python
    waits for it, as a thread that comes back from TensorFlow's C++ while Python ends aborts the
    process.

    Raises:
        RuntimeError: the system has no thread left.
    """
    thread = threading.Thread(target=work, args=arguments, name=f"tfwatch-{name}")
    thread.start()
    return thread


#: The functions of tfwatch's own stages whose graphs are freed with them.
_own_functions: weakref.WeakSet[Any] = weakref.WeakSet()


def free_with_functions(dataset: Any) -> None:
    """Have what the functions of a data set of tfwatch's own captured freed with these, and not by
    the collector.

    An epoch's pipeline that waits for the collector keeps three threads, and 1.5 MB. A private name
    that this TensorFlow lacks leaves it to the collector.
    """
    with suppress(ImportError, AttributeError):
        from tensorflow.python.framework.func_graph import dismantle_func_graph

        functions = [
            wrapper.function for node in nodes_of(dataset) for wrapper in node._functions()
        ]
        for function in functions:
            if function not in _own_functions:
                _own_functions.add(function)
                weakref.finalize(
                    function, _break, function.graph, dismantle_func_graph
                ).atexit = False


def _break(graph: Any, dismantle: Callable[[Any], None]) -> None:
    with suppress(Exception):  # private names, which may change; the collector frees the graph then
        dismantle(graph)
        # Its tensors refer to it too, and a list of captures that TensorFlow caches holds the
        # iterator's handle.
        graph.inputs = graph.outputs = graph.structured_outputs = graph._function_captures = None


def dispose(pipelines: list[Any], sources: list[Any], built: list[FreedSignal]) -> None:
    """Drop pipelines, then their sources once the data sets `built` on them are freed.

    The lists hold the caller's last references and are emptied. If the system has no thread left,
    the caller drops them itself and waits.
    """
    if any(item is not None for item in (*pipelines, *sources)):
        arguments = (pipelines, sources, built)
        try:
            threading.Thread(
                target=_dispose, args=arguments, name="tfwatch-disposal", daemon=True
            ).start()
        except RuntimeError:
            pipelines.clear()
            sources.clear()


def dispose_unless_referenced(last: list[Any]) -> None:
    """Drop an iterator that others may reference, as Keras does to the end of a `fit`: then they
    delete it."""
    if last[0] is not None and sys.getrefcount(last[0]) > 2:  # the list, and the call
        last.clear()
    dispose(last, [], [])


#: Disposals that wait for the garbage collector, an entry each. It passes over old objects seldom,
#: for a process with TensorFlow every few minutes: with as many, a disposal collects itself. That
#: takes 10 ms under `tfwatch train`, which freezes what there is, and 100 ms in a script.
_waiting: list[None] = []
_MAX_WAITING = 8


def _dispose(pipelines: list[Any], sources: list[Any], built: list[FreedSignal]) -> None:
    _delete(pipelines)
    _waiting.append(None)
    try:
        if len(_waiting) >= _MAX_WAITING:
            with _Deletion() as is_allowed:
                if is_allowed:
                    gc.collect()
        _dispose_sources(sources, built)
    finally:
        _waiting.pop()


def _dispose_sources(sources: list[Any], built: list[FreedSignal]) -> None:
    for freed in built:
        freed.wait()
    with CollectionPasses() as passes:
        while any(_is_referenced(sources, n) for n in range(len(sources))):
            passes.wait()
    _delete(sources)


def _is_referenced(sources: list[Any], n: int) -> bool:
    """True if an iterator has a reference beside the list's, or its handle one beside the
    iterator's."""
    if sys.getrefcount(sources[n]) > 2:  # the list, and the call
        return True
    handle = getattr(sources[n], "_iterator_resource", None)
    return (
        handle is not None and sys.getrefcount(handle) > 3
    )  # the iterator, this function, and the call


#: At its end the process waits at most so long, seconds, for iterators that are being deleted: a
#: deletion took 27 s at most.
_LONGEST_S = 30.0
_deleting: set[threading.Lock] = set()
_ends = threading.Event()


class _Deletion:
    """A span in which iterators are deleted, for which the end of the process waits. Within it is
    false once the process ends: a thread that comes back from TensorFlow's C++ while Python ends
    aborts the process.
    """

    def __enter__(self) -> bool:
        self._is_open = threading.Lock()
        self._is_open.acquire()
        _deleting.add(self._is_open)
        return not _ends.is_set()

    def __exit__(self, *_: object) -> None:
        _deleting.discard(self._is_open)
        self._is_open.release()


def _delete(iterators: list[Any]) -> None:
    """Drop the last references; keep them for ever once the process ends."""
    with _Deletion() as is_allowed:
        if not is_allowed:
            for one in iterators:
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))
        iterators.clear()


@atexit.register
def _wait_for_deletions() -> None:
    _ends.set()
    for is_open in list(_deleting):
        is_open.acquire(timeout=_LONGEST_S)


class CollectionPasses:
    """Waits for passes of the garbage collector."""

    def __init__(self) -> None:
        self._phases = SimpleQueue[str]()
        # Not a function of Python's: a ctrl+c that came during the pass would be raised in it, and
        # dropped.
        self._put: Any = self._phases.put

    def __enter__(self) -> CollectionPasses:
        gc.callbacks.append(self._put)
        return self

    def __exit__(self, *_: object) -> None:
        gc.callbacks.remove(self._put)

    def wait(self) -> None:
        """Wait for the end of the next pass."""
        while self._phases.get() != "stop":
            pass


#: The objects whose iterators no forked process deletes.
_kept_when_forked: weakref.WeakSet[Any] = weakref.WeakSet()


def keep_when_forked(holder: Any) -> None:
    """Have a forked process never free an object, or the iterators that it references.

    Deleting an iterator waits for threads that only the parent has: the forked process would never
    end.
    """
    _kept_when_forked.add(holder)


def _keep_for_ever() -> None:
    for holder in list(_kept_when_forked):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(holder))


os.register_at_fork(after_in_child=_keep_for_ever)
os.register_at_fork(after_in_child=_deleting.clear)
